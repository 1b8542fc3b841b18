package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/report"
)

var noon = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)

// party returns a workload. Its queue is the first letter of its name, and its priority is 10 times
// the length of its name.
func party(name string) report.Party {
	priority := int32(len(name) * 10)
	return report.Party{Namespace: "ns", Name: name, UID: "uid-" + name, Group: true, Priority: &priority, Queue: name[:1]}
}

// stops returns a victim with two pods that loses gpuHours. A negative number means that the hours
// are unknown.
func stops(name string, gpuHours float64) report.Stop {
	return report.Stop{
		Party: party(name), Rule: "LowerPriority", Pods: []core.VictimPod{{Name: name + "-0"}, {Name: name + "-1"}},
		Measured: gpuHours >= 0, GPUHours: max(gpuHours, 0), Since: noon.Add(-time.Hour),
	}
}

// at returns a decision of a preemptor that was made at a minute after noon. With victims, the
// decision preempts and was carried out.
func at(minute int, preemptor string, victims ...report.Stop) report.Entry {
	e := report.Entry{
		ID: fmt.Sprintf("p/%d", minute), Time: noon.Add(time.Duration(minute) * time.Minute), Process: "p", Sequence: uint64(minute),
		Preemptor: party(preemptor), Outcome: core.Infeasible, State: decisionlog.Waiting,
	}
	if len(victims) > 0 {
		e.Outcome, e.State, e.Stops = core.Preempts, decisionlog.CarriedOut, victims
	}
	return e
}

// placing adds placements of pods on a node to a decision.
func placing(e report.Entry, pods ...string) report.Entry {
	for _, pod := range pods {
		e.Placements = append(e.Placements, core.Placement{Member: pod, UID: pod, Node: "node"})
	}
	return e
}

func ended(e report.Entry, state decisionlog.State, begun int) report.Entry {
	e.State, e.Begun = state, begun
	return e
}

