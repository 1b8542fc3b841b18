package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// crowd returns an input with more work than the cluster has room for.
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

func playOut(t *testing.T, in *Input, p Policy, o Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), in, p, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSameEachTime checks that two simulations of one input, policy and seed have the same steps
// and the same result, and that the input is not changed. Another seed must have other steps.
func TestSameEachTime(t *testing.T) {
	t.Parallel()
	for _, policy := range NamedPolicies() {
		t.Run(policy.Name, func(t *testing.T) {
			t.Parallel()
			in := crowd(3)
			first := courseOf(t, in, policy, 5)
			for range 2 {
				again := courseOf(t, in, policy, 5)
				if at := first.parts(again); at >= 0 {
					t.Fatalf("step %d is\n%s\nand then\n%s", at, first.step(at), again.step(at))
				}
			}
			if first.parts(courseOf(t, in, policy, 6)) < 0 {
				t.Errorf("another seed gives the same %d steps", len(first.steps))
			}
			if diff := cmp.Diff(crowd(3), in, cmp.AllowUnexported(Work{})); diff != "" {
				t.Errorf("the input has changed (-want +got):\n%s", diff)
			}
		})
	}
}

// course is an observer that records each decision, and the pods of all nodes after each event. The
// last step is the Result.
type course struct {
	watch
	steps []string
	nodes string
}

// courseOf returns the course of a simulation in which calls fail and deletions are delayed.
func courseOf(t *testing.T, in *Input, p Policy, seed uint64) *course {
	t.Helper()
	c := &course{}
	s := newSimulation(in, p, Options{Seed: seed, Lasts: 24 * time.Hour, Grace: time.Minute, faulty: 15, longestLag: longestLag}, c)
	s.load(in)
	if err := s.run(t.Context(), in.Start.Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s.result(in))
	if err != nil {
		t.Fatal(err)
	}
	c.steps = append(c.steps, string(text))
	return c
}

func (c *course) add(s *simulation, format string, args ...any) {
	c.steps = append(c.steps, s.now.Format(time.RFC3339Nano)+" "+fmt.Sprintf(format, args...))
}

func (c *course) decided(s *simulation, j *job, _ *core.Preemptor, d *core.Decision) {
	text, err := json.Marshal(d)
	c.add(s, "%s: %s %v", j.key, text, err)
}

func (c *course) toldTheSame(s *simulation, j *job, _ *core.Preemptor, _ []core.Hold) {
	c.add(s, "%s is refused without a decision", j.key)
}

func (c *course) overLimit(s *simulation, j *job) { c.add(s, "%s is over a limit", j.key) }

func (c *course) settled(s *simulation) {
	var on strings.Builder
	for _, n := range s.nodes {
		on.WriteString(n.name + ":")
		for _, p := range n.pods {
			fmt.Fprintf(&on, " %s %t", p.uid, p.terminating)
		}
		on.WriteString("; ")
	}
	if on.String() != c.nodes {
		c.nodes = on.String()
		c.add(s, "%s", c.nodes)
	}
}

// parts returns the index of the first step that differs between two courses, or -1 if they are
// equal.
func (c *course) parts(other *course) int {
	for i := range max(len(c.steps), len(other.steps)) {
		if c.step(i) != other.step(i) {
			return i
		}
	}
	return -1
}

// step returns the step with the index i. It returns "" after the last step.
func (c *course) step(i int) string {
	if i >= len(c.steps) {
		return ""
	}
	return c.steps[i]
}

// TestHoursAddUp checks that the GPU time of all pods equals the sum of used, lost and idle time,
// and that each pod is counted.
func TestHoursAddUp(t *testing.T) {
	t.Parallel()
	for _, policy := range NamedPolicies() {
		t.Run(policy.Name, func(t *testing.T) {
			t.Parallel()
			in := crowd(4)
			// Remove surplus members. Otherwise some pods would never run, because a gang runs
			// without its surplus members.
			for i := range in.Work {
				in.Work[i].Requests = in.Work[i].Requests[:in.Work[i].MinCount]
			}
			meter := &meter{}
			s := newSimulation(in, policy, Options{Seed: 1, Lasts: 24 * time.Hour, Grace: time.Minute}, meter)
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
			if took := r.EvictedPods > 0 && r.GPUHours.Lost > 0; took != (policy.Rule != NoPreemption) {
				t.Errorf("%d pods were evicted, and %.1f GPU-hours lost", r.EvictedPods, r.GPUHours.Lost)
			}
		})
	}
}

// meter is an observer that sums up the GPU usage of all nodes.
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

