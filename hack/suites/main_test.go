package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	const events = `{"Action":"output","Test":"TestA/x","Output":"    steps.go:9: Executing step 0 name Create\\n"}
{"Action":"output","Test":"TestA/x","Output":"    a_test.go:12: why, at last\n"}
{"Action":"output","Test":"TestA/x","Output":"    gates.go:7: I1129 21:42:45.394157] Updated featureGates\n"}
{"Action":"fail","Test":"TestA/x"}
{"Action":"pass","Test":"TestA/y"}
{"Action":"fail","Test":"TestA"}
{"Action":"output","Test":"TestB","Output":"    b.go:3: not yet\n"}
{"Action":"skip","Test":"TestB"}
{"Action":"fail"}`
	got, err := read(strings.NewReader(events), "p")
	if err != nil {
		t.Fatal(err)
	}
	want := []outcome{
		{"p", "TestA/x", failed, "why, at last"},
		{"p", "TestA/y", passed, ""},
		{"p", "TestB", skipped, "not yet"},
	}
	if got := leaves(got); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestByDesign checks that byDesign changes only the results of failed cases, and adds the known
// reason.
func TestByDesign(t *testing.T) {
	t.Parallel()
	const name = "TestPodGroupScheduling/gang_schedules_with_workload-aware_preemption_(x)"
	got := byDesign([]outcome{{"p", name, failed, "timeout"}, {"p", name, passed, ""}, {"p", "TestOther", failed, "timeout"}})
	if got[0].result != differs || got[0].reason == "timeout" || got[1].result != passed || got[2] != (outcome{"p", "TestOther", failed, "timeout"}) {
		t.Errorf("got %+v", got)
	}
}

// TestPage checks that the page counts every case. Each case that does not pass must have a row
// with the reason.
func TestPage(t *testing.T) {
	t.Parallel()
	got := page("v1.2.3", []outcome{
		{"p", "TestA/x", failed, "a | b"}, {"p", "TestA/y", passed, ""}, {"p", "TestA/z", passed, ""}, {"q", "TestB", skipped, "not yet"},
		{"q", "TestC", differs, "on purpose"},
	})
	for _, want := range []string{
		"Kubernetes v1.2.3: of 5 cases, 4 run and 1 are skipped.\nOf the cases that run, 2 pass (50 %), 1 differ by design and 1 fail.\n" +
			"Without the cases that differ by design, 66 % pass.",
		"| p: TestA | 2 | 0 | 1 | 0 |", "| q: TestB | 0 | 0 | 0 | 1 |", "| q: TestC | 0 | 1 | 0 | 0 |",
		"| `TestA/x` | fails | a \\| b |", "| `TestB` | skipped | not yet |", "| `TestC` | differs | on purpose |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page has no %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "TestA/y") {
		t.Errorf("the page has a row for a case that passes:\n%s", got)
	}
}

// TestCopies checks that the patches and the skipped cases exist in the required version of
// Kubernetes. The copies must not run kube-scheduler's scheduling loop.
func TestCopies(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	kubernetes, _, err := moduleDir(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := copySuites(root, kubernetes, dir); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pkg := range packages() {
		here := filepath.Join(dir, filepath.FromSlash(pkg))
		in, err := testsIn(here)
		if err != nil || len(in) == 0 {
			t.Errorf("%s has the tests %v, error %v", pkg, in, err)
		}
		names = append(names, in...)
		files, err := filepath.Glob(filepath.Join(here, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), "Scheduler.Run(") {
				t.Errorf("%s runs the loop of kube-scheduler", file)
			}
		}
	}
	for _, skip := range slices.Concat(skips(), differences()) {
		test, _, _ := strings.Cut(skip.Pattern, "/")
		if pattern := regexp.MustCompile(test); strings.HasPrefix(test, "^") && !slices.ContainsFunc(names, pattern.MatchString) {
			t.Errorf("no test of the suites matches %s", skip.Pattern)
		}
	}
}
