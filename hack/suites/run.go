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
	"path/filepath"
	"regexp"
	"strings"
)

// These are the results of a case.
const (
	passed, failed, skipped = "passes", "fails", "skipped"
	// differs is the result of a case that fails because Reprieve differs from kube-scheduler by
	// design.
	differs = "differs"
)

// outcome is the result of a case: a test without subtests.
type outcome struct {
	// pkg is the directory of the package, relative to the directory with the copied tests. name is
	// the full name of the test, with its parents.
	pkg, name, result string
	// reason explains on one line why a case does not pass.
	reason string
}

// packages returns the directories of the packages with tests, in the order of the page.
func packages() []string {
	return []string{"preemption/podgroup", "podgroup", "podgroup/queueing", "podgroup/topology_aware_scheduling"}
}

// setup has the values that the copied tests read from their environment. harness.go.txt declares
// the same fields.
type setup struct {
	Kubeconfig, Scheduler, Config string
	Skips                         []reason
}

// runPackage builds the tests of a package, and runs the selected tests one after the other. The
// selection has the form TEST or TEST/CASES. TEST is a part of the test's name. CASES is a regular
// expression for the names of cases.
func runPackage(ctx context.Context, dir, pkg, selection string, with setup) ([]outcome, error) {
	encoded, err := json.Marshal(with)
	if err != nil {
		return nil, err
	}
	env := append(os.Environ(), "REPRIEVE_SUITES="+string(encoded))
	binary := filepath.Join(dir, strings.ReplaceAll(pkg, "/", "-")+".test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-mod=mod", "-o", binary, "./"+pkg)
	build.Dir, build.Stderr = dir, os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build the tests of %s: %w", pkg, err)
	}
	names, err := testsIn(filepath.Join(dir, filepath.FromSlash(pkg)))
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", pkg, err)
	}
	var all []outcome
	test, cases, _ := strings.Cut(selection, "/")
	for _, name := range names {
		if !strings.Contains(name, test) {
			continue
		}
		run := exec.CommandContext(ctx, "go", "tool", "test2json", binary, "-test.v=test2json", "-test.run=^"+name+"$/("+cases+")", "-test.timeout=1h")
		run.Dir, run.Env = filepath.Join(dir, filepath.FromSlash(pkg)), env
		events, err := run.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := run.Start(); err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		outcomes, err := read(events, pkg)
		var exit *exec.ExitError
		if end := run.Wait(); end != nil && !errors.As(end, &exit) {
			err = errors.Join(err, end)
		}
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", name, err)
		}
		outcomes = byDesign(leaves(outcomes))
		for _, o := range outcomes {
			fmt.Fprintf(os.Stderr, "%s %s: %s\n", o.result, o.name, o.reason)
		}
		all = append(all, outcomes...)
	}
	return leaves(all), nil
}

// byDesign changes the result of failed cases that differences lists to "differs", and sets their
// reason.
func byDesign(outcomes []outcome) []outcome {
	for i := range outcomes {
		o := &outcomes[i]
		if o.result != failed {
			continue
		}
		for _, d := range differences() {
			if regexp.MustCompile(d.Pattern).MatchString(o.name) {
				o.result, o.reason = differs, d.Reason
				break
			}
		}
	}
	return outcomes
}

// read parses the output of a test binary in the JSON format of test2json.
func read(events io.Reader, pkg string) ([]outcome, error) {
	var out []outcome
	said := make(map[string]string)
	scanner := bufio.NewScanner(events)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var e struct{ Action, Test, Output string }
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("read the output of the tests: %w", err)
		}
		if e.Test == "" {
			continue
		}
		switch e.Action {
		case "output":
			if line := message(e.Output); line != "" && said[e.Test] == "" {
				said[e.Test] = line
			}
		case "pass":
			out = append(out, outcome{pkg: pkg, name: e.Test, result: passed})
		case "fail":
			out = append(out, outcome{pkg: pkg, name: e.Test, result: failed, reason: said[e.Test]})
		case "skip":
			out = append(out, outcome{pkg: pkg, name: e.Test, result: skipped, reason: said[e.Test]})
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read the output of the tests: %w", err)
	}
	return out, nil
}

// reported matches a line that a test reports: the file and line number, and the text.
var reported = regexp.MustCompile(`^\w+\.go:\d+: (.*)$`)

// logged matches a line of a klog log.
var logged = regexp.MustCompile(`^[IWEF]\d{4} `)

// message returns the text of a line that a test reports, without the file and line number. For
// other output, such as logs, it returns "".
func message(line string) string {
	match := reported.FindStringSubmatch(strings.TrimSpace(line))
	if len(match) < 2 || logged.MatchString(match[1]) || strings.HasPrefix(match[1], "Executing step ") {
		return ""
	}
	return match[1]
}
