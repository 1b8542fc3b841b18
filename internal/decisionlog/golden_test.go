package decisionlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprieve-dev/reprieve/internal/core"
)

var update = flag.Bool("decisionlog.update", false, "write the golden files anew")

var noon = time.Date(2026, time.March, 2, 12, 0, 0, 250_000_000, time.UTC)

const gigabyte = 1 << 30

// small returns a snapshot of two nodes with eight GPUs each. The units run on the nodes.
func small(units ...core.Unit) *core.Snapshot {
	s := &core.Snapshot{Resources: []string{"pods", "cpu", "memory", "nvidia.com/gpu"}}
	for _, name := range []string{"node-0", "node-1"} {
		room := core.Amounts{110, 64_000, 512 * gigabyte, 8}
		s.Nodes = append(s.Nodes, core.Node{Name: name, Free: append(core.Amounts(nil), room...), Allocatable: room})
	}
	s.Units = units
	for _, u := range units {
		for _, p := range u.Pods {
			for r, v := range p.Request {
				s.Nodes[p.Node].Free[r] -= v
			}
		}
	}
	return s
}

// running returns a unit of one pod with the given number of GPUs that started an hour before noon.
func running(name string, priority int32, node int, gpus int64) core.Unit {
	start := noon.Add(-time.Hour).UnixNano()
	return core.Unit{
		Namespace: "research", Name: name, UID: "uid-" + name, Priority: priority, Start: start, Since: start,
		Pods: []core.Pod{{Namespace: "research", Name: name, UID: "uid-" + name, Node: node, Request: core.Amounts{1, 4000, 16 * gigabyte, gpus}, Start: start}},
	}
}

// urgent returns a gang of two pods with the given number of GPUs each.
func urgent(gpus int64) *core.Preemptor {
	return &core.Preemptor{
		Namespace: "prod", Name: "urgent", UID: "uid-urgent", Gang: true, Priority: 1000, Now: noon.UnixNano(), PodGroup: "uid-urgent", MinCount: 2,
		Classes: []core.Class{{Request: core.Amounts{1, 8000, 64 * gigabyte, gpus}, Members: []core.Member{
			{Name: "urgent-0", UID: "uid-urgent-0"}, {Name: "urgent-1", UID: "uid-urgent-1", Rank: 1},
		}}},
	}
}

// alone returns a pod of priority 10 with the given number of GPUs.
func alone(gpus int64) *core.Preemptor {
	return &core.Preemptor{
		Namespace: "research", Name: "again", UID: "uid-again", Priority: 10, Now: noon.UnixNano(), MinCount: 1,
		Classes: []core.Class{{Request: core.Amounts{1, 4000, 16 * gigabyte, gpus}, Members: []core.Member{{Name: "again", UID: "uid-again"}}}},
	}
}

// someone returns a pod of priority 1000 with the given number of GPUs.
func someone(gpus int64) *core.Preemptor {
	p := alone(gpus)
	p.Priority = 1000
	return p
}

// made returns the record of the decision that package core makes for a preemptor.
func made(tb testing.TB, s *core.Snapshot, p *core.Preemptor) Record {
	tb.Helper()
	d, err := core.Decide(s, p, nil)
	if err != nil {
		tb.Fatal(err)
	}
	d.Elapsed = 1_250_000
	r := Record{Time: noon, Profile: "reprieve-scheduler", Asks: AsksOf(p.Classes, s.Resources), Decision: d}
	for _, v := range d.Victims {
		lost := Lost{UID: v.UID}
		for _, u := range s.Units {
			if u.UID == v.UID {
				lost.Spend(time.Unix(0, u.Start), noon, map[string]int64{"cpu": u.Pods[0].Request[1], s.Resources[3]: u.Pods[0].Request[3]})
			}
		}
		r.Lost = append(r.Lost, lost)
	}
	return r
}

