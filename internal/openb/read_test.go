package openb_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/internal/openb"
	"github.com/reprieve-dev/reprieve/internal/simulation"
)

const (
	nodeHead = "sn,cpu_milli,memory_mib,gpu,model\n"
	podHead  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
	goodNode = "node-0,64000,262144,2,P100\n"
	goodPod  = "pod-0,12000,16384,1,1000,,LS,Running,0,100,10\n"
)

func read(t *testing.T, nodes, pods string) *openb.Trace {
	t.Helper()
	trace, err := openb.Read(strings.NewReader(nodes), strings.NewReader(pods))
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func TestBrokenLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes, pods string
		wantFirst   string
	}{
		"none":                         {},
		"an empty line":                {pods: "\n"},
		"the end of a line of Windows": {pods: "pod-1,12000,16384,1,1000,,LS,Running,0,100,10\r\n"},
		"a line that is cut":           {pods: "pod-1,12000,163\n", wantFirst: openb.PodList + ", line 3: 3 fields, and there are 11 columns"},
		"words for a number":           {pods: "pod-1,many,16384,1,1000,,LS,Running,0,100,10\n", wantFirst: `line 3: cpu_milli is "many", and has to be a number`},
		"less than nothing":            {pods: "pod-1,1,16384,-1,1000,,LS,Running,0,100,10\n", wantFirst: `num_gpu is "-1"`},
		"more than can be":             {pods: "pod-1,99999999999999,16384,1,1000,,LS,Running,0,100,10\n", wantFirst: "cpu_milli"},
		"gone before it came":          {pods: "pod-1,1,16384,1,1000,,LS,Running,200,100,\n", wantFirst: "deletion_time 100 is before the pod came"},
		"without a name":               {pods: ",1,16384,1,1000,,LS,Running,0,100,\n", wantFirst: `name "" is empty`},
		"a pod twice":                  {pods: goodPod, wantFirst: `name "pod-0" is empty, or there twice`},
		"a quote that never ends":      {pods: "\"pod-1,1,16384,1,1000,,LS,Running,0,100,\"x\n", wantFirst: "scheduled_time"},
		"a node without its memory":    {nodes: "node-1,64000,,2,P100\n", wantFirst: openb.NodeList + `, line 3: memory_mib is ""`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trace := read(t, nodeHead+goodNode+c.nodes, podHead+goodPod+c.pods+"pod-9,1,1,0,0,,BE,Pending,5,50,\n")
			if c.wantFirst == "" {
				if trace.Skipped != 0 {
					t.Errorf("%d lines are skipped: %s", trace.Skipped, trace.First)
				}
				return
			}
			if trace.Skipped != 1 || !strings.Contains(trace.First, c.wantFirst) {
				t.Errorf("%d lines are skipped, the first is %q, want %q", trace.Skipped, trace.First, c.wantFirst)
			}
			if len(trace.Nodes) != 1 || len(trace.Pods) != 2 {
				t.Errorf("%d nodes and %d pods are left", len(trace.Nodes), len(trace.Pods))
			}
		})
	}
}

func TestNoList(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ nodes, pods, want string }{
		"an empty file":         {podHead, "", "no column"},
		"nothing at all":        {"", "", "is empty"},
		"the lists in turn":     {podHead + goodPod, nodeHead + goodNode, `no column "sn"`},
		"only broken lines":     {nodeHead + goodNode, podHead + "x\n", "0 pods are left, with 1 broken lines (" + openb.PodList + ", line 2"},
		"a line without an end": {nodeHead + goodNode, podHead + strings.Repeat("x", 2<<20), "read " + openb.PodList},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := openb.Read(strings.NewReader(c.nodes), strings.NewReader(c.pods))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			if name != "a line without an end" && !errors.Is(err, openb.ErrFormat) {
				t.Errorf("%v is no ErrFormat", err)
			}
		})
	}
}

