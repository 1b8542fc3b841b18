package playground

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const shell = "/bin/sh"

// quick is a generous upper limit for any step of these tests.
const quick = 10 * time.Second

func newTestSpawner(t *testing.T) *spawner {
	t.Helper()
	s := newSpawner()
	t.Cleanup(s.close)
	return s
}

// newShellComponent returns a component that runs a shell script. If the component dies, the error
// is sent to the channel.
func newShellComponent(t *testing.T, script string) (*Component, <-chan error) {
	t.Helper()
	deaths := make(chan error, 1)
	c := &Component{
		spec: componentSpec{
			name:    "sample",
			path:    shell,
			args:    []string{"-c", script},
			logPath: filepath.Join(t.TempDir(), "logs", "sample.log"),
		},
		spawner: newTestSpawner(t),
		died:    func(err error) { deaths <- err },
		closing: make(chan struct{}),
	}
	t.Cleanup(func() {
		if err := c.close(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	return c, deaths
}

func TestComponentDies(t *testing.T) {
	// The script ends when the file gate exists.
	gate := filepath.Join(t.TempDir(), "gate")
	c, deaths := newShellComponent(t, fmt.Sprintf(`
		for i in $(seq 30); do echo line $i; done
		while [ ! -e %s ]; do sleep 0.02; done
		exit 7`, gate))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-deaths:
		var exit *ExitError
		if !errors.As(err, &exit) || exit.Component != "sample" || exit.Status != "exit status 7" {
			t.Fatalf("got %v, want that sample died with status 7", err)
		}
		if len(exit.LogTail) != logTailLines || exit.LogTail[logTailLines-1] != "line 30" {
			t.Errorf("the end of the log is %q", exit.LogTail)
		}
		if want := "sample died: exit status 7; the end of its log:\nline 11\n"; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("message %q, want it to begin with %q", err, want)
		}
	case <-time.After(quick):
		t.Fatal("the death is not reported")
	}
	if pid := c.PID(); pid != 0 {
		t.Errorf("it has process %d", pid)
	}
}

func TestComponentKillIsNoDeath(t *testing.T) {
	c, deaths := newShellComponent(t, "echo run; exec sleep 1000")
	for range 2 {
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		pid := c.PID()
		if err := c.Kill(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", pid, err)
		}
		if err := c.Kill(syscall.SIGTERM); err != nil {
			t.Errorf("killed twice: %v", err)
		}
	}
	select {
	case err := <-deaths:
		t.Errorf("reported: %v", err)
	default:
	}
}

func TestComponentStartFails(t *testing.T) {
	never := errors.New("not yet")
	for name, test := range map[string]struct {
		script string
		change func(*Component)
		want   string
	}{
		"it ends before it is ready": {
			script: "echo bad flag; exit 2",
			change: func(c *Component) { c.spec.ready = func(context.Context) error { return never } },
			want:   "start sample: sample died: exit status 2; the end of its log:\nbad flag",
		},
		"it cannot be prepared": {
			script: "exec sleep 1000",
			change: func(c *Component) { c.spec.prepare = func(context.Context) error { return never } },
			want:   "start sample: not yet",
		},
		"there is no such program": {
			change: func(c *Component) { c.spec.path = "/does/not/exist" },
			want:   "start sample: fork/exec /does/not/exist: no such file or directory",
		},
		"the playground stops": {
			script: "exec sleep 1000",
			change: func(c *Component) {
				c.spec.ready = func(context.Context) error {
					c.closingOnce.Do(func() { close(c.closing) })
					return never
				}
			},
			want: "start sample: the playground has stopped",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, deaths := newShellComponent(t, test.script)
			test.change(c)
			if err := c.Start(t.Context()); err == nil || err.Error() != test.want {
				t.Errorf("error %q, want %q", err, test.want)
			}
			if pid := c.PID(); pid != 0 {
				t.Errorf("process %d is left", pid)
			}
			if len(deaths) != 0 {
				t.Error("it is reported as a death as well")
			}
		})
	}
}

