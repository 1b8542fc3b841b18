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

// TestChildOutlivesTheThreadThatAskedForIt fails if the caller's thread forks the child.
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
	// A child that got SIGKILL at the end of the thread could not answer.
	if err := os.WriteFile(question, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitForFile(t, answer, true)
	if len(deaths) > 0 {
		t.Error(<-deaths)
	}
}

// onThreadThatEnds calls f on a thread that ends afterwards, and returns the thread's ID. The main
// thread never ends. If the goroutine runs on the main thread, it holds that thread and calls f
// from another goroutine.
func onThreadThatEnds(f func()) int {
	result := make(chan int)
	go func() {
		// A goroutine that ends without unlocking its thread ends the thread too.
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
