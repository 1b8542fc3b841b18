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
	// Each index lists the groups that have a fact of one kind. See [Gangs.transit] for the kinds.
	touched, degraded, lost, ended, kept, placing, reported, raising index
	// mayLack is true while the index degraded or the index lost is not empty.
	mayLack atomic.Bool
	// leads is true once this process is the leader; see [Gangs.Lead].
	leads bool
	// clock is a counter that orders the changes of members and the looks at them. begun is the
	// number of runs that have started.
	clock, begun uint64
}

// gang has the facts about one group. Its fields end with different events:
//
//   - object ends with the PodGroup.
//   - kept ends when the room of a gang's lost members changes; see [Gangs.EndKept].
//   - All other parts end when the last member leaves ([GroupLeaves]).
type gang struct {
	object  object
	placing placing
	run     run
	ended   map[UID]Ended
	report  report
	kept    *Kept
	// looks is the number of looks at the members in progress. The record stays until all of them
	// have ended.
	looks int
	// These are values of Gangs.clock. changedAt is the last change of the members. A look is a
	// call of [Gangs.BeginLook]; lookedAt is the start of the last look that was not ignored.
	// leftAt is the last time that the gang lost all members or its run was dropped.
	changedAt, lookedAt, leftAt uint64
}

// object has the facts about a PodGroup that do not depend on its members.
type object struct {
	// unresolved is the reason why fields of the PodGroup cannot be filled in.
	unresolved workload.Verdict
	// minCount is the last known minCount of the PodGroup; 0 for a group that is no gang.
	minCount int
	// victim is the group's priority as a potential victim. It is valid only if raises is true.
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

// change applies a transition to the record of a group, and creates the record if there is none. It
// deletes the record if no facts are left afterwards.
func (gs *Gangs) change(key workload.Key, transition func(*gang)) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.transit(key, transition)
}

// changeKnown applies a transition to the record of a group if there is a record. Use it for
// transitions that have no effect on an empty record.
func (gs *Gangs) changeKnown(key workload.Key, transition func(*gang)) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if r := gs.records[key]; r != nil && r.gang != nil {
		gs.transit(key, transition)
	}
}

// transit applies a transition to the record of a group and updates the indexes. If the group is
// not present, transit drops all facts about its members. The caller holds the lock.
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
	gs.degraded.set(key, !g.run.DegradedSince.IsZero() || !g.run.ExtraSince.IsZero())
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

// read calls look with the facts about a group. It does nothing if there are none.
func (gs *Gangs) read(key workload.Key, look func(*gang)) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if r := gs.records[key]; r != nil && r.gang != nil {
		look(r.gang)
	}
}

// list returns the groups in an index, in no particular order.
func (gs *Gangs) list(x index) []workload.Key {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	out := make([]workload.Key, 0, len(x))
	for key := range x {
		out = append(out, key)
	}
	return out
}

// now advances the counter Gangs.clock, and returns the new value. The caller holds the lock.
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

// NeedsMembers records the minCount of a PodGroup. minCount is 0 if the PodGroup was deleted or is
// no gang. NeedsMembers reports whether minCount is lower than before. Then fewer members are
// needed, so the scheduler may evict more of them.
func (gs *Gangs) NeedsMembers(key workload.Key, minCount int) (eased bool) {
	gs.change(key, func(g *gang) {
		eased = minCount < g.object.minCount
		g.object.minCount = minCount
	})
	return eased
}

// SetUnresolved records the reason why the fields of a PodGroup cannot be filled in. The zero
// Verdict means that all fields are filled in, or that the PodGroup was deleted. The record does
// not depend on members. SetUnresolved reports whether the verdict changed.
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

// Unresolved returns the verdict that the last call of [Gangs.SetUnresolved] recorded.
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