func TestComponentStartIsCanceled(t *testing.T) {
	c, _ := newShellComponent(t, "exec sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	c.spec.ready = func(context.Context) error {
		cancel()
		return errors.New("not yet")
	}
	err := c.Start(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("error %v, want that it was canceled, and what was missing", err)
	}
	if pid := c.PID(); pid != 0 {
		t.Errorf("process %d is left", pid)
	}
}

func TestChildThatIgnoresSIGTERM(t *testing.T) {
	for name, c := range map[string]struct {
		trap       string
		again      time.Duration
		wantKilled bool
	}{
		"always":           {trap: `trap "" TERM`, wantKilled: true},
		"always, of two":   {trap: `trap "" TERM`, again: 50 * time.Millisecond, wantKilled: true},
		"the first":        {trap: `trap "trap - TERM" TERM`, wantKilled: true},
		"the first of two": {trap: `trap "trap - TERM" TERM`, again: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			patience := 200 * time.Millisecond
			if !c.wantKilled {
				patience = quick
			}
			process := startDeaf(t, c.trap)
			err := process.stop(syscall.SIGTERM, c.again, patience)
			if killed := err != nil && strings.Contains(err.Error(), "killed"); killed != c.wantKilled || !killed && err != nil {
				t.Errorf("error %v, want that it had to be killed: %t", err, c.wantKilled)
			}
			if process.running() {
				t.Error("it is running")
			}
		})
	}
}

// startDeaf starts a child that runs the given trap command and then runs forever.
func startDeaf(t *testing.T, trap string) *child {
	t.Helper()
	c, _ := newShellComponent(t, trap+`; echo deaf; while :; do sleep 0.05; done`)
	c.spec.ready = func(context.Context) error {
		raw, err := os.ReadFile(c.LogPath())
		if err == nil && len(raw) == 0 {
			err = errors.New("the trap is not set")
		}
		return err
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = false
	return c.current
}

func TestPortIsTriedAgain(t *testing.T) {
	p := &Playground{spawner: newTestSpawner(t), dir: &dataDir{path: t.TempDir()}, now: time.Now, done: make(chan struct{})}
	var ports []int
	build := func(port int) (componentSpec, error) {
		ports = append(ports, port)
		script := "exec sleep 1000"
		if len(ports) < 3 {
			script = "echo listen tcp: bind: address already in use; exit 1"
		}
		return componentSpec{name: "sample", path: shell, args: []string{"-c", script}, port: port, ready: func(context.Context) error {
			if len(ports) < 3 {
				return errors.New("not yet")
			}
			return nil
		}}, nil
	}
	c, err := p.launchOnPort(t.Context(), build)
	if err != nil {
		t.Fatal(err)
	}
	if len(ports) != 3 || c.URL() != "https://127.0.0.1:"+strconv.Itoa(ports[2]) || len(p.Components()) != 1 {
		t.Errorf("ports %v, URL %s, %d components", ports, c.URL(), len(p.Components()))
	}
	if _, err := p.launchOnPort(t.Context(), build); err == nil || !strings.Contains(err.Error(), "of that name already") {
		t.Errorf("a second one of the same name: %v", err)
	}
	if err := c.close(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// TestProbeWantsItsOwnServer checks that a component is not ready if a foreign server answers on
// its port.
func TestProbeWantsItsOwnServer(t *testing.T) {
	certs, err := newCertificates(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := listener.Accept()
		if err == nil {
			_, _ = conn.Write([]byte("HTTP/1.0 200 OK\r\n\r\n"))
			_ = conn.Close()
		}
	}()
	if err := probe(t.Context(), certs.adminClient(), "https://"+listener.Addr().String()+"/readyz"); err == nil {
		t.Error("a stranger counts as ready")
	}
	_ = listener.Close()
	<-ended
}
