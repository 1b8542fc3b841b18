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
	// startTimeout is how long a component may take to become ready, and stopTimeout how long to end, before it counts as stuck.
	startTimeout = 2 * time.Minute
	stopTimeout  = 15 * time.Second
	pollInterval = 50 * time.Millisecond
	// stopAgain is how long the API server may take to end by itself.
	stopAgain = 2 * time.Second
	// portAttempts is how often a component is started again on another port when its port turns out to be taken.
	portAttempts = 5
)

// errStopped is what starting anything gives once Stop has been called.
var errStopped = errors.New("the playground has stopped")

// errPortTaken is the cause of a start that failed because somebody else listens on the port.
var errPortTaken = errors.New("the port is taken")

// componentSpec is what one component needs to run.
type componentSpec struct {
	name string
	path string
	args []string
	env  []string
	// port is the TCP port it serves on; 0 if it serves none.
	port int
	// files names the user's own files in what the component says, where it was given copies. Nil is allowed.
	files *strings.Replacer
	// stopAgain is after how long it is asked once more to end, which makes it end at once; 0 for never.
	stopAgain time.Duration
	// logPath is the file its output is appended to.
	logPath string
	// prepare runs before each start. Nil is allowed.
	prepare func(ctx context.Context) error
	// ready returns nil once the component does its work; until then an error that says what is missing. Nil means ready at once.
	ready func(ctx context.Context) error
	// ended is called when it ends on its own once it was ready. Nil has the playground fail.
	ended func(error)
}

// Component is one process of a Playground: etcd, the API server and so on. Its methods may be called from any goroutine.
type Component struct {
	spec    componentSpec
	spawner *spawner
	// died is called when the process ends on its own once it was ready.
	died func(error)

	// closing is closed when the Playground stops: a start that is under way gives up, and none is begun.
	closing     chan struct{}
	closingOnce sync.Once

	// operation serializes Start and Kill.
	operation sync.Mutex

	mu sync.Mutex
	// current is the process, nil before the first start. watched says whether its end is news.
	current *child
	watched bool
}

// Name is one of the constants Etcd, APIServer, ControllerManager, Kwok and Scheduler, or the name given to StartScheduler.
func (c *Component) Name() string { return c.spec.name }

// LogPath is the file that holds the component's output, of all its runs.
func (c *Component) LogPath() string { return c.spec.logPath }

// URL is the address the component serves on, or empty if it serves nothing. It stays the same across restarts.
func (c *Component) URL() string {
	if c.spec.port == 0 {
		return ""
	}
	return fmt.Sprintf("https://%s:%d", loopback, c.spec.port)
}

// PID is the process ID, or 0 while the component is not running. A process that gets a signal by way of its ID counts as
// having died on its own; use Kill for an end that the Playground is to accept.
func (c *Component) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || !c.current.running() {
		return 0
	}
	return c.current.cmd.Process.Pid
}

// Start runs the component again after Kill, with the same arguments and on the same port, and returns once it is ready.
// The process does not end with ctx. Starting a component that runs is an error.
func (c *Component) Start(ctx context.Context) error {
	c.operation.Lock()
	defer c.operation.Unlock()
	if err := c.start(ctx); err != nil {
		return fmt.Errorf("start %s: %w", c.spec.name, err)
	}
	return nil
}

// Kill sends the component a signal that ends it, and returns when it has ended. One that takes longer than 15 s
// is killed, and Kill returns an error. Killing a component that is not running does nothing.
func (c *Component) Kill(signal syscall.Signal) error {
	c.operation.Lock()
	defer c.operation.Unlock()
	return c.kill(signal)
}

// close is Kill for good.
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

// watch makes the end of the process news from now on. It is false when the process has ended already.
func (c *Component) watch(process *child) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = process.running()
	return c.watched
}

// exited is called when a process of the component has ended, in that process's goroutine.
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

// startFailure tells a port that was taken in the meantime from every other reason for a process to end at its start.
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

// lastWords is the last line of a log, if it is the program's own, which begins with its name: all before is of
// libraries, and of no use to those who have made a mistake in a configuration.
func lastWords(log []string, program string) string {
	if len(log) == 0 || !strings.HasPrefix(log[len(log)-1], program+": ") {
		return ""
	}
	return log[len(log)-1]
}
