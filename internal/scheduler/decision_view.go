package scheduler

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// decisionView is a view of the cluster for one decision, with the state of this package that the
// decision depends on.
type decisionView struct {
	*snapshot.View
	// mark is the state of the waiting list when the view was taken. If a cause of waiting has
	// ended since the mark, the preemptor does not wait for it, but is retried.
	mark engine.Mark
	// seen identifies the state of the running groups at the time of the view; see
	// [eviction.Order].
	seen uint64
	// promised holds the reservations and nominations of other workloads that this decision must
	// respect or must count as usage.
	promised []snapshot.RankedRoom
	// own holds the preemptor's reservations, in the order of its plan.
	own []*engine.Reservation
	// kept holds the room that the preemptor must leave to lost members of other gangs. This room
	// also counts among the reservations of other workloads.
	kept []*engine.Reservation
}

// newView returns a view of the cycle's snapshot for a preemptor. It reads the reservations once,
// for both the decision and its record, because two reads could differ.
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
	p.sched.rooms.toReview.looks(func(node string) bool { return p.sched.placements.IsCurrent(node, p.handle.SnapshotSharedLister()) })
	v := &decisionView{mark: p.sched.waits.Mark(), seen: p.sched.runs.Settle(p.sched.index.Groups, p.sched.clock.Now())}
	p.sched.stale.look()
	if err := p.sched.cluster.Level(infos, budgets); err != nil {
		return nil, err
	}
	v.own = p.sched.reserved.Of(pre.key)
	v.promised = slices.DeleteFunc(p.sched.nominations.allReservations(), func(one snapshot.RankedRoom) bool { return p.sched.index.Owns(pre.key, one.Pod.GetPod()) })
	if len(pre.pods) > 0 {
		if v.kept, err = p.keptForLost(pre.groupKey(), pre.pods[0], pre.standing()); err != nil {
			return nil, err
		}
	}
	v.promised = append(v.promised, promisedToLost(v.kept)...)
	counting := v.promised
	if p.sched.ledger.OvertakesAtLimit(pre.candidate()) {
		counting = slices.DeleteFunc(slices.Clone(counting), func(one snapshot.RankedRoom) bool { return !isKept(&one, pre) })
	}
	v.View = p.sched.cluster.View(promisesTo(pre, counting))
	v.ShareFor(kindsOf(pre.pods)...)
	return v, nil
}

// promisesTo returns the reservations and nominations of other workloads that affect a preemptor.
// Some of them exclude the preemptor from their room. The others only count as usage of their
// queue.
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

// isKept reports whether a reservation or nomination excludes a preemptor from its room.
func isKept(promised *snapshot.RankedRoom, pre *preemptor) bool {
	return workload.Standing{Priority: promised.Priority, Queue: promised.Queue}.KeepsFrom(pre.standing())
}
