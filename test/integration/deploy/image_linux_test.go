package deploy

import (
	"bytes"
	"context"
	"crypto/tls"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// accountPath is the directory in a Pod that contains the ServiceAccount's token.
const accountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// TestImage builds the image for a release from the program in bin/. It runs the image with the
// settings of the Deployment's Pod: a read-only file system, no capabilities, and the
// ServiceAccount's token.
func TestImage(t *testing.T) {
	playgroundtest.BinDir(t, append(playgroundtest.ControlPlane(), name)...)
	root := filepath.Join(t.TempDir(), "root")
	config := buildImage(t).image(t, "linux", runtime.GOARCH, root)
	t.Run("its configuration", func(t *testing.T) { testImageConfig(t, config) })
	t.Run("its files", func(t *testing.T) { testImageFiles(t, root) })
	t.Run("it says its version", func(t *testing.T) { testImageVersion(t, config, root) })
	t.Run("it schedules", func(t *testing.T) { testImageSchedules(t, config, root) })
}

func testImageConfig(t *testing.T, config imageConfig) {
	got := config.Config
	if got.User != fmt.Sprintf("%d:%d", userID, userID) || got.WorkingDir != "/" || len(got.Cmd) > 0 {
		t.Errorf("it is run by %q in %q as %q", got.User, got.WorkingDir, got.Cmd)
	}
	if diff := cmp.Diff([]string{"/" + name}, got.Entrypoint); diff != "" {
		t.Errorf("entrypoint (-want +got):\n%s", diff)
	}
	if _, ok := got.ExposedPorts["10259/tcp"]; !ok {
		t.Errorf("it exposes %v", got.ExposedPorts)
	}
	for label, want := range map[string]string{
		"title": name, "version": "v0.0.0-test", "revision": "0123abc", "created": "2023-11-14T22:13:20Z",
		"source": "https://github.com/reprieve-dev/reprieve", "licenses": "Apache-2.0",
	} {
		if value := got.Labels["org.opencontainers.image."+label]; value != want {
			t.Errorf("the label %s is %q, want %q", label, value, want)
		}
	}
}

// testImageFiles checks that the image contains exactly the program and the required licences.
func testImageFiles(t *testing.T, root string) {
	got := make(map[string]string)
	if err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && path != "." {
			var info fs.FileInfo
			info, err = entry.Info()
			got[path] = info.Mode().String()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		name: "-rwxr-xr-x", "licenses": "drwxr-xr-x", "licenses/LICENSE": "-rw-r--r--", "licenses/THIRD_PARTY_LICENSES": "-rw-r--r--",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	theirs, err := os.ReadFile(filepath.Join(root, "licenses", "THIRD_PARTY_LICENSES"))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"\nGo\n", "\nk8s.io/kubernetes@v", "\nk8s.io/client-go@v", "\ngithub.com/prometheus/client_golang@v"} {
		if !bytes.Contains(theirs, []byte(module)) {
			t.Errorf("there is no licence of %s", strings.TrimSpace(module))
		}
	}
	program, err := elf.Open(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	// The image contains no dynamic loader, so the program must be static.
	if program.Section(".interp") != nil {
		t.Error("the program is not static")
	}
}

func testImageVersion(t *testing.T, config imageConfig, root string) {
	c := container{Root: root, Args: append(config.Config.Entrypoint, "--version")}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	output, err := c.command(t).CombinedOutput()
	skipWhereRefused(t, err, string(output))
	if err != nil || !strings.HasPrefix(string(output), "Reprieve v") {
		t.Errorf("got %v, %s", err, output)
	}
}

// testImageSchedules runs the image as a scheduler on a cluster, and checks that it places a pod.
func testImageSchedules(t *testing.T, config imageConfig, root string) {
	probe := container{Root: root, Args: append(config.Config.Entrypoint, "--version")}
	// The container sets a parent-death signal, so the kernel kills it when the thread that started
	// it ends. So lock this goroutine to its thread while the container runs.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if output, err := probe.command(t).CombinedOutput(); err != nil {
		skipWhereRefused(t, err, string(output))
		t.Fatalf("%v: %s", err, output)
	}
	c := startClusterOf(t, render(t, deployPath(t)), map[string]int{"image": 1}, playground.Options{})
	c.create(t, priorityClass(low, lowValue), priorityClass(high, highValue))
	running := c.startContainer(t, config, root)
	testConfined(t, running.pid)

	c.create(t, newPod("first", "image", low, asks("nvidia.com/gpu", "4")))
	c.waitRunning(t, "first")
	c.create(t, newPod("second", "image", high, asks("nvidia.com/gpu", "4")))
	c.waitGone(t, "first")
	c.waitRunning(t, "second")
	for _, request := range refused(readAudit(t, c.auditLog)) {
		t.Errorf("the API server refused %s", request)
	}
	running.stop(t)
}

// running is a running container.
type running struct {
	pid   int
	log   string
	ended <-chan struct{}
	// signal sends a signal to the container.
	signal func(os.Signal) error
}

// startContainer runs the image like a kubelet that runs the Deployment's Pod. It waits until the
// container is ready.
func (c *cluster) startContainer(t *testing.T, image imageConfig, root string) *running {
	t.Helper()
	server, err := url.Parse(c.playground.RESTConfig().Host)
	if err != nil {
		t.Fatal(err)
	}
	spec := container{
		Root: root,
		Mounts: map[string]string{
			"etc/reprieve": folder(t, root, "etc/reprieve", configMapOf(t, c.manifests).Data),
			accountPath: folder(t, root, accountPath, map[string]string{
				corev1.ServiceAccountTokenKey: c.token(t, namespace, name), corev1.ServiceAccountNamespaceKey: namespace,
				corev1.ServiceAccountRootCAKey: string(c.playground.RESTConfig().CAData),
			}),
		},
		Env: []string{"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()},
	}
	for {
		port := freePort(t)
		spec.Args = image.Config.Entrypoint
		for _, arg := range deploymentOf(t, c.manifests).Spec.Template.Spec.Containers[0].Args {
			if strings.HasPrefix(arg, "--secure-port=") {
				// Replace the port. Another process of this machine may use it, although it is free
				// in a Pod.
				arg = "--secure-port=" + port
			}
			spec.Args = append(spec.Args[:len(spec.Args):len(spec.Args)], arg)
		}
		r, said := spec.start(t, "https://127.0.0.1:"+port+"/readyz")
		if r != nil {
			return r
		}
		if !strings.Contains(said, "address already in use") {
			t.Fatalf("it ended:\n%s", said)
		}
	}
}

// folder writes files to a directory that will be mounted at a path in the container. It also
// creates the mount point.
func folder(t *testing.T, root, at string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, at), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// freePort returns a TCP port that no process uses at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}

// start starts the container and waits until it is ready. If the container ends first, start
// returns its output instead.
func (c *container) start(t *testing.T, probe string) (r *running, said string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := c.command(t)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Ignore the error, because the log shows how the process ended.
		_ = cmd.Wait()
	}()
	r = &running{pid: cmd.Process.Pid, log: log.Name(), ended: ended, signal: cmd.Process.Signal}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Log(r.tail(t))
		}
	})
	// Skip the verification: the scheduler creates a self-signed certificate in memory.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // as a kubelet probes
	t.Cleanup(transport.CloseIdleConnections)
	gone := false
	eventually(t, "the container is ready", func(ctx context.Context) string {
		select {
		case <-ended:
			gone = true
			return ""
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, probe, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return err.Error()
		}
		if response.StatusCode != http.StatusOK {
			return response.Status
		}
		return ""
	})
	if gone {
		return nil, r.tail(t)
	}
	return r, ""
}

