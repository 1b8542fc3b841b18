package engine

import (
	"sync/atomic"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Gangs has the facts about groups: their members on their way to a node, their runs, and their
// reports to users. It is a part of an [Engine].
type Gangs struct {
	*store
	// verdictChanged is called, without the lock, with each group whose verdict changes.
	verdictChanged func(workload.Key)
	// Each index lists the groups whose records have such facts.
	touched, degraded, lost, ended, kept, placing, reported index
	// mayLack is true while degraded or lost has a group.
	mayLack atomic.Bool
	// clock counts the changes of members and the looks at them, to order them. begun counts the
	// starts of runs.
	clock, begun uint64
}

// gang has the facts about one group. Its parts begin and end with different events:
//
//   - object ends with the PodGroup.
//   - kept ends when the main loop has retried the workloads that respect the room.
//   - All other parts end when the last member leaves ([Engine.GroupLeaves]).
type gang struct {
	object  object
	placing placing
	run     run
	ended   map[UID]Ended
	report  report
	kept    *Kept
	// looks counts the looks at the members in progress. A record stays until they end.
	looks int
	// These are times by Gangs.clock. At changedAt, the members last changed. At lookedAt, the last
	// look that counts began. At leftAt, the last member left, or the run was dropped.
	changedAt, lookedAt, leftAt uint64
}

// object has the facts that the scheduler remembers about a PodGroup.
type object struct {
	// unresolved tells why the PodGroup has fields that cannot be filled in.
	unresolved workload.Verdict
	// minCount is the minCount as last seen; 0 for a group that is no gang.
	minCount int
}

// isEmpty reports whether a record has no facts.
func (g *gang) isEmpty() bool {
	return g.object == (object{}) && g.placing.isEmpty() && g.run.isEmpty() && len(g.ended) == 0 && g.report.isEmpty() && g.kept == nil && g.looks == 0
}

// index is a set of groups.
type index map[workload.Key]struct{}

// set adds a group to the set, or removes it.
func (x index) set(key workload.Key, in bool) {
	if in {
		x[key] = struct{}{}
	} else {
		delete(x, key)
	}
}

// newGangs returns Gangs without facts.
func newGangs(s *store, verdictChanged func(workload.Key)) *Gangs {
	return &Gangs{
		store: s, verdictChanged: verdictChanged,
		touched: make(index), degraded: make(index), lost: make(index), ended: make(index), kept: make(index),
		placing: make(index), reported: make(index),
	}
}

// change runs a transition of the record of a group, and drops the record if nothing is left of it.
// A group without a record gets one.
func (gs *Gangs) change(key workload.Key, transition func(*gang)) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.transit(key, transition)
}

// changeKnown is change for a transition that changes nothing in an empty record. A group without a
// record gets none.
func (gs *Gangs) changeKnown(key workload.Key, transition func(*gang)) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if r := gs.records[key]; r != nil && r.gang != nil {
		gs.transit(key, transition)
	}
}

// transit runs a transition of a record. Facts about members end at once for a group that is not
// present. The caller holds the lock.
func (gs *Gangs) transit(key workload.Key, transition func(*gang)) {
	r := gs.of(key)
	g := r.gang
	if g == nil {
		g = &gang{}
	}
	transition(g)
	if !r.present {
		g.loseMembers()
	}
	if g.placing.isEmpty() {
		g.placing = placing{}
	}
	gs.touched.set(key, g.run.touched)
	gs.lost.set(key, g.run.lost)
	gs.degraded.set(key, !g.run.DegradedSince.IsZero())
	gs.ended.set(key, len(g.ended) > 0)
	gs.kept.set(key, g.kept != nil)
	gs.placing.set(key, !g.placing.isEmpty())
	gs.reported.set(key, !g.report.isEmpty())
	gs.mayLack.Store(len(gs.degraded)+len(gs.lost) > 0)
	if r.gang = g; g.isEmpty() {
		r.gang = nil
		gs.tidy(key)
	}
}

// loseMembers drops all facts about the members of a group.
func (g *gang) loseMembers() {
	*g = gang{object: g.object, kept: g.kept, looks: g.looks, leftAt: g.leftAt}
}

// read looks at the facts about a group, if there are any.
func (gs *Gangs) read(key workload.Key, look func(*gang)) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if r := gs.records[key]; r != nil && r.gang != nil {
		look(r.gang)
	}
}

// list returns the groups of an index, in no order.
func (gs *Gangs) list(x index) []workload.Key {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	out := make([]workload.Key, 0, len(x))
	for key := range x {
		out = append(out, key)
	}
	return out
}

// now returns the time of an event. The caller holds the lock.
func (gs *Gangs) now() uint64 {
	gs.clock++
	return gs.clock
}

// leaves drops all facts about the members of a group. The caller holds the lock.
func (gs *Gangs) leaves(key workload.Key) {
	gs.transit(key, func(g *gang) {
		g.loseMembers()
		g.leftAt = gs.now()
	})
}

// NeedsMembers records the minCount of a PodGroup; 0 for a group that is gone or no gang. It
// reports whether the group protects its members less than before.
func (gs *Gangs) NeedsMembers(key workload.Key, minCount int) (eased bool) {
	gs.change(key, func(g *gang) {
		eased = minCount < g.object.minCount
		g.object.minCount = minCount
	})
	return eased
}

// SetUnresolved records why a PodGroup cannot be filled in, even if the group has no members. The
// zero Verdict means that the PodGroup is filled in or gone. It reports whether the verdict
// changed.
func (gs *Gangs) SetUnresolved(key workload.Key, v workload.Verdict) (news bool) {
	gs.change(key, func(g *gang) {
		news = g.object.unresolved != v
		g.object.unresolved = v
	})
	if news {
		gs.verdictChanged(key)
	}
	return news
}

// Unresolved returns the verdict of the last [Gangs.SetUnresolved].
func (gs *Gangs) Unresolved(key workload.Key) (v workload.Verdict) {
	gs.read(key, func(g *gang) { v = g.object.unresolved })
	return v
}

// Len counts the groups with facts about their members, for tests that look for leaks.
func (gs *Gangs) Len() int {
	return gs.count(func(g *gang) bool {
		members := *g
		members.object = object{}
		return !members.isEmpty()
	})
}

// Reports counts the groups with a report, for tests that look for leaks.
func (gs *Gangs) Reports() int { return gs.count(func(g *gang) bool { return !g.report.isEmpty() }) }

func (gs *Gangs) count(has func(*gang) bool) (count int) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	for _, r := range gs.records {
		if r.gang != nil && has(r.gang) {
			count++
		}
	}
	return count
}
