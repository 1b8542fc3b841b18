package playground

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// logTailLines is the number of log lines in an ExitError.
const logTailLines = 20

// ExitError reports that a component ended before the playground stopped it.
type ExitError struct {
	// Component is the component's name.
	Component string
	// Status describes the end, such as "exit status 1" or "signal: killed".
	Status string
	// LogTail has the last lines of the component's log.
	LogTail []string
	// Words is the component's own error message if it refused to start, such as
	// "reprieve-scheduler: unknown flag: --x". It is empty if there is no such message, or if the
	// component had been ready before it ended.
	Words string
}

// Error returns the component and its status in one line, followed by Words. If Words is empty,
// LogTail follows instead.
func (e *ExitError) Error() string {
	message := fmt.Sprintf("%s died: %s", e.Component, e.Status)
	if e.Words != "" {
		return message + "; it says: " + e.Words
	}
	if len(e.LogTail) == 0 {
		return message
	}
	return message + "; the end of its log:\n" + strings.Join(e.LogTail, "\n")
}

// child is one run of a component's process.
type child struct {
	cmd *exec.Cmd
	// logStart is the length of the log file when this run began.
	logStart int64
	// exited is closed once the process is gone and reaped.
	exited chan struct{}
	// status is set before exited is closed.
	status string
}

// startChild runs a command and appends its output to the file logPath. When the process ends,
// onExit is called in a goroutine of the child.
func startChild(s *spawner, logPath, path string, args, env []string, onExit func(*child)) (*child, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := log.Stat()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	cmd := exec.Command(path, args...) //nolint:noctx // the child outlives the context it was started under; stop ends it
	cmd.Env = env
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.SysProcAttr = childAttributes()
	c := &child{cmd: cmd, logStart: info.Size(), exited: make(chan struct{})}
	err = s.start(cmd)
	// The child has its own copy of the file descriptor.
	err = errors.Join(err, log.Close())
	if cmd.Process == nil {
		return nil, err
	}
	go func() {
		c.status = exitStatus(cmd.Wait())
		close(c.exited)
		onExit(c)
	}()
	return c, err
}

func exitStatus(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

func (c *child) running() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// stop sends the signal to the child and waits until the child ends. If again is not 0 and the
// child runs for that time after the signal, stop sends the signal a second time. After patience,
// stop kills the child and returns an error.
func (c *child) stop(signal os.Signal, again, patience time.Duration) error {
	if err := c.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if again > 0 {
		timer := time.NewTimer(again)
		defer timer.Stop()
		select {
		case <-c.exited:
			return nil
		case <-timer.C:
		}
		if err := c.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.exited:
		return nil
	case <-timer.C:
	}
	if err := c.cmd.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.exited
	return fmt.Errorf("still running %s after signal %q; killed", patience, signal)
}