// TestGolden checks the format of records against golden files, because other programs read the
// format. docs/decisions.md shows one of the lines.
func TestGolden(t *testing.T) {
	t.Parallel()
	guarded := urgent(8)
	guarded.MinRuntime.Preempt = int64(2 * time.Hour)
	leaving := small(running("training", 10, 0, 8))
	leaving.Leaving, leaving.Units = leaving.Units[0].Pods, nil
	for name, c := range map[string]struct {
		snapshot  *core.Snapshot
		preemptor *core.Preemptor
		waitsFor  string
		repeated  bool
		result    Result
	}{
		"carried-out": {
			snapshot: small(running("training", 10, 0, 8), running("notebook", 20, 1, 2), running("serving", 2000, 1, 2)), preemptor: urgent(6),
			result: Result{State: CarriedOut, Time: noon.Add(80 * time.Millisecond)},
		},
		"with-a-choice": {
			snapshot: small(running("training", 10, 0, 8), running("serving", 20, 1, 8)), preemptor: someone(8),
			result: Result{State: CarriedOut, Time: noon.Add(80 * time.Millisecond)},
		},
		"failed": {
			snapshot: small(running("training", 10, 0, 8)), preemptor: urgent(8),
			result: Result{State: Failed, Time: noon.Add(30 * time.Millisecond), Error: `delete pod research/training: pods "training" is forbidden`, Begun: 1},
		},
		"under-way":   {snapshot: small(running("training", 10, 0, 8)), preemptor: urgent(8), result: Result{State: UnderWay}},
		"protected":   {snapshot: small(running("training", 10, 0, 8)), preemptor: guarded, result: Result{State: Waiting}},
		"waits":       {snapshot: leaving, preemptor: urgent(8), waitsFor: "waits for research/training on node-0", result: Result{State: Waiting}},
		"no-way":      {snapshot: small(running("training", 10, 0, 8)), preemptor: urgent(16), result: Result{State: Waiting}},
		"told-before": {snapshot: small(running("serving", 2000, 0, 8), running("other", 10, 1, 4)), preemptor: alone(8), repeated: true, result: Result{State: Waiting}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := made(t, c.snapshot, c.preemptor)
			r.WaitsFor, r.Repeated, r.Result = c.waitsFor, c.repeated, c.result
			log := New(Options{Process: "reprieve-scheduler-7d4f_1c9e"})
			log.Record(r)
			r = log.Latest()[0]
			var line bytes.Buffer
			if err := Encode(&line, &r); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".jsonl")
			if *update {
				if err := os.WriteFile(file, line.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, line.Bytes()) {
				t.Errorf("The line is (-want +got):\n%s", cmp.Diff(string(want), line.String()))
			}
			back, err := Parse(want)
			if err != nil {
				t.Fatal(err)
			}
			line.Reset()
			if err := Encode(&line, &back); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, line.Bytes()) {
				t.Errorf("It reads back as (-want +got):\n%s", cmp.Diff(string(want), line.String()))
			}
		})
	}
}

// TestInputsGolden checks the format of lines of inputs against golden files, and that ParseInputs
// reads them back unchanged.
func TestInputsGolden(t *testing.T) {
	t.Parallel()
	object := func(text string) json.RawMessage { return json.RawMessage(text) }
	for name, in := range map[string]Inputs{
		"inputs-whole": {
			Schema: InputsSchema, Time: noon, Process: "reprieve-scheduler-7d4f_1c9e", Number: 1,
			Whole: &Whole{Version: "Reprieve v1.2.3, Kubernetes v1.37.1", Configuration: "kind: KubeSchedulerConfiguration\n", Redacted: true, NativeVersion: "v1beta1",
				Roots: []Root{{APIVersion: "batch/v1", Kind: "Job", Resource: "jobs"}}},
			Objects: map[string][]json.RawMessage{
				"nodes": {object(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-a"}}`)},
				"pods":  {object(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"train-0","namespace":"default","uid":"u"}}`)},
			},
		},
		"inputs-changed": {
			Schema: InputsSchema, Time: noon, Process: "reprieve-scheduler-7d4f_1c9e", Number: 3, From: 2,
			Objects:  map[string][]json.RawMessage{"pods": {object(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"train-1","namespace":"default","uid":"v"}}`)}},
			Gone:     map[string][]string{"nodes": {"/node-b"}, "pods": {"default/train-0"}},
			Promised: []Reservation{{UID: "v", Node: "node-a"}}, Leaving: []string{"w"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var line bytes.Buffer
			if err := EncodeInputs(&line, &in); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".jsonl")
			if *update {
				if err := os.WriteFile(file, line.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, line.Bytes()) {
				t.Errorf("The line is (-want +got):\n%s", cmp.Diff(string(want), line.String()))
			}
			back, err := ParseInputs(want)
			if err != nil || !cmp.Equal(in, back) {
				t.Errorf("It reads back as (-want +got), %v:\n%s", err, cmp.Diff(in, back))
			}
			if _, err := Parse(want); !errors.Is(err, ErrInputs) {
				t.Errorf("As a decision it is %v, want ErrInputs", err)
			}
		})
	}
	if _, err := ParseInputs([]byte(`{"schema":"reprieve.dev/inputs/v2"}`)); !errors.Is(err, ErrSchema) {
		t.Errorf("Another version is read with %v", err)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line        string
		wantSchema  bool
		wantMessage string
	}{
		"another version":           {line: `{"schema":"reprieve.dev/decision/v2"}`, wantSchema: true, wantMessage: `"reprieve.dev/decision/v2"`},
		"something else":            {line: `{"kind":"Pod"}`, wantSchema: true, wantMessage: `its schema is ""`},
		"a line that was cut":       {line: `{"schema":"reprieve.dev/decision/v1","time":"20`, wantMessage: "unexpected end of JSON input"},
		"a field of another type":   {line: `{"schema":"reprieve.dev/decision/v1","sequence":"one"}`, wantMessage: "sequence"},
		"a line that is no object":  {line: `1`, wantMessage: "read a record of a decision"},
		"a line with nothing in it": {line: ``, wantMessage: "unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(c.line))
			if err == nil || errors.Is(err, ErrSchema) != c.wantSchema || !bytes.Contains([]byte(err.Error()), []byte(c.wantMessage)) {
				t.Errorf("The error is %v, want one that says %s", err, c.wantMessage)
			}
		})
	}
}
