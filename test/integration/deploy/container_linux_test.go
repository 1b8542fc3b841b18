package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// enterVariable is an environment variable. If it is set, the test program becomes a container
// instead of running tests. Its value is a container in JSON.
const enterVariable = "REPRIEVE_TEST_CONTAINER"

// These are the exit codes if the test program cannot become a container.
const (
	exitRefused = 76
	exitFailed  = 77
)

// userID is the user ID in the securityContext of the manifests.
const userID = 65532

// container describes a container that the test program can become.
type container struct {
	// Root is the directory with the file system of the container. It is mounted read-only.
	Root string
	// Mounts maps a path in the container to a directory of the machine. The directories are
	// mounted read-only.
	Mounts map[string]string
	// Args has the program and its arguments.
	Args []string
	// Env has the environment variables of the program.
	Env []string
}

func TestMain(m *testing.M) {
	text, becomes := os.LookupEnv(enterVariable)
	if !becomes {
		os.Exit(m.Run())
	}
	var c container
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = c.enter()
	}
	fmt.Fprintln(os.Stderr, "container:", err)
	if errors.Is(err, errRefused) {
		os.Exit(exitRefused)
	}
	os.Exit(exitFailed)
}

// errRefused is wrapped by errors about an operation that the kernel does not permit to the current
// user.
var errRefused = errors.New("the kernel refuses")

// command returns the command that runs the container in new namespaces. If the current user is not
// root, it also creates a user namespace. The container uses the network of the machine.
func (c *container) command(t *testing.T) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = []string{enterVariable + "=" + string(text)}
	cmd.Dir = "/"
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS}
	if os.Geteuid() != 0 {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: userID, HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: userID, HostID: os.Getgid(), Size: 1}}
		// Keep these capabilities. Without this setting, a user other than root loses them when the
		// program starts.
		attributes.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
	}
	cmd.SysProcAttr = attributes
	return cmd
}

// enter turns this process into the container. It returns only if it fails.
func (c *container) enter() error {
	// The settings below apply to the current thread. The container's program inherits them from
	// this thread.
	runtime.LockOSThread()
	if err := c.mount(); err != nil {
		return fmt.Errorf("file system: %w", err)
	}
	if err := confine(); err != nil {
		return fmt.Errorf("rights: %w", err)
	}
	if err := unix.Exec(c.Args[0], c.Args, c.Env); err != nil {
		return fmt.Errorf("run %s: %w", c.Args[0], err)
	}
	return nil
}

// mount changes the file system of this process to the file system of the container.
func (c *container) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return refusal("make the mounts private", err)
	}
	if err := bind(c.Root, c.Root); err != nil {
		return err
	}
	for at, from := range c.Mounts {
		if err := bind(from, filepath.Join(c.Root, at)); err != nil {
			return err
		}
	}
	// pivot_root mounts the old root over the new root. Unmount the old root.
	if err := unix.Chdir(c.Root); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return refusal("change the root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return refusal("leave the old root", err)
	}
	return unix.Chdir("/")
}

// bind mounts a directory read-only.
func bind(from, at string) error {
	if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
		return refusal("mount "+from, err)
	}
	const flags = unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("", at, "", flags, ""); err != nil {
		return refusal("mount read-only "+from, err)
	}
	return nil
}

// confine drops the privileges of this process like a container runtime with "drop: [ALL]",
// "allowPrivilegeEscalation: false" and "runAsUser".
func confine() error {
	for capability := uintptr(0); ; capability++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			// The kernel has no more capabilities.
			break
		}
		if err != nil {
			return refusal("drop a capability", err)
		}
	}
	if os.Getuid() != userID {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(userID, userID, userID), syscall.Setresuid(userID, userID, userID)); err != nil {
			return fmt.Errorf("become another user: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop the capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keep from new rights: %w", err)
	}
	// Kill this process when its parent thread ends. A change of the user resets this setting. So
	// make this call after the change of the user.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the test: %w", err)
	}
	return nil
}

// refusal wraps errRefused if the kernel did not permit an operation. Other errors are mistakes of
// the test.
func refusal(what string, err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w: %s: %w", errRefused, what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// skipWhereRefused skips the test if the machine does not permit containers. err and output are the
// result of a container's command.
func skipWhereRefused(t *testing.T, err error, output string) {
	t.Helper()
	var ended *exec.ExitError
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOSPC):
		// The kernel does not let the user create namespaces, or the user has reached the limit.
		t.Skipf("not run in a container, as the kernel lets user %d make none: %v", os.Getuid(), err)
	case errors.As(err, &ended) && ended.ExitCode() == exitRefused:
		t.Skipf("not run in a container, as the kernel lets user %d make none: %s", os.Getuid(), output)
	}
}
