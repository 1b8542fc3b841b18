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

// TestChildOutlivesTheThreadThatAskedForIt checks that a child is not killed when the thread of the
// goroutine that started it ends.
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
	// If the child had been killed with the thread, it could not answer.
	if err := os.WriteFile(question, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitForFile(t, answer, true)
	if len(deaths) > 0 {
		t.Error(<-deaths)
	}
}

// onThreadThatEnds calls f on a thread that ends afterwards, and returns the thread's ID. The main
// thread of a process never ends. If the goroutine runs on the main thread, it keeps that thread
// and calls f in another goroutine.
func onThreadThatEnds(f func()) int {
	result := make(chan int)
	go func() {
		// If a goroutine ends without unlocking its thread, the thread ends too.
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
