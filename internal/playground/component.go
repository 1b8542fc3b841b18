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
	// startTimeout is the maximum time for a component to become ready, and stopTimeout is the
	// maximum time for it to end.
	startTimeout = 2 * time.Minute
	stopTimeout  = 15 * time.Second
	pollInterval = 50 * time.Millisecond
	// stopAgain is the delay between the first and the second signal that end the API server.
	stopAgain = 2 * time.Second
	// portAttempts is the maximum number of ports to try for a component if other processes take
	// the ports.
	portAttempts = 5
)

// errStopped is the error of every start after a call of Stop.
var errStopped = errors.New("the playground has stopped")

// errPortTaken is the cause of a failed start if another process already listens on the port.
var errPortTaken = errors.New("the port is taken")

// componentSpec holds the settings of one component.
type componentSpec struct {
	name string
	path string
	args []string
	env  []string
	// port is the TCP port that the component serves on. It is 0 if the component serves nothing.
	port int
	// files replaces file names in the component's messages. A component may run with a copy of a
	// user's file, and users need the name of their own file. It may be nil.
	files *strings.Replacer
	// stopAgain is the delay between the first signal and a second one, which ends the component at
	// once. It is 0 for no second signal.
	stopAgain time.Duration
	// logPath is the file that gets the component's output.
	logPath string
	// prepare runs before each start. It may be nil.
	prepare func(ctx context.Context) error
	// ready returns nil when the component does its work. Otherwise, it returns an error that names
	// the missing part. If ready is nil, the component is ready at once.
	ready func(ctx context.Context) error
	// ended is called if the component ends on its own after it was ready. If ended is nil, such an
	// end is a failure of the playground.
	ended func(error)
}

// Component is one process of a Playground, such as etcd or the API server. It is safe for
// concurrent use.
type Component struct {
	spec    componentSpec
	spawner *spawner
	// died is called if the process ends on its own after it was ready.
	died func(error)

	// closing is closed when the Playground stops. This aborts a start under way, and later starts
	// fail.
	closing     chan struct{}
	closingOnce sync.Once

	// operation serializes Start and Kill.
	operation sync.Mutex

	mu sync.Mutex
	// current is the last started process. It is nil before the first start.
	current *child
	// watched is true if the end of current must be reported.
	watched bool
}

// Name returns the name of the component: one of the constants Etcd, APIServer, ControllerManager,
// Kwok and Scheduler, or the name that was passed to StartScheduler.
func (c *Component) Name() string { return c.spec.name }

// LogPath returns the path of the log file. The file has the output of all runs of the component.
func (c *Component) LogPath() string { return c.spec.logPath }

// URL returns the address that the component serves on. It is empty if the component serves
// nothing. The address does not change when the component is started again.
func (c *Component) URL() string {
	if c.spec.port == 0 {
		return ""
	}
	return fmt.Sprintf("https://%s:%d", loopback, c.spec.port)
}

// PID returns the process ID, or 0 while the component is not running. If you send a signal to this
// process, its end counts as a failure of the playground. Use Kill for an end that is not a
// failure.
func (c *Component) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || !c.current.running() {
		return 0
	}
	return c.current.cmd.Process.Pid
}

// Start starts the component again after Kill, with the same arguments and on the same port. It
// returns when the component is ready. ctx limits only the start. Starting a running component is
// an error.
func (c *Component) Start(ctx context.Context) error {
	c.operation.Lock()
	defer c.operation.Unlock()
	if err := c.start(ctx); err != nil {
		return fmt.Errorf("start %s: %w", c.spec.name, err)
	}
	return nil
}

// Kill sends a signal to the component and returns when the component has ended. If the component
// does not end within 15 s, Kill sends SIGKILL and returns an error. If the component is not
// running, Kill does nothing.
func (c *Component) Kill(signal syscall.Signal) error {
	c.operation.Lock()
	defer c.operation.Unlock()
	return c.kill(signal)
}

// close ends the component like Kill, and makes all later starts fail.
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

// watch makes the end of the process a reported failure from now on. It returns false if the
// process has already ended.
func (c *Component) watch(process *child) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = process.running()
	return c.watched
}

// exited handles the end of a process of the component, in the goroutine of that process.
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

// startFailure returns the error for a process that ended during its start. The error is
// errPortTaken if another process has the port.
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

// lastWords returns the last line of a log if it begins with the program's name, as the program's
// own messages do. Other lines come from libraries and do not help users to correct their
// configuration.
func lastWords(log []string, program string) string {
	if len(log) == 0 || !strings.HasPrefix(log[len(log)-1], program+": ") {
		return ""
	}
	return log[len(log)-1]
}
