package simulation

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// rival is an observer that compares each decision with the choice of the model of kube-scheduler
// in the same state.
type rival struct {
	watch
	// The fields count decisions by comparison with the model's choice:
	//
	//   - compared: the highest priority of a victim is the same as in the model's choice
	//   - less, more: as compared, and the decision loses less or more work than the model's choice
	//   - higher: the highest priority of a victim is higher than in the model's choice
	compared, less, more, higher int
}

func (r *rival) decided(s *simulation, j *job, _ *core.Preemptor, d *core.Decision) {
	if d.Outcome != core.Preempts {
		return
	}
	potential := largeEnough(s.nodes, j)
	var best *candidate
	for _, c := range candidates(potential, j, reservedOn(s.promises(j)), 0, len(potential)) {
		if best == nil || c.compare(best) < 0 {
			best = c
		}
	}
	// The model counts terminating pods as victims, and the core does not. So the two choices are
	// not comparable if the model's victims include a terminating pod.
	if best == nil || slices.ContainsFunc(best.victims, (*pod).leaving) {
		return
	}
	highest := int32(math.MinInt32)
	mine := s.victimsOf(d)
	for _, v := range mine {
		highest = max(highest, v.job.priority)
	}
	switch theirs := best.victims[0].job.priority; {
	case highest > theirs:
		r.higher++
	case highest == theirs:
		r.compared++
		switch a, b := lossOf(s, mine), lossOf(s, best.victims); {
		case a < b:
			r.less++
		case a > b:
			r.more++
		}
	}
}

// lossOf returns the work that is lost by evicting single pods, in milli-device-seconds. The first
// resource is GPUs, and the second is CPUs.
func lossOf(s *simulation, pods []*pod) (lost int64) {
	for _, p := range pods {
		devices := 1000 * p.request[0]
		if devices == 0 {
			devices = max(1000*p.request[1]/p.node.allocatable[1], 1)
		}
		lost += devices * int64(s.now.Sub(p.job.began)/time.Second)
	}
	return lost
}

// TestLossBesideKubeScheduler compares each decision with kube-scheduler's choice in the same
// state. No decision may evict pods of a higher priority, or lose more work. So if a whole
// simulation loses more work, the cause is that other work runs later, not a single decision. With
// steps and a cost for each pod, a decision may lose a little more work to evict fewer pods.
func TestLossBesideKubeScheduler(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]Policy{
		"by priorities": {Rule: ByPriority}, "by lost work": {Rule: ByPriority, Order: core.OrderLostWork}, "by default": Policy{Rule: ByPriority}.withDefaultOrder(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rival{}
			for seed := range uint64(4) {
				in := crowd(seed)
				for i := range in.Work {
					w := &in.Work[i]
					w.Gang, w.Whole, w.MinCount, w.Requests, w.Tolerates = false, false, 1, w.Requests[:1], 0
					w.Runs *= 3
				}
				s := newSimulation(in, policy, Options{Seed: seed, Lasts: 24 * time.Hour}, r)
				s.load(in)
				if err := s.run(t.Context(), in.Start.Add(24*time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d decisions: %d lose less and %d lose more; %d more have a higher priority", r.compared, r.less, r.more, r.higher)
			if r.higher > 0 || policy.PodCost == 0 && r.more > 0 || r.compared == 0 || policy.Order == core.OrderLostWork && r.less == 0 {
				t.Error("a decision is worse than the choice of kube-scheduler, or the days prove nothing")
			}
		})
	}
}