// tail returns the last part of the container's output.
func (r *running) tail(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(r.log)
	if err != nil {
		t.Fatal(err)
	}
	const most = 4 << 10
	return string(raw[max(0, len(raw)-most):])
}

// stop stops the container like a kubelet.
func (r *running) stop(t *testing.T) {
	t.Helper()
	if err := r.signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.ended:
	case <-time.After(patience):
		t.Error("it does not end when it is asked to")
	}
}

// testConfined checks the privileges of the container's process, and that it cannot write to any
// file system. It reads the data about the process in /proc.
func testConfined(t *testing.T, pid int) {
	t.Helper()
	read := func(file string) string {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	status := read("status")
	none := strings.Repeat("0", 16)
	for field, want := range map[string]string{
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none, "NoNewPrivs": "1",
	} {
		if !strings.Contains(status, "\n"+field+":\t"+want+"\n") {
			t.Errorf("%s is not %s: %s", field, want, status)
		}
	}
	if os.Geteuid() == 0 && !strings.Contains(status, fmt.Sprintf("\nUid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", userID)) {
		t.Errorf("it is another user: %s", status)
	}
	mounts := strings.Split(strings.TrimSpace(read("mountinfo")), "\n")
	if len(mounts) != 3 {
		t.Errorf("want three mounts:\n%s", strings.Join(mounts, "\n"))
	}
	for _, mount := range mounts {
		// The sixth field of a line has the options of the mount.
		if fields := strings.Fields(mount); len(fields) < 6 || !strings.HasPrefix(fields[5], "ro,") {
			t.Errorf("it may write to %s", mount)
		}
	}
}
