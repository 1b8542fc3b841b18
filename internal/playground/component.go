package playground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// A component that takes longer than startTimeout to be ready, or than stopTimeout to end,
	// counts as stuck.
	startTimeout = 2 * time.Minute
	stopTimeout  = 15 * time.Second
	pollInterval = 50 * time.Millisecond
	// stopAgain is the time that the API server may take to end after the first signal.
	stopAgain = 2 * time.Second
	// portAttempts is how many ports a component tries if its port turns out to be taken.
	portAttempts = 5
)

// errStopped is the error of all starts after a call of Stop.
var errStopped = errors.New("the playground has stopped")

// errPortTaken is the cause of a failed start if another process listens on the port.
var errPortTaken = errors.New("the port is taken")

// componentSpec holds the settings of one component.
type componentSpec struct {
	name string
	path string
	args []string
	env  []string
	// port is the TCP port that the component serves on; 0 for none.
	port int
	// files replaces the names of copies with the names of the user's own files in the component's
	// messages. It may be nil.
	files *strings.Replacer
	// stopAgain is the time until the component is signalled once more, which ends it at once; 0
	// for never.
	stopAgain time.Duration
	// logPath is the file that the component's output is appended to.
	logPath string
	// prepare runs before each start. It may be nil.
	prepare func(ctx context.Context) error
	// ready returns nil once the component does its work, and otherwise an error that names the
	// missing part. With nil, the component is ready at once.
	ready func(ctx context.Context) error
	// ended is called if the component ends by itself after it was ready. With nil, the playground
	// fails.
	ended func(error)
}

// Component is one process of a Playground, such as etcd or the API server. Its methods may be
// called from any goroutine.
type Component struct {
	spec    componentSpec
	spawner *spawner
	// died is called if the process ends by itself after it was ready.
	died func(error)

	// closing is closed when the Playground stops. A start under way is then aborted, and later
	// starts fail.
	closing     chan struct{}
	closingOnce sync.Once

	// operation serializes Start and Kill.
	operation sync.Mutex

	mu sync.Mutex
	// current is the process; nil before the first start. watched is true if its end must be
	// reported.
	current *child
	watched bool
}

// Name returns one of the constants Etcd, APIServer, ControllerManager, Kwok and Scheduler, or the
// name that StartScheduler got.
func (c *Component) Name() string { return c.spec.name }

// LogPath returns the path of the file with the component's output, of all its runs.
func (c *Component) LogPath() string { return c.spec.logPath }

// URL returns the address that the component serves on, or "" if it serves nothing. The address
// stays the same across restarts.
func (c *Component) URL() string {
	if c.spec.port == 0 {
		return ""
	}
	return fmt.Sprintf("https://%s:%d", loopback, c.spec.port)
}

// PID returns the process ID, or 0 while the component is not running. A process that is signalled
// by its ID counts as having died by itself. Use Kill for an end that the Playground accepts.
func (c *Component) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || !c.current.running() {
		return 0
	}
	return c.current.cmd.Process.Pid
}

// Start runs the component again after Kill, with the same arguments and on the same port. It
// returns once the component is ready. The process does not end with ctx. It is an error to start a
// running component.
func (c *Component) Start(ctx context.Context) error {
	c.operation.Lock()
	defer c.operation.Unlock()
	if err := c.start(ctx); err != nil {
		return fmt.Errorf("start %s: %w", c.spec.name, err)
	}
	return nil
}

// Kill sends the component a signal that ends it, and returns once it has ended. After 15 s, Kill
// kills the component with SIGKILL and returns an error. If the component is not running, Kill does
// nothing.
func (c *Component) Kill(signal syscall.Signal) error {
	c.operation.Lock()
	defer c.operation.Unlock()
	return c.kill(signal)
}

// close is Kill without a later Start.
func (c *Component) close(signal syscall.Signal) error {
	c.closingOnce.Do(func() { close(c.closing) })
	return c.Kill(signal)
}

func (c *Component) start(ctx context.Context) error {
	if c.isClosing() {
		return errStopped
	}
	if c.PID() != 0 {
		return errors.New("it is running")
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if c.spec.prepare != nil {
		if err := c.spec.prepare(ctx); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(c.spec.logPath), 0o700); err != nil {
		return err
	}
	process, err := startChild(c.spawner, c.spec.logPath, c.spec.path, c.spec.args, c.spec.env, c.exited)
	if process == nil {
		return err
	}
	c.mu.Lock()
	c.current = process
	c.mu.Unlock()
	if err == nil {
		err = c.waitReady(ctx, process)
	}
	if err != nil {
		return errors.Join(err, c.kill(syscall.SIGTERM))
	}
	return nil
}

func (c *Component) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

func (c *Component) waitReady(ctx context.Context, process *child) error {
	var missing error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if c.isClosing() {
			return false, errStopped
		}
		if !process.running() {
			return false, c.exitError(process)
		}
		if c.spec.ready == nil {
			return true, nil
		}
		missing = c.spec.ready(ctx)
		return missing == nil, nil
	})
	if err == nil && c.watch(process) {
		return nil
	}
	if !process.running() {
		return c.startFailure(process)
	}
	if missing == nil || errors.Is(err, errStopped) {
		return err
	}
	return fmt.Errorf("not ready: %w: %w", context.Cause(ctx), missing)
}

// watch begins to report the end of the process. It returns false if the process has already ended.
func (c *Component) watch(process *child) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = process.running()
	return c.watched
}

// exited handles the end of a process of the component. It runs in that process's goroutine.
func (c *Component) exited(process *child) {
	c.mu.Lock()
	news := c.watched && c.current == process
	c.watched = false
	c.mu.Unlock()
	if news {
		c.died(c.exitError(process))
	}
}

func (c *Component) kill(signal syscall.Signal) error {
	c.mu.Lock()
	c.watched = false
	process := c.current
	c.mu.Unlock()
	if process == nil {
		return nil
	}
	if err := process.stop(signal, c.spec.stopAgain, stopTimeout); err != nil {
		return fmt.Errorf("stop %s: %w", c.spec.name, err)
	}
	return nil
}

func (c *Component) exitError(process *child) *ExitError {
	tail, err := readLogTail(c.spec.logPath, process.logStart, logTailLines)
	if err != nil {
		tail = []string{"(its log cannot be read: " + err.Error() + ")"}
	}
	return &ExitError{Component: c.spec.name, Status: process.status, LogTail: tail}
}

// startFailure returns the error of a process that ended during its start. A taken port is
// errPortTaken.
func (c *Component) startFailure(process *child) error {
	failure := c.exitError(process)
	failure.Words = lastWords(failure.LogTail, filepath.Base(c.spec.path))
	if c.spec.files != nil {
		failure.Words = c.spec.files.Replace(failure.Words)
	}
	if c.spec.port == 0 {
		return failure
	}
	for _, line := range failure.LogTail {
		if strings.Contains(line, "address already in use") {
			return fmt.Errorf("%w: %w", errPortTaken, failure)
		}
	}
	return failure
}

// lastWords returns the last line of a log if the program itself wrote it. Such lines begin with
// the program's name. The lines before come from libraries and do not help users with a faulty
// configuration.
func lastWords(log []string, program string) string {
	if len(log) == 0 || !strings.HasPrefix(log[len(log)-1], program+": ") {
		return ""
	}
	return log[len(log)-1]
}