// TestInput checks the properties of the simulation's input that Shape determines.
func TestInput(t *testing.T) {
	t.Parallel()
	var pods strings.Builder
	for i, created := range []int{0, 30, 80, 90, 200, 100000} {
		fmt.Fprintf(&pods, "pod-%d,1000,1024,1,500,,BE,Running,%d,%d,%d\n", i, created, created+600, created)
	}
	// This pod arrives between two members of a gang. It is not a member, because it has another
	// QoS.
	pods.WriteString("other,1000,1024,1,500,,LS,Running,40,4040,40\n")
	trace := read(t, nodeHead+goodNode, podHead+pods.String())
	plain := trace.Input(openb.Shape{Together: time.Minute})
	var got []string
	for _, w := range plain.Work {
		got = append(got, fmt.Sprintf("%s %d of %v at %s for %s", w.Name, len(w.Requests), w.Requests[0], w.Submitted, w.Runs))
	}
	want := []string{
		"pod-0 4 of [1000 1073741824 500] at 1m30s for 10m0s",
		"other 1 of [1000 1073741824 500] at 40s for 1h6m40s",
		"pod-4 1 of [1000 1073741824 500] at 3m20s for 10m0s",
		"pod-5 1 of [1000 1073741824 500] at 27h46m40s for 10m0s",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the work is\n%q, want\n%q", got, want)
	}
	if w := plain.Work[0]; !w.Gang || !w.Whole || w.MinCount != 4 || w.Priority >= plain.Work[1].Priority {
		t.Errorf("the gang is %+v", w)
	}
	scaled := trace.Input(openb.Shape{Span: time.Hour, Load: 0.5})
	hours := 0.0
	for _, w := range scaled.Work {
		hours += float64(w.Requests[0][2]) / 1000 * w.Runs.Hours()
	}
	if last := scaled.Work[len(scaled.Work)-1]; len(scaled.Work) != 7 || last.Submitted != time.Hour || hours < 0.999 || hours > 1.001 {
		t.Errorf("%d pods come up to %s and take %.3f GPU-hours, want 7, 1h and half of 2", len(scaled.Work), last.Submitted, hours)
	}
	// Before scaling, the pauses add up to 1 h 200 s, because the pause before the last arrival is
	// limited to 1 h.
	if before := scaled.Work[5].Submitted; before < 3*time.Minute || before > 4*time.Minute {
		t.Errorf("the last but one comes at %s", before)
	}
}

// TestQueuesBySeed checks that the first of three queues gets half of the work. Each seed must
// distribute the work differently.
func TestQueuesBySeed(t *testing.T) {
	t.Parallel()
	var pods strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&pods, "pod-%d,1,1,0,0,,BE,Running,%d,%d,%d\n", i, i, i+9, i)
	}
	trace := read(t, nodeHead+goodNode, podHead+pods.String())
	dealt := func(seed uint64) (order string, counts map[string]int) {
		var b strings.Builder
		counts = make(map[string]int)
		in := trace.Input(openb.Shape{Seed: seed})
		for i := range in.Work {
			b.WriteString(in.Work[i].Queue)
			counts[in.Work[i].Queue]++
		}
		return b.String(), counts
	}
	first, counts := dealt(1)
	if a, b, c := counts["team-a"], counts["team-b"], counts["team-c"]; a < 2850 || a > 3150 || b < 1850 || b > 2150 || c < 850 || c > 1150 {
		t.Errorf("the queues have %v", counts)
	}
	if again, _ := dealt(1); again != first {
		t.Error("the same seed deals in another way")
	}
	if other, _ := dealt(2); other == first {
		t.Error("another seed deals in the same way")
	}
}

func TestThin(t *testing.T) {
	t.Parallel()
	var nodes strings.Builder
	for i := range 10 {
		fmt.Fprintf(&nodes, "node-%d,1,1,1,P100\n", i)
	}
	for count, want := range map[int]string{0: "10", 3: "3 node-0 node-3 node-6", 10: "10", 99: "10"} {
		trace := read(t, nodeHead+nodes.String(), podHead+goodPod)
		trace.Thin(count)
		got := fmt.Sprint(len(trace.Nodes))
		if len(trace.Nodes) < 10 {
			for i := range trace.Nodes {
				got += " " + trace.Nodes[i].Name
			}
		}
		if got != want {
			t.Errorf("Thin(%d) leaves %s, want %s", count, got, want)
		}
	}
}

// TestSample checks that a sample has every n-th pod, and that the seed selects the first. The pods
// keep their arrival times, and their running times are scaled to the load.
func TestSample(t *testing.T) {
	t.Parallel()
	var pods strings.Builder
	for i := range 8 {
		fmt.Fprintf(&pods, "pod-%d,1,1,1,1000,,BE,Running,%d,%d,%d\n", i, 100*i, 100*i+9+i, 100*i)
	}
	trace := read(t, nodeHead+goodNode, podHead+pods.String())
	all := trace.Input(openb.Shape{Span: 24 * time.Hour})
	for seed, want := range map[uint64][]int{0: {0, 3, 6}, 1: {1, 4, 7}, 5: {2, 5}} {
		in := trace.Input(openb.Shape{Seed: seed, Every: 3, Span: 24 * time.Hour, Load: 0.25})
		var got []int
		hours := 0.0
		for _, w := range in.Work {
			at := slices.IndexFunc(all.Work, func(o simulation.Work) bool { return o.Name == w.Name && o.Submitted == w.Submitted })
			got = append(got, at)
			hours += w.Runs.Hours()
		}
		if !slices.Equal(got, want) || hours < 11.99 || hours > 12.01 {
			t.Errorf("seed %d keeps %v for %.2f hours, want %v for a quarter of 48", seed, got, hours, want)
		}
	}
}