// one returns an input with one node that has 4 GPUs.
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
	old, young := Work{Requests: gpus(2, 1), Runs: 3 * time.Hour}, Work{Requests: gpus(1, 1), Runs: time.Hour, Submitted: time.Hour}
	often := low
	often.Interval = 80 * time.Minute
	// The work has run for an hour before the start, and half an hour of that is saved. It is
	// stopped twice.
	saved := Work{Requests: gpus(4, 1), Runs: 2 * time.Hour, On: []string{"a"}, Ran: time.Hour, Saved: 30 * time.Minute}
	again := high
	again.Submitted = 210 * time.Minute
	crew := saved
	crew.Gang, crew.MinCount, crew.Requests, crew.On = true, 2, gpus(2, 2), []string{"a", "a"}
	raised, lessRaised := low, low
	raised.RaisedBy, lessRaised.RaisedBy = 10, 9
	raisedGang := Work{Gang: true, MinCount: 2, Requests: gpus(2, 2), Runs: 3 * time.Hour, RaisedBy: 10}
	slow := young
	slow.Restart = 24 * time.Hour
	oldAndYoung := one(old, young, young, Work{Requests: gpus(2, 1), Runs: time.Hour, Priority: 10, Submitted: 90 * time.Minute})
	oneBand := one(old, Work{Requests: gpus(2, 1), Runs: time.Hour, Priority: 5, Submitted: time.Hour}, Work{Requests: gpus(2, 1), Runs: time.Hour, Priority: 10, Submitted: 90 * time.Minute})
	for name, c := range map[string]struct {
		in         *Input
		rule       Rule
		order      core.Order
		podCost    time.Duration
		bands      []core.Band
		checkpoint time.Duration
		wantDone   int
		wantPods   int
		wantLost   float64
		wantUsed   float64
	}{
		"an eviction loses what has been done":      {in: one(low, high), rule: ByPriority, wantDone: 2, wantPods: 1, wantLost: 6, wantUsed: 16},
		"a raised priority protects":                {in: one(raised, high), rule: ByPriority, wantDone: 2, wantUsed: 16},
		"and that of a gang":                        {in: one(raisedGang, high), rule: ByPriority, wantDone: 2, wantUsed: 16},
		"one that is raised by less does not":       {in: one(lessRaised, high), rule: ByPriority, wantDone: 2, wantPods: 1, wantLost: 6, wantUsed: 16},
		"kube-scheduler does not know of it":        {in: one(raised, high), rule: KubeScheduler, wantDone: 2, wantPods: 1, wantLost: 6, wantUsed: 16},
		"one pod stops instead of two":              {in: oldAndYoung, rule: ByPriority, wantDone: 4, wantPods: 1, wantLost: 3, wantUsed: 10},
		"two young pods stop instead of an old one": {in: oldAndYoung, rule: ByPriority, order: core.OrderLostWork, wantDone: 4, wantPods: 2, wantLost: 1, wantUsed: 10},
		"the cost of pods keeps the two young ones": {in: oldAndYoung, rule: ByPriority, order: core.OrderLostWork, podCost: 3 * time.Hour, wantDone: 4, wantPods: 1, wantLost: 3, wantUsed: 10},
		"in a band, a young pod stops, and then the old one of a lower priority for it": {
			in: oneBand, rule: ByPriority, order: core.OrderLostWork, bands: []core.Band{{Min: 0, Max: 5}}, wantDone: 3, wantPods: 2, wantLost: 4, wantUsed: 10,
		},
		"without bands, the old one stops":          {in: oneBand, rule: ByPriority, order: core.OrderLostWork, wantDone: 3, wantPods: 1, wantLost: 3, wantUsed: 10},
		"what was saved is kept":                    {in: one(low, high), rule: ByPriority, checkpoint: time.Hour, wantDone: 2, wantPods: 1, wantLost: 2, wantUsed: 16},
		"the work's own interval counts":            {in: one(often, high), rule: ByPriority, checkpoint: time.Hour, wantDone: 2, wantPods: 1, wantLost: 2.0 / 3, wantUsed: 16},
		"kube-scheduler's work has it too":          {in: one(often, high), rule: KubeScheduler, checkpoint: time.Hour, wantDone: 2, wantPods: 1, wantLost: 2.0 / 3, wantUsed: 16},
		"the last checkpoint counts once":           {in: one(saved, high, again), rule: ByPriority, wantDone: 3, wantPods: 2, wantLost: 8 + 4, wantUsed: 20},
		"the last checkpoint of a crew too":         {in: one(crew, high, again), rule: KubeScheduler, wantDone: 3, wantPods: 4, wantLost: 4 + 4, wantUsed: 20},
		"work with a restart cost stays":            {in: one(old, slow, slow, oldAndYoung.Work[3]), rule: ByPriority, order: core.OrderLostWork, wantDone: 4, wantPods: 1, wantLost: 3, wantUsed: 10},
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
			r := playOut(t, c.in, Policy{Rule: c.rule, Order: c.order, PodCost: int64(c.podCost), Bands: c.bands}, Options{Seed: 1, Lasts: 24 * time.Hour, Checkpoint: c.checkpoint, Grace: time.Second})
			// The tolerance is for scheduling cycles and grace periods.
			if r.Work.Done != c.wantDone || r.EvictedPods != c.wantPods || math.Abs(r.GPUHours.Lost-c.wantLost) > 0.01 || math.Abs(r.GPUHours.Used-c.wantUsed) > 0.01 {
				t.Errorf("%d done, %d pods evicted, %+v; want %d, %d, %g lost, %g used", r.Work.Done, r.EvictedPods, r.GPUHours, c.wantDone, c.wantPods, c.wantLost, c.wantUsed)
			}
		})
	}
}

