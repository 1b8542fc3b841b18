package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// crowd is more work than the cluster has room for.
func crowd(seed uint64) *Input {
	in := room()
	random := rand.New(rand.NewPCG(seed, 2))
	for i := range 300 {
		w := someWork(random, fmt.Sprintf("job-%03d", i))
		w.Submitted, w.patience = time.Duration(random.Int64N(int64(20*time.Hour))), 0
		in.Work = append(in.Work, w)
	}
	return in
}

func playOut(t *testing.T, in *Input, rule Rule, o Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), in, Policy{Name: string(rule), Rule: rule}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSameEachTime checks that the same input, policy and seed give the same bytes.
func TestSameEachTime(t *testing.T) {
	t.Parallel()
	for _, rule := range Rules() {
		t.Run(string(rule), func(t *testing.T) {
			t.Parallel()
			results := make(map[string]int)
			for range 3 {
				text, err := json.Marshal(playOut(t, crowd(3), rule, Options{Seed: 5, Lasts: 24 * time.Hour, Grace: time.Minute}))
				if err != nil {
					t.Fatal(err)
				}
				results[string(text)]++
			}
			if len(results) != 1 {
				t.Errorf("there are %d results of the same", len(results))
			}
		})
	}
}

// TestHoursAddUp checks that the GPU time of all pods is used, lost or idle, and that all pods are
// counted.
func TestHoursAddUp(t *testing.T) {
	t.Parallel()
	for _, rule := range Rules() {
		t.Run(string(rule), func(t *testing.T) {
			t.Parallel()
			in := crowd(4)
			// Surplus members are left out, because a gang runs without them.
			for i := range in.Work {
				in.Work[i].Requests = in.Work[i].Requests[:in.Work[i].MinCount]
			}
			meter := &meter{}
			s := newSimulation(in, Policy{Name: string(rule), Rule: rule}, Options{Seed: 1, Lasts: 24 * time.Hour, Grace: time.Minute}, meter)
			s.load(in)
			if err := s.run(t.Context(), in.Start.Add(24*time.Hour)); err != nil {
				t.Fatal(err)
			}
			r := s.result(in)
			sum := r.GPUHours.Used + r.GPUHours.Lost + r.GPUHours.Idle
			if math.Abs(sum-meter.hours) > 0.01 || meter.hours > r.GPUHours.Capacity || r.GPUHours.Capacity != 20*8*24 {
				t.Errorf("used, lost and idle are %+v, and pods had %.3f", r.GPUHours, meter.hours)
			}
			pods := 0
			for i := range in.Work {
				pods += len(in.Work[i].Requests)
			}
			for _, c := range []Counts{r.Work, r.Pods} {
				if c.Submitted != c.Done+c.Running+c.Waiting || c.Done == 0 || c.Running == 0 {
					t.Errorf("of %d, %d are done, %d run, %d wait", c.Submitted, c.Done, c.Running, c.Waiting)
				}
			}
			if r.Work.Submitted != len(in.Work) || r.Pods.Submitted != pods {
				t.Errorf("%d workloads of %d pods were submitted, want %d of %d", r.Work.Submitted, r.Pods.Submitted, len(in.Work), pods)
			}
			if took := r.EvictedPods > 0 && r.GPUHours.Lost > 0; took != (rule != NoPreemption) {
				t.Errorf("%d pods were evicted, and %.1f GPU-hours lost", r.EvictedPods, r.GPUHours.Lost)
			}
		})
	}
}

// meter adds up the GPU usage of all nodes directly.
type meter struct {
	watch
	hours float64
}

func (m *meter) passes(s *simulation, until time.Time) {
	gpus := int64(0)
	for _, n := range s.nodes {
		gpus += n.allocatable[0] - n.free()[0]
	}
	m.hours += float64(gpus) * until.Sub(s.now).Hours()
}

// one is an input with one node of 4 GPUs.
func one(work ...Work) *Input {
	in := &Input{Start: midnight(), Resources: []string{"gpu"}, GPU: 0, PerGPU: 1, Nodes: []Node{{Name: "a", Allocatable: core.Amounts{4}}}, Work: work}
	for i := range in.Work {
		w := &in.Work[i]
		w.Namespace, w.Name = "ns", fmt.Sprintf("w%d", i)
		w.MinCount = max(w.MinCount, 1)
	}
	return in
}

