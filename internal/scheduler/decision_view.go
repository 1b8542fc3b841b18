package scheduler

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// decisionView is the cluster for one decision.
type decisionView struct {
	*snapshot.View
	// mark is the position in the order of ended causes when the view was taken. If a cause has
	// ended since then, the preemptor does not wait for it.
	mark engine.Mark
	// seen identifies the state of running groups when the view was taken.
	seen uint64
	// promised has the reservations and nominations of other workloads when the view was taken. own
	// has the preemptor's reservations, in the order of its plan.
	promised []snapshot.RankedRoom
	own      []*engine.Reservation
	// kept is the room for lost members of gangs that the preemptor must not use. It is part of the
	// room above.
	kept []*engine.Reservation
}

// newView returns a view of the cycle's snapshot for a preemptor. It reads the reservations once,
// for the decision and its record, because a second read could differ.
func (p *Plugin) newView(pre *preemptor) (*decisionView, error) {
	infos, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list nodes of the snapshot: %w", err)
	}
	budgets, err := p.budgets.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	p.sched.recorder.Looks()
	p.sched.doubted.looks()
	v := &decisionView{mark: p.sched.waits.Mark(), seen: p.sched.runs.Settle(p.sched.groups, p.sched.clock.Now())}
	p.sched.lookAtStale()
	if err := p.sched.cluster.Level(infos, budgets); err != nil {
		return nil, err
	}
	v.own = p.sched.reserved.Of(pre.key)
	v.promised = slices.DeleteFunc(p.sched.allReservations(), func(one snapshot.RankedRoom) bool { return p.sched.owns(pre, one.Pod.GetPod()) })
	if len(pre.pods) > 0 {
		if v.kept, err = p.keptForLost(pre.groupKey(), pre.pods[0], pre.standing()); err != nil {
			return nil, err
		}
	}
	v.promised = append(v.promised, promisedToLost(v.kept)...)
	counting := v.promised
	if p.sched.overtakesAtLimit(pre) {
		counting = slices.DeleteFunc(slices.Clone(counting), func(one snapshot.RankedRoom) bool { return !isKept(&one, pre) })
	}
	v.View = p.sched.cluster.View(promisesTo(pre, counting))
	v.ShareFor(kindsOf(pre.pods)...)
	return v, nil
}

// promisesTo returns the reservations and nominations of other workloads that affect a preemptor.
// The preemptor must not use the room of some. The rest only count as usage of a queue.
func promisesTo(pre *preemptor, promised []snapshot.RankedRoom) []snapshot.ReservedRoom {
	var out []snapshot.ReservedRoom
	for i := range promised {
		one := promised[i].ReservedRoom
		one.Respected = isKept(&promised[i], pre)
		if one.Respected || promised[i].Reserved && one.Queue != "" {
			out = append(out, one)
		}
	}
	return out
}

// isKept reports whether the room of a reservation or nomination is closed to a preemptor.
func isKept(promised *snapshot.RankedRoom, pre *preemptor) bool {
	return workload.Standing{Priority: promised.Priority, Queue: promised.Queue}.KeepsFrom(pre.standing())
}
