package decisionlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// ends returns the workload, sequence number and kind of each end.
func ends(l *Log) []string {
	var out []string
	for _, e := range l.Ends() {
		out = append(out, fmt.Sprintf("%s %d %s", e.Name, e.Sequence, e.End))
	}
	return out
}

func keyNamed(name string) workload.Key {
	return workload.Key{Name: name, UID: "uid-" + name}
}

// about returns a record of a decision about a pod with the name. Unlike named, it sets the pod's
// UID.
func about(name string) Record {
	r := named(name)
	r.Decision.Preemptor.UID = "uid-" + name
	return r
}

// TestWaitEnd checks that the end of a wait is recorded once, with the last decision about the
// workload. The end of a workload without a decision is not recorded.
func TestWaitEnd(t *testing.T) {
	t.Parallel()
	l := New(Options{Process: "p"})
	l.EndWait(keyNamed("early"), Bound, noon)
	l.Record(about("a"))
	l.Record(about("b"))
	l.Record(about("a"))
	gang := about("g")
	gang.Decision.Preemptor.Gang = true
	l.Record(gang)
	if !l.Awaits(keyNamed("a")) || l.Awaits(keyNamed("other")) {
		t.Error("a is not awaited, or other is")
	}
	for range 2 {
		l.EndWait(keyNamed("a"), Bound, noon.Add(time.Second))
	}
	l.EndWait(keyNamed("b"), Gone, noon)
	// The key of a gang differs from the key of a pod with the same name.
	l.EndWait(keyNamed("g"), Gone, noon)
	l.EndWait(workload.Key{Gang: true, Name: "g"}, Bound, noon)
	if want := []string{"a 3 Bound", "b 2 Gone", "g 4 Bound"}; !slices.Equal(ends(l), want) {
		t.Errorf("The ends are %q, want %q", ends(l), want)
	}
	if l.Awaits(keyNamed("a")) {
		t.Error("a is awaited although its wait has ended")
	}
	if got := l.Ends()[2]; got.UID != "uid-g" || !got.Gang || got.Process != "p" || got.Schema != WaitEndSchema {
		t.Errorf("The end of the gang's wait is %+v", got)
	}
}

// TestWaitEndsAreBounded checks that the Log stops following the workloads with the oldest
// decisions, and that it drops ends together with their decisions.
func TestWaitEndsAreBounded(t *testing.T) {
	t.Parallel()
	l := New(Options{Followed: 3, Kept: 4})
	for i := range 1000 {
		l.Record(about("again"))
		l.Record(about(fmt.Sprintf("one-%d", i)))
	}
	if n, m := len(l.waits.open), len(l.waits.order); n != 3 || m > 2*3+64 {
		t.Errorf("%d workloads are followed, with %d places", n, m)
	}
	if !l.Awaits(keyNamed("again")) || !l.Awaits(keyNamed("one-999")) || l.Awaits(keyNamed("one-900")) {
		t.Error("Those that are followed are not the ones decided about last")
	}
	for i := range 100 {
		l.Record(about(fmt.Sprintf("two-%d", i)))
		l.EndWait(keyNamed(fmt.Sprintf("two-%d", i)), Bound, noon)
	}
	if got := l.Ends(); len(got) != 4 || got[3].Name != "two-99" {
		t.Errorf("%d ends are in memory for four decisions: %+v", len(got), got)
	}
}

// TestWaitEndIsWritten checks that the end of a wait is written as a line after the line of its
// decision. The Observer counts it like a record.
func TestWaitEndIsWritten(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	seen := &counts{}
	l := New(Options{Process: "p", Out: &out, Observer: seen, Queued: 2})
	l.Record(about("a"))
	l.EndWait(keyNamed("a"), Bound, noon)
	l.Record(about("b"))
	l.EndWait(keyNamed("b"), Gone, noon)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.Run(ctx)
	seen.want(t, 2, 2, 0)
	_, second, _ := bytes.Cut(out.Bytes(), []byte("\n"))
	if end, err := ParseWaitEnd(second); err != nil || end.Name != "a" || end.End != Bound {
		t.Errorf("The second line is %s, %v", second, err)
	}
}

// TestWaitEndGolden checks the format of a WaitEnd against a golden file.
func TestWaitEndGolden(t *testing.T) {
	t.Parallel()
	l := New(Options{Process: "reprieve-scheduler-7d4f_1c9e"})
	r := made(t, small(running("training", 10, 0, 8)), urgent(8))
	l.Record(r)
	l.EndWait(workloadKey(&core.Preemptor{Gang: true, Namespace: "prod", Name: "urgent"}), Bound, noon.Add(3*time.Second))
	var line bytes.Buffer
	end := l.Ends()[0]
	if err := EncodeWaitEnd(&line, &end); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "wait-end.jsonl")
	if *update {
		if err := os.WriteFile(file, line.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(want, line.Bytes()) {
		t.Errorf("The line is (-want +got), %v:\n%s", err, cmp.Diff(string(want), line.String()))
	}
	if back, err := ParseWaitEnd(want); err != nil || back != end {
		t.Errorf("It reads back as %+v, %v", back, err)
	}
	if _, err := Parse(want); !errors.Is(err, ErrWaitEnd) {
		t.Errorf("As a decision it is %v, want ErrWaitEnd", err)
	}
	if _, err := ParseWaitEnd([]byte(`{"schema":"reprieve.dev/wait-end/v2"}`)); !errors.Is(err, ErrSchema) {
		t.Errorf("Another version is read with %v", err)
	}
}
