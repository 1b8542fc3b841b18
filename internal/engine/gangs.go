package engine

import (
	"sync/atomic"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Gangs has the facts about groups: the placement of their members, their runs, and their reports
// to users. It is a part of an [Engine].
type Gangs struct {
	*store
	// verdictChanged is called, without the lock, with each group whose verdict changes.
	verdictChanged func(workload.Key)
	// Each index lists the groups whose records have facts of one kind.
	touched, degraded, lost, ended, kept, placing, reported, raising index
	// mayLack is true while degraded or lost has a group.
	mayLack atomic.Bool
	// clock counts the changes of members and the looks at them, so that these events have an
	// order. begun counts the starts of runs.
	clock, begun uint64
}

// gang has the facts about one group. Its parts begin and end with different events:
//
//   - object ends with the PodGroup.
//   - kept ends when the main loop has retried the workloads that respect the room.
//   - All other parts end when the last member leaves ([GroupLeaves]).
type gang struct {
	object  object
	placing placing
	run     run
	ended   map[UID]Ended
	report  report
	kept    *Kept
	// looks is the number of looks at the members in progress. The record is kept until they end.
	looks int
	// These times are values of Gangs.clock. changedAt is the last change of the members, and
	// lookedAt is the begin of the last look that counts. leftAt is the time when the last member
	// was removed, or when the run was dropped.
	changedAt, lookedAt, leftAt uint64
}

// object has the facts that the scheduler remembers about a PodGroup.
type object struct {
	// unresolved is the reason why fields of the PodGroup cannot be filled in.
	unresolved workload.Verdict
	// minCount is the minCount as last seen; 0 for a group that is no gang.
	minCount int
	// victim is the group's priority as a potential victim. It is valid if raises is true.
	victim VictimPriority
	raises bool
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
		placing: make(index), reported: make(index), raising: make(index),
	}
}

// change applies a transition to the record of a group, and creates the record if necessary. It
// drops the record if that is empty afterwards.
func (gs *Gangs) change(key workload.Key, transition func(*gang)) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.transit(key, transition)
}

// changeKnown is like change, but creates no record. It is for transitions that have no effect on
// an empty record.
func (gs *Gangs) changeKnown(key workload.Key, transition func(*gang)) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if r := gs.records[key]; r != nil && r.gang != nil {
		gs.transit(key, transition)
	}
}

// transit applies a transition to a record. If the group is not present, facts about its members
// end at once. The caller holds the lock.
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
	gs.raising.set(key, g.object.raises)
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

// read calls look with the facts about a group, if there are any.
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

// now advances the clock that orders events, and returns its value. The caller holds the lock.
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

// NeedsMembers records the minCount of a PodGroup; 0 for a PodGroup that was deleted or is no gang.
// It reports whether the group now protects its members less than before.
func (gs *Gangs) NeedsMembers(key workload.Key, minCount int) (eased bool) {
	gs.change(key, func(g *gang) {
		eased = minCount < g.object.minCount
		g.object.minCount = minCount
	})
	return eased
}

// SetUnresolved records the reason why the fields of a PodGroup cannot be filled in, even if the
// group has no members. The zero Verdict means that all fields are filled in, or that the PodGroup
// was deleted. SetUnresolved reports whether the verdict changed.
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
