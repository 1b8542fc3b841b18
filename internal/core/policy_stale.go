package core

import (
	"cmp"
	"iter"
	"maps"
)

// staleGangs protects stale gangs from less important gangs that also lack members. Without this
// rule, two such gangs could evict each other in turns. With this rule, the more important gang
// keeps its members and becomes whole.
type staleGangs struct{}

func (staleGangs) protects(r *ruling, u int32) (Verdict, bool) {
	if !r.s.Units[u].Stale {
		return Verdict{}, false
	}
	own, degraded := r.ownDegraded()
	return Verdict{Rule: RuleMoreImportantGang}, degraded && r.moreImportantGang(&r.s.Units[u], r.leafOfUnit(u), &own) < 0
}

func (staleGangs) about(r *ruling) iter.Seq[int32] { return maps.Keys(r.c.having[traitStale]) }

// ownDegraded returns the preemptor's own gang as one Unit, computed from its members that have a
// node. It returns false if the gang has lost no member.
func (r *ruling) ownDegraded() (own Unit, degraded bool) {
	for _, u := range r.c.ofPodGroup(r.s, r.p.PodGroup) {
		unit := &r.s.Units[u]
		if unit.Lacks == 0 {
			continue
		}
		if start := earlierStart(unit.Start, own.Start); !degraded || start < 0 {
			own.Start = unit.Start
		}
		own.Lacks, own.UID, degraded = unit.Lacks, unit.PodGroup, true
	}
	return own, degraded
}

// moreImportantGang compares the stale gang a with the preemptor's own gang, which also lacks
// members. The result is negative if a is more important. It compares the priorities, then the
// ratios of the queues' usage to their fair shares, then the numbers of missing members, then the
// start times.
func (r *ruling) moreImportantGang(a *Unit, leaf int32, own *Unit) int {
	queues := 0
	if r.ratio != nil && r.leaf >= 0 && leaf >= 0 && leaf != r.leaf {
		queues = cmp.Compare(r.ratio(leaf), r.ratio(r.leaf))
	}
	return cmp.Or(
		cmp.Compare(r.p.Priority, a.OwnPriority()),
		queues,
		cmp.Compare(a.Lacks, own.Lacks),
		earlierStart(a.Start, own.Start),
		cmp.Compare(a.UID, own.UID),
	)
}

// leafOfUnit returns the index of a unit's leaf queue; -1 for a unit in no queue.
func (r *ruling) leafOfUnit(u int32) int32 {
	if r.leafOf == nil {
		return -1
	}
	return r.leafOf[u]
}