func TestRun(t *testing.T) {
	t.Parallel()
	gpus := func(each int64, members int) []core.Amounts { return slices.Repeat([]core.Amounts{{each}}, members) }
	low := Work{Requests: gpus(4, 1), Runs: 3 * time.Hour}
	high := Work{Requests: gpus(4, 1), Runs: time.Hour, Priority: 10, Submitted: 90 * time.Minute}
	for name, c := range map[string]struct {
		in         *Input
		rule       Rule
		checkpoint time.Duration
		wantDone   int
		wantPods   int
		wantLost   float64
		wantUsed   float64
	}{
		"an eviction loses what has been done":      {in: one(low, high), rule: ByPriority, wantDone: 2, wantPods: 1, wantLost: 6, wantUsed: 16},
		"what was saved is kept":                    {in: one(low, high), rule: ByPriority, checkpoint: time.Hour, wantDone: 2, wantPods: 1, wantLost: 2, wantUsed: 16},
		"kube-scheduler does so too":                {in: one(low, high), rule: KubeScheduler, wantDone: 2, wantPods: 1, wantLost: 6, wantUsed: 16},
		"without preemption it waits":               {in: one(low, high), rule: NoPreemption, wantDone: 2, wantUsed: 16},
		"a gang waits for its room":                 {in: one(Work{Requests: gpus(3, 1), Runs: time.Hour}, Work{Gang: true, Whole: true, MinCount: 2, Requests: gpus(2, 2), Runs: time.Hour, Submitted: time.Minute}), rule: ByPriority, wantDone: 2, wantUsed: 7},
		"half of a gang keeps what it cannot use":   {in: one(Work{Requests: gpus(2, 1), Runs: time.Hour}, Work{Gang: true, MinCount: 2, Requests: gpus(2, 2), Runs: time.Hour, Submitted: time.Minute}), rule: KubeScheduler, wantDone: 2, wantUsed: 6},
		"a victim that has a gang stops all of it":  {in: one(Work{Gang: true, MinCount: 2, Requests: gpus(2, 2), Runs: 2 * time.Hour}, Work{Requests: gpus(2, 1), Runs: time.Hour, Priority: 10, Submitted: time.Hour}), rule: KubeScheduler, wantDone: 2, wantPods: 1, wantLost: 4, wantUsed: 10},
		"a gang goes whole where it is one unit":    {in: one(Work{Gang: true, Whole: true, MinCount: 2, Requests: gpus(2, 2), Runs: 2 * time.Hour}, Work{Requests: gpus(2, 1), Runs: time.Hour, Priority: 10, Submitted: time.Hour}), rule: ByPriority, wantDone: 2, wantPods: 2, wantLost: 4, wantUsed: 10},
		"what runs at the start is taken like that": {in: one(Work{Requests: gpus(4, 1), Runs: 3 * time.Hour, On: []string{"a"}}, high), rule: ByPriority, wantDone: 2, wantPods: 1, wantLost: 6, wantUsed: 16},
		"a priority class that forbids preempting":  {in: one(low, Work{Requests: gpus(4, 1), Runs: time.Hour, Priority: 10, Never: true, Submitted: time.Minute}), rule: ByPriority, wantDone: 2, wantUsed: 16},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := playOut(t, c.in, c.rule, Options{Seed: 1, Lasts: 24 * time.Hour, Checkpoint: c.checkpoint, Grace: time.Second})
			// The tolerance covers the time of cycles and grace periods.
			if r.Work.Done != c.wantDone || r.EvictedPods != c.wantPods || math.Abs(r.GPUHours.Lost-c.wantLost) > 0.01 || math.Abs(r.GPUHours.Used-c.wantUsed) > 0.01 {
				t.Errorf("%d done, %d pods evicted, %+v; want %d, %d, %g lost, %g used", r.Work.Done, r.EvictedPods, r.GPUHours, c.wantDone, c.wantPods, c.wantLost, c.wantUsed)
			}
		})
	}
}

// TestIdleGang checks that members on a node wait there for the others.
func TestIdleGang(t *testing.T) {
	t.Parallel()
	in := one(Work{Requests: []core.Amounts{{2}}, Runs: time.Hour}, Work{Gang: true, MinCount: 2, Requests: []core.Amounts{{2}, {2}}, Runs: time.Hour})
	r := playOut(t, in, KubeScheduler, Options{Seed: 1, Lasts: 24 * time.Hour})
	if math.Abs(r.GPUHours.Idle-2) > 0.01 || r.Wait.P99 < 3500 {
		t.Errorf("%+v, p99 %g; want 2 GPU-hours idle, and a wait of an hour", r.GPUHours, r.Wait.P99)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]*Input{
		"no nodes":                   {},
		"a node of other resources":  {Resources: []string{"gpu"}, Nodes: []Node{{Name: "a", Allocatable: core.Amounts{1, 2}}}},
		"work without pods":          one(Work{}),
		"more needed than there are": one(Work{Gang: true, MinCount: 3, Requests: []core.Amounts{{1}}}),
		"a pod of several":           one(Work{Requests: []core.Amounts{{1}, {1}}}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Run(t.Context(), in, Policy{Rule: ByPriority}, Options{}); !errors.Is(err, ErrInput) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
