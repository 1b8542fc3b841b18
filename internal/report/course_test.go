package report_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/report"
)

// outcome returns the entry e with another outcome.
func outcome(e report.Entry, o core.Outcome) report.Entry {
	e.Outcome = o
	return e
}

// end returns the end of a wait. The first number is the minute of the decision, the second is the
// minute of the end, both counted from noon.
func end(of, minute int, how decisionlog.End) decisionlog.WaitEnd {
	return decisionlog.WaitEnd{Process: "p", Sequence: uint64(of), Time: noon.Add(time.Duration(minute) * time.Minute), End: how}
}

// since returns the victim s with its start at a minute after noon.
func since(s report.Stop, minute int) report.Stop {
	s.Since = noon.Add(time.Duration(minute) * time.Minute)
	return s
}

// TestWaiting checks that a workload is shown as waiting when the record stops, if the record does
// not say when the wait after its last decision ended.
func TestWaiting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entries []report.Entry
		ends    []decisionlog.WaitEnd
		// want lists the workloads that must wait at the end. wantSpans lists the spans of the
		// workload a.
		want, wantSpans []string
	}{
		"found no room": {entries: []report.Entry{at(1, "a")}, want: []string{"a since 1"}, wantSpans: []string{"waits 1-"}},
		"was bound later": {
			entries: []report.Entry{at(1, "a")}, ends: []decisionlog.WaitEnd{end(1, 3, decisionlog.Bound)}, wantSpans: []string{"waits 1-3", "runs 3-"},
		},
		"was deleted": {entries: []report.Entry{at(1, "a")}, ends: []decisionlog.WaitEnd{end(1, 3, decisionlog.Gone)}, wantSpans: []string{"waits 1-3"}},
		"waits for pods to leave": {
			entries: []report.Entry{at(1, "a"), outcome(at(2, "a"), core.Waits)}, want: []string{"a since 1, reserved"}, wantSpans: []string{"waits 1-2", "reserved 2-"},
		},
		"waited for pods to leave": {
			entries: []report.Entry{outcome(at(2, "a"), core.Waits)}, ends: []decisionlog.WaitEnd{end(2, 4, decisionlog.Bound)}, wantSpans: []string{"reserved 2-4", "runs 4-"},
		},
		"waits below a limit": {entries: []report.Entry{outcome(at(2, "a"), core.Fits)}, want: []string{"a since 2, reserved"}, wantSpans: []string{"reserved 2-"}},
		"a preemption, of a process that records no ends": {
			entries: []report.Entry{at(1, "a", stops("b", 1))}, wantSpans: []string{"runs 1-"},
		},
		"a preemption, and its victims linger": {
			entries: []report.Entry{at(1, "a", stops("b", 1)), at(2, "c")}, ends: []decisionlog.WaitEnd{end(2, 3, decisionlog.Gone)},
			want: []string{"a since 1, reserved"}, wantSpans: []string{"reserved 1-"},
		},
		"a preemption, and it was bound": {
			entries: []report.Entry{at(1, "a", stops("b", 1))}, ends: []decisionlog.WaitEnd{end(1, 2, decisionlog.Bound), end(1, 2, decisionlog.Bound)},
			wantSpans: []string{"reserved 1-2", "runs 2-"},
		},
		"a preemption that was given up": {
			entries: []report.Entry{ended(at(1, "a", stops("b", 1)), decisionlog.GivenUp, 0)}, want: []string{"a since 1"}, wantSpans: []string{"waits 1-"},
		},
		"bound, stopped, and waits again": {
			entries: []report.Entry{at(1, "a"), at(5, "b", stops("a", 1)), at(6, "a")}, ends: []decisionlog.WaitEnd{end(1, 2, decisionlog.Bound), end(5, 6, decisionlog.Bound)},
			want: []string{"a since 6"}, wantSpans: []string{"waits 1-2", "runs 2-5", "waits 6-"},
		},
		"bound before the decision, by a clock that was set back": {
			entries: []report.Entry{at(1, "a"), at(5, "a")}, ends: []decisionlog.WaitEnd{end(5, 3, decisionlog.Bound)}, wantSpans: []string{"waits 1-5", "runs 5-"},
		},
		"deleted before the decision, by a clock that was set back": {
			entries: []report.Entry{at(5, "a")}, ends: []decisionlog.WaitEnd{end(5, 3, decisionlog.Gone)}, wantSpans: []string{"waits 5-5"},
		},
		"stopped, and started before it waited": {
			entries: []report.Entry{at(1, "a"), at(5, "b", since(stops("a", 1), 0))}, ends: []decisionlog.WaitEnd{end(5, 6, decisionlog.Bound)},
			wantSpans: []string{"waits 1-1", "runs 1-5"},
		},
		"stopped, and started later than that": {
			entries: []report.Entry{at(1, "a"), at(5, "b", since(stops("a", 1), 7))}, ends: []decisionlog.WaitEnd{end(5, 6, decisionlog.Bound)},
			wantSpans: []string{"waits 1-5", "runs 5-5"},
		},
		"stopped twice, in part": {
			entries:   []report.Entry{at(5, "b", since(stops("a", 1), 0)), at(9, "b", since(stops("a", 1), 0)), at(10, "a")},
			ends:      []decisionlog.WaitEnd{end(9, 10, decisionlog.Bound), end(10, 11, decisionlog.Gone)},
			wantSpans: []string{"runs 0-5", "runs 5-9", "waits 10-11"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := report.Build(report.Input{Entries: c.entries, Ends: c.ends})
			minute := func(ms int64) string {
				if ms == 0 {
					return ""
				}
				return fmt.Sprint((ms - noon.UnixMilli()) / 60_000)
			}
			var got, spans []string
			for _, w := range r.Waiting {
				line := r.Workloads[w.Workload].Name + " since " + minute(w.Since)
				if w.Reserved {
					line += ", reserved"
				}
				got = append(got, line)
			}
			w := slices.IndexFunc(r.Workloads, func(w report.WorkloadRow) bool { return w.Name == "a" })
			for _, s := range r.Workloads[w].Spans {
				spans = append(spans, s.Kind+" "+minute(s.From)+"-"+minute(s.To))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("waits at the end (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.wantSpans, spans); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
			if r.Totals.Waiting != len(c.want) {
				t.Errorf("%d wait, want %d", r.Totals.Waiting, len(c.want))
			}
		})
	}
}

// TestNoNull checks that no list in the data of the page is null, because the page iterates over
// lists. Only unknown priorities and hours may be null.
func TestNoNull(t *testing.T) {
	t.Parallel()
	bare := at(2, "a", report.Stop{Party: report.Party{Namespace: "ns", Name: "b"}})
	bare.Asks = []decisionlog.Ask{{Pods: 1}}
	for name, in := range map[string]report.Input{
		"nothing":      {},
		"a preemption": {Entries: []report.Entry{bare}},
		"a queue":      {Queues: []report.Queue{{Name: "q"}}, Usage: []report.Sample{{At: noon, Queues: map[string]report.QueueState{"q": {}}}}},
	} {
		data, err := json.Marshal(report.Build(in))
		if err != nil {
			t.Fatal(err)
		}
		unknown := regexp.MustCompile(`"(priority|hours)":null`)
		if text := unknown.ReplaceAllString(string(data), ""); strings.Contains(text, "null") {
			t.Errorf("%s: there is a null in %s", name, text)
		}
	}
}

// TestMatrices checks the losses for each pair of preemptor and victim, by queue, namespace and
// priority. A workload counts for the queue that it had at the time of the decision.
func TestMatrices(t *testing.T) {
	t.Parallel()
	r := report.Build(report.Input{Entries: []report.Entry{at(1, "a", stops("b", 2), stops("bb", 1)), at(2, "b", stops("a", 1)), at(3, "a", stops("b", 1))}})
	var got []string
	for _, m := range r.Matrices {
		for _, c := range m.Cells {
			got = append(got, fmt.Sprintf("%s: %s from %s: %d stops, %d pods, %.0f GPU-hours", m.By, m.Names[c.Taker], m.Names[c.Loser], c.Stops, c.Pods, c.GPUHours))
		}
	}
	want := []string{
		"queue: a from b: 3 stops, 6 pods, 4 GPU-hours", "queue: b from a: 1 stops, 2 pods, 1 GPU-hours", "namespace: ns from ns: 4 stops, 8 pods, 5 GPU-hours",
		"priority: 10 from 20: 1 stops, 2 pods, 1 GPU-hours", "priority: 10 from 10: 3 stops, 6 pods, 4 GPU-hours",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