func TestFindings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entries []report.Entry
		// wantTurns, wantAgain and wantUnused are the findings in a short form. wantLost are the
		// sums by queue.
		wantTurns, wantAgain, wantUnused, wantLost []string
		wantWaiting                                int
	}{
		"nothing": {},
		"one takes, and the other does not": {
			entries:   []report.Entry{at(1, "a", stops("b", 2)), at(2, "a", stops("b", 3))},
			wantAgain: []string{"b 2 stops, 1m0s"}, wantLost: []string{"b 2 stops 4 pods 5.0 GPU-hours"},
		},
		"two take from each other": {
			entries:   []report.Entry{at(1, "a", stops("b", 1)), at(3, "b", stops("a", 1)), at(6, "a", stops("b", 1))},
			wantTurns: []string{"a and b: 2 turns"}, wantAgain: []string{"b 2 stops, 5m0s"},
			wantLost: []string{"b 2 stops 4 pods 2.0 GPU-hours", "a 1 stops 2 pods 1.0 GPU-hours"},
		},
		"what is given up, or fails, stops nothing": {
			entries:    []report.Entry{ended(at(1, "a", stops("b", 1)), decisionlog.GivenUp, 0), ended(at(2, "a", stops("b", 1)), decisionlog.Failed, 1)},
			wantUnused: []string{"failed at 2: 1 pods, next -1"}, wantWaiting: 1,
		},
		"room that is made for the same pod again": {
			entries:    []report.Entry{placing(at(1, "a", stops("b", 1)), "a-0", "a-1"), placing(at(2, "a", stops("c", 1)), "a-1"), placing(at(3, "a", stops("d", 1)), "a-2")},
			wantUnused: []string{"again at 1: 2 pods, next 1"},
			wantLost:   []string{"b 1 stops 2 pods 1.0 GPU-hours", "c 1 stops 2 pods 1.0 GPU-hours", "d 1 stops 2 pods 1.0 GPU-hours"},
		},
		"what is not measured is counted apart": {
			entries:  []report.Entry{at(1, "a", stops("b", -1), stops("bb", 4))},
			wantLost: []string{"b 2 stops 4 pods 4.0 GPU-hours, 1 unmeasured"},
		},
		"one that waits at last, and one that no longer does": {
			entries:     []report.Entry{at(1, "a"), at(2, "c"), at(3, "a", stops("b", 1))},
			wantWaiting: 1, wantLost: []string{"b 1 stops 2 pods 1.0 GPU-hours"},
		},
		"one decision in two files": {
			entries:  []report.Entry{at(1, "a", stops("b", 1)), ended(at(1, "a", stops("b", 1)), decisionlog.UnderWay, 0)},
			wantLost: []string{"b 1 stops 2 pods 1.0 GPU-hours"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := report.Build(report.Input{Entries: c.entries})
			var turns, again, unused, lost []string
			for _, x := range r.Turns {
				turns = append(turns, fmt.Sprintf("%s and %s: %d turns", r.Workloads[x.A].Name, r.Workloads[x.B].Name, x.Turns))
			}
			for _, x := range r.Again {
				again = append(again, fmt.Sprintf("%s %d stops, %s", r.Workloads[x.Workload].Name, x.Stops, time.Duration(x.Shortest)*time.Millisecond))
			}
			for _, x := range r.Unused {
				unused = append(unused, fmt.Sprintf("%s at %d: %d pods, next %d", x.Why, (r.Decisions[x.Decision].At-noon.UnixMilli())/60_000, x.Pods, x.Next))
			}
			for _, x := range r.Lost.ByQueue {
				line := fmt.Sprintf("%s %d stops %d pods %.1f GPU-hours", x.Name, x.Stops, x.Pods, x.GPUHours)
				if x.Unmeasured > 0 {
					line += fmt.Sprintf(", %d unmeasured", x.Unmeasured)
				}
				lost = append(lost, line)
			}
			for _, x := range []struct {
				what      string
				want, got []string
			}{{"turns", c.wantTurns, turns}, {"again", c.wantAgain, again}, {"unused", c.wantUnused, unused}, {"lost", c.wantLost, lost}} {
				if diff := cmp.Diff(x.want, x.got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", x.what, diff)
				}
			}
			if r.Totals.Waiting != c.wantWaiting {
				t.Errorf("%d wait at last, want %d", r.Totals.Waiting, c.wantWaiting)
			}
		})
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	r := report.Build(report.Input{Entries: []report.Entry{at(1, "a"), at(2, "a"), at(5, "a", stops("b", 1)), at(9, "c", stops("a", 1)), at(10, "a")}})
	got := make(map[string][]string)
	for _, w := range r.Workloads {
		for _, s := range w.Spans {
			line := fmt.Sprintf("%s from %d", s.Kind, (s.From-noon.UnixMilli())/60_000)
			if s.To != 0 {
				line += fmt.Sprintf(" to %d", (s.To-noon.UnixMilli())/60_000)
			}
			got[w.Name] = append(got[w.Name], line)
		}
	}
	want := map[string][]string{
		"a": {"waits from 1 to 5", "runs from 5 to 9", "waits from 10"},
		"b": {"runs from -60 to 5"},
		"c": {"runs from 9"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestQueueTree(t *testing.T) {
	t.Parallel()
	r := report.Build(report.Input{
		Entries: []report.Entry{at(1, "b", stops("c", 2))},
		Queues: []report.Queue{
			{Name: "org"}, {Name: "b", Parent: "org"}, {Name: "a", Parent: "org"}, {Name: "lost", Parent: "gone"}, {Name: "x", Parent: "y"}, {Name: "y", Parent: "x"},
		},
	})
	var got []string
	for _, q := range r.Queues {
		got = append(got, fmt.Sprintf("%s at %d below %d: took %d, lost %d", q.Name, q.Depth, q.Parent, q.Took.Pods, q.Lost.Pods))
	}
	want := []string{
		"c at 0 below -1: took 0, lost 2", "lost at 0 below -1: took 0, lost 0", "org at 0 below -1: took 2, lost 0",
		"a at 1 below 2: took 0, lost 0", "b at 1 below 2: took 2, lost 0", "x at 0 below -1: took 0, lost 0", "y at 0 below -1: took 0, lost 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	line, err := os.ReadFile(filepath.Join("..", "decisionlog", "testdata", "carried-out.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var beside [2]string
	for i, name := range []string{"wait-end.jsonl", "inputs-whole.jsonl"} {
		text, err := os.ReadFile(filepath.Join("..", "decisionlog", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		beside[i] = string(text)
	}
	whole := string(line)
	for name, c := range map[string]struct {
		text        string
		want        report.Source
		wantMessage string
		// wantFirst is true if the error must name the first line that is not a line of a decision
		// log.
		wantFirst bool
	}{
		"a line":                       {text: whole, want: report.Source{Name: "log", Decisions: 1}},
		"broken lines among others":    {text: "{\n" + whole + "\n\n" + whole[:50], want: report.Source{Name: "log", Decisions: 1, Broken: 2}},
		"a line without its end":       {text: strings.TrimSpace(whole), want: report.Source{Name: "log", Decisions: 1}},
		"nothing":                      {wantMessage: "is empty; a file of the scheduler's --decision-log is needed"},
		"something else":               {text: "kind: Pod\n", want: report.Source{Name: "log", Broken: 1}, wantMessage: "has no decision in it (the first line: ", wantFirst: true},
		"decisions of another version": {text: `{"schema":"reprieve.dev/decision/v9"}`, wantMessage: `"reprieve.dev/decision/v9"`, wantFirst: true},
		"only the end of a wait":       {text: beside[0], wantMessage: "has no decision in it, only inputs of decisions or ends of waits; a file"},
		"only inputs":                  {text: beside[1], wantMessage: "has no decision in it, only inputs of decisions or ends of waits; a file"},
		"an end, and something else":   {text: beside[0] + "kind: Pod\n", wantMessage: "has no decision in it (the first line: ", wantFirst: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries, source, err := report.Read("log", strings.NewReader(c.text), report.Beside{})
			var empty *report.EmptyError
			if c.wantMessage != "" {
				if !errors.As(err, &empty) || !strings.Contains(err.Error(), c.wantMessage) || empty.First != nil != c.wantFirst {
					t.Errorf("The error is %v, want one that says %s", err, c.wantMessage)
				}
				return
			}
			if err != nil || source != c.want || len(entries) != c.want.Decisions {
				t.Errorf("%d entries, %+v, %v; want %+v", len(entries), source, err, c.want)
			}
			s := entries[0].Stops[0]
			if !s.Measured || s.GPUHours != 2 || s.CPUHours != 4 {
				t.Errorf("%s lost %v GPU-hours and %v CPU-hours, want 2 and 4", s.Name, s.GPUHours, s.CPUHours)
			}
		})
	}
}

// TestWrite checks that the page contains the report even if names contain HTML or control
// characters, and that its content security policy permits only what the mode needs.
func TestWrite(t *testing.T) {
	t.Parallel()
	for mode, wantPolicy := range map[report.Mode]string{report.Still: "connect-src 'none'", report.Live: "connect-src 'self'"} {
		const name = "</script><script>alert(1)</script>{{script}}"
		evil := at(1, name+"\u202e")
		var page, again bytes.Buffer
		for _, to := range []*bytes.Buffer{&page, &again} {
			if err := report.Write(to, report.Build(report.Input{Entries: []report.Entry{evil}}), mode); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(page.Bytes(), again.Bytes()) {
			t.Errorf("%s: the same decisions make two pages", mode)
		}
		text := page.String()
		for _, want := range []string{wantPolicy, "default-src 'none'", `content="` + string(mode) + `"`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the page has no %s", mode, want)
			}
		}
		for _, no := range []string{"<script>alert", "unsafe-inline", "https://"} {
			if strings.Contains(text, no) {
				t.Errorf("%s: the page has %s", mode, no)
			}
		}
		_, rest, _ := strings.Cut(text, `id="data">`)
		data, _, _ := strings.Cut(rest, "</script>")
		var back report.Report
		if err := json.Unmarshal([]byte(data), &back); err != nil || back.Workloads[0].Name != name+`\u202e` {
			t.Errorf("%s: the report reads back as %+v, %v", mode, back.Workloads, err)
		}
	}
}

// TestLostWork checks that an entry has the lost work of a record, for each victim and in total.
func TestLostWork(t *testing.T) {
	t.Parallel()
	const hour = 3600 * core.MilliDevices
	entry := report.FromRecord(&decisionlog.Record{Decision: core.Decision{
		Outcome: core.Preempts, Victims: []core.Victim{{Name: "a", LostWork: 2 * hour}, {Name: "b"}}, LostWork: 7 * hour,
	}})
	d := report.Build(report.Input{Entries: []report.Entry{entry}}).Decisions[0]
	if d.LostDeviceHours != 7 || d.Victims[0].LostDeviceHours != 2 || d.Victims[1].LostDeviceHours != 0 {
		t.Errorf("The decision loses %v device-hours, its victims %+v", d.LostDeviceHours, d.Victims)
	}
}
