package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/hack/docpage"
)

// pod returns a pod on a node, with a phase. Its UID is its name.
func pod(name, node string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func terminating(p corev1.Pod) corev1.Pod {
	p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return p
}

// TestJudges checks the functions in judge.go. A gang that runs only some of its members must be
// neither completely running nor completely absent.
func TestJudges(t *testing.T) {
	t.Parallel()
	a, b := pod("a", "n", corev1.PodRunning), pod("b", "n", corev1.PodRunning)
	waiting := pod("b", "", corev1.PodPending)
	for name, c := range map[string]struct {
		pods          []corev1.Pod
		wantWhole     bool
		wantNone      bool
		wantRemaining int
	}{
		"whole":                   {pods: []corev1.Pod{a, b}, wantWhole: true, wantRemaining: 2},
		"in part":                 {pods: []corev1.Pod{a, waiting}, wantRemaining: 2},
		"with a node, not yet up": {pods: []corev1.Pod{a, pod("b", "n", corev1.PodPending)}, wantRemaining: 2},
		"one terminates":          {pods: []corev1.Pod{a, terminating(b)}, wantRemaining: 1},
		"no node":                 {pods: []corev1.Pod{pod("a", "", corev1.PodPending), waiting}, wantNone: true, wantRemaining: 2},
		"one is gone":             {pods: []corev1.Pod{waiting}, wantRemaining: 1},
		"one was replaced":        {pods: []corev1.Pod{a, pod("c", "n", corev1.PodRunning)}, wantWhole: true, wantRemaining: 1},
		"all are gone":            {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := running(c.pods, 2) == nil; got != c.wantWhole {
				t.Errorf("runs whole: %t, want %t", got, c.wantWhole)
			}
			if got := nonePlaced(c.pods, 2) == nil; got != c.wantNone {
				t.Errorf("has no node: %t, want %t", got, c.wantNone)
			}
			if got := remaining(c.pods, []types.UID{"a", "b"}); got != c.wantRemaining {
				t.Errorf("%d members are left, want %d", got, c.wantRemaining)
			}
		})
	}
}

// TestPage checks that the page shows a failed check with its violation, and that the command fails
// after that check.
func TestPage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("before\n"+beginMark+"\nold\n"+endMark+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	results := []result{
		{check: check{name: "Good", requirement: "It works."}, observed: "It did."},
		{check: check{name: "Bad", requirement: "It works."}, violation: errors.New("a | b")},
	}
	if err := docpage.Write(path, beginMark, endMark, page("v1.2.3", results)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n", "Kubernetes v1.2.3", "| Good | It works. | It did. | passes |", `| Bad | It works. | a \| b | fails |`, "\nafter\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the page has no %q:\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "old") {
		t.Errorf("the page has the old table:\n%s", got)
	}
	if err := failures(results); err == nil || !strings.Contains(err.Error(), "Bad: a | b") {
		t.Errorf("the command ends with %v", err)
	}
	if err := failures(results[:1]); err != nil {
		t.Errorf("the command ends with %v, want success", err)
	}
}

// TestPageOfThisRepository checks that the committed page has a row for each check, and that each
// row reports a pass.
func TestPageOfThisRepository(t *testing.T) {
	t.Parallel()
	got, err := os.ReadFile(filepath.Join("..", "..", "docs", "results", "conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(string(got), "\n")
	for _, one := range checks() {
		found := false
		for _, row := range rows {
			found = found || strings.HasPrefix(row, "| "+one.name+" | "+one.requirement+" | ") && strings.HasSuffix(row, " | passes |")
		}
		if !found {
			t.Errorf("the page has no passing row of %q; run make conformance", one.name)
		}
	}
}
