package playground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/util/wait"
)

// TestChildOutlivesTheThreadThatAskedForIt would fail if the child were forked by the thread of whoever calls Start.
func TestChildOutlivesTheThreadThatAskedForIt(t *testing.T) {
	dir := t.TempDir()
	question, answer := filepath.Join(dir, "question"), filepath.Join(dir, "answer")
	c, deaths := newShellComponent(t, fmt.Sprintf(`
		while [ ! -e %s ]; do sleep 0.02; done
		echo alive > %s
		exec sleep 1000`, question, answer))
	var started error
	tid := onThreadThatEnds(func() { started = c.Start(t.Context()) })
	if started != nil {
		t.Fatal(started)
	}
	waitForFile(t, fmt.Sprintf("/proc/self/task/%d", tid), false)
	// A child that was sent SIGKILL when the thread ended could not answer.
	if err := os.WriteFile(question, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitForFile(t, answer, true)
	if len(deaths) > 0 {
		t.Error(<-deaths)
	}
}

// onThreadThatEnds calls f on a thread that ends when f has returned, and returns its ID. The main thread never does end, so
// where the goroutine happens to get that one it keeps it, and leaves f to another.
func onThreadThatEnds(f func()) int {
	result := make(chan int)
	go func() {
		// A goroutine that ends with its thread locked takes the thread with it.
		runtime.LockOSThread()
		tid := syscall.Gettid()
		if tid == os.Getpid() {
			tid = onThreadThatEnds(f)
		} else {
			f()
		}
		result <- tid
	}()
	return <-result
}

func waitForFile(t *testing.T, path string, want bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), pollInterval, quick, true, func(context.Context) (bool, error) {
		_, err := os.Stat(path)
		return errors.Is(err, os.ErrNotExist) != want, nil
	})
	if err != nil {
		t.Errorf("%s: want it to exist: %t; %v", path, want, err)
	}
}
