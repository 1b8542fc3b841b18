package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// timeout is the timeout of the tests of one package, in Go's notation.
	timeout = "15m"
	// killDelay is the time between the interrupt of the tests and their kill.
	killDelay = 30 * time.Second
)

// result has the results of an area's tests.
type result struct {
	// pass is the number of passed tests, including subtests.
	pass int
	// failed has the names of the tests that failed or did not run.
	failed []string
	// output has the output of the failed tests.
	output string
}

func (r result) String() string {
	switch {
	case len(r.failed) > 0:
		return "fails: " + strings.Join(r.failed, ", ")
	case r.pass == 0:
		return "none"
	}
	return fmt.Sprintf("%d pass", r.pass)
}

// runArea runs the tests of an area with the binaries in dir. minor is the minor version of
// Kubernetes.
func runArea(ctx context.Context, dir string, minor uint, a area) (result, error) {
	var all result
	for _, t := range a.tests {
		if minor < t.since {
			continue
		}
		r, err := runTests(ctx, dir, t)
		if err != nil {
			return result{}, err
		}
		all.pass += r.pass
		all.failed = append(all.failed, r.failed...)
		all.output += r.output
	}
	return all, nil
}

func runTests(ctx context.Context, dir string, t tests) (result, error) {
	args := []string{"test", "-json", "-timeout", timeout}
	if len(t.names) > 0 {
		args = append(args, "-run", "^("+strings.Join(t.names, "|")+")$")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, t.pkg)...)
	cmd.Env = append(os.Environ(), "REPRIEVE_BIN="+dir)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = killDelay
	events, err := cmd.StdoutPipe()
	if err != nil {
		return result{}, fmt.Errorf("read from go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return result{}, fmt.Errorf("start go test: %w", err)
	}
	r, err := read(events, t)
	if err != nil {
		return result{}, errors.Join(err, cmd.Wait())
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return result{}, fmt.Errorf("go test: %w", err)
	} else if err != nil && len(r.failed) == 0 {
		// The failure is not part of a test. For example, a playground did not stop.
		r.failed = append(r.failed, t.pkg)
	}
	return r, nil
}

// read parses the output of go test -json for one package.
func read(events io.Reader, t tests) (result, error) {
	var r result
	said := make(map[string]*strings.Builder)
	var seen []string
	scanner := bufio.NewScanner(events)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var e struct{ Action, Test, Output string }
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			return result{}, fmt.Errorf("read the output of go test: %w", err)
		}
		if said[e.Test] == nil {
			said[e.Test] = &strings.Builder{}
		}
		switch e.Action {
		case "output", "build-output":
			said[e.Test].WriteString(e.Output)
		case "pass":
			if e.Test != "" {
				r.pass++
				seen = append(seen, e.Test)
			}
		case "fail", "build-fail":
			r.output += said[e.Test].String()
			if e.Test != "" {
				r.failed = append(r.failed, e.Test)
			}
		}
	}
	if err := scanner.Err(); err != nil {
		return result{}, fmt.Errorf("read the output of go test: %w", err)
	}
	if len(t.names) == 0 && len(seen) == 0 && len(r.failed) == 0 {
		r.failed = append(r.failed, t.pkg+" did not run")
	}
	for _, name := range t.names {
		if !slices.Contains(seen, name) && !slices.Contains(r.failed, name) {
			r.failed = append(r.failed, name+" did not run")
		}
	}
	return r, nil
}