// TestIdleGang checks that gang members that have a node wait there for the other members.
func TestIdleGang(t *testing.T) {
	t.Parallel()
	in := one(Work{Requests: []core.Amounts{{2}}, Runs: time.Hour}, Work{Gang: true, MinCount: 2, Requests: []core.Amounts{{2}, {2}}, Runs: time.Hour})
	r := playOut(t, in, Policy{Rule: KubeScheduler}, Options{Seed: 1, Lasts: 24 * time.Hour})
	if math.Abs(r.GPUHours.Idle-2) > 0.01 || r.Wait.P99 < 3500 {
		t.Errorf("%+v, p99 %g; want 2 GPU-hours idle, and a wait of an hour", r.GPUHours, r.Wait.P99)
	}
}

// TestPreemptorWait checks that PreemptorWait has only waits with a preemption, including a wait
// that has not ended. The victim waits for an hour and preempts nothing, so its wait does not
// count.
func TestPreemptorWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lasts              time.Duration
		wantNever          int
		wantLeast, wantMax float64
	}{
		"a wait that ends with the victims": {lasts: 24 * time.Hour, wantLeast: 1, wantMax: 3},
		"a wait that has not ended":         {lasts: 90*time.Minute + 500*time.Millisecond, wantNever: 1, wantLeast: 0.5, wantMax: 0.5},
		"no preemption yet":                 {lasts: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			low := Work{Requests: []core.Amounts{{4}}, Runs: 3 * time.Hour}
			high := Work{Requests: []core.Amounts{{4}}, Runs: time.Hour, Priority: 10, Submitted: 90 * time.Minute}
			r := playOut(t, one(low, high), Policy{Rule: ByPriority}, Options{Seed: 1, Lasts: c.lasts, Grace: time.Second})
			if got := r.PreemptorWait; got.P50 != got.P99 || got.P99 < c.wantLeast || got.P99 > c.wantMax || got.Never != c.wantNever {
				t.Errorf("%+v, want %g to %g seconds and %d waits that have not ended", got, c.wantLeast, c.wantMax, c.wantNever)
			}
		})
	}
}

// TestStopsInSimulation checks two gangs of equal priority. One gang is preempted and restarts.
// If the order counts stops, the next preemption stops the gang that was not stopped before.
// Otherwise it stops the gang that was stopped before, because that gang started last.
func TestStopsInSimulation(t *testing.T) {
	t.Parallel()
	gang := Work{Gang: true, Whole: true, MinCount: 1, Requests: []core.Amounts{{2}}, Runs: 3 * time.Hour}
	later := gang
	later.Submitted = time.Minute
	high := Work{Requests: []core.Amounts{{2}}, Runs: 10 * time.Minute, Priority: 10, Submitted: 30 * time.Minute}
	again := high
	again.Submitted = 50 * time.Minute
	for counts, want := range map[bool]float64{false: 2 * (29.0 + 10) / 60, true: 2 * (29.0 + 50) / 60} {
		t.Run(fmt.Sprint(counts), func(t *testing.T) {
			t.Parallel()
			r := playOut(t, one(gang, later, high, again), Policy{Rule: ByPriority, CountsStops: counts}, Options{Seed: 1, Lasts: 24 * time.Hour, Grace: time.Second})
			if r.Work.Done != 4 || r.EvictedPods != 2 || math.Abs(r.GPUHours.Lost-want) > 0.02 {
				t.Errorf("%d done, %d pods evicted, %g GPU-hours lost; want 4, 2 and %g", r.Work.Done, r.EvictedPods, r.GPUHours.Lost, want)
			}
		})
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
