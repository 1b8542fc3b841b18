package core

import (
	"cmp"
	"math"
	"slices"
)

// moreImportant is the one order of units, most important first. KEP-5710 settles the first two criteria;
// the others are our choice within the freedom it leaves. It is total: only the same unit compares equal.
func moreImportant(a, b *Unit) int {
	// The first difference decides nearly always, so the rest is not worked out for it.
	if a.Priority != b.Priority {
		return cmp.Compare(b.Priority, a.Priority)
	}
	if c := groupsFirst(a, b); c != 0 {
		return c
	}
	if c := cmp.Or(
		surplusLast(a, b),
		cmp.Compare(b.Lost, a.Lost),
		cmp.Compare(len(b.Pods), len(a.Pods)),
		earlierStart(a.Start, b.Start),
	); c != 0 {
		return c
	}
	return cmp.Or(
		cmp.Compare(a.UID, b.UID),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}

// compareUnits is moreImportant for units by index. In a sample it is their levels that count, and after them the
// order among units of a level.
func compareUnits(s *Snapshot, a, b int32) int {
	if s.levels != nil {
		if c := cmp.Or(cmp.Compare(s.levels[b], s.levels[a]), cmp.Compare(s.orders[b], s.orders[a])); c != 0 {
			return c
		}
	}
	return cmp.Or(moreImportant(&s.Units[a], &s.Units[b]), cmp.Compare(a, b))
}

// priority is what a unit's importance goes by: its priority, or its level in a sample.
func (s *Snapshot) priority(u int32) int32 {
	if s.levels != nil {
		return s.levels[u]
	}
	return s.Units[u].Priority
}

// order is a unit's place among others of its level; 0 outside a sample.
func (s *Snapshot) order(u int32) int64 {
	if s.levels != nil {
		return s.orders[u]
	}
	return 0
}

// groupsFirst puts whole groups before single pods.
func groupsFirst(a, b *Unit) int {
	switch {
	case a.Group == b.Group:
		return 0
	case a.Group:
		return -1
	default:
		return 1
	}
}

// surplusLast puts what a gang needs to be whole before what it can do without.
func surplusLast(a, b *Unit) int {
	switch {
	case a.Surplus == b.Surplus:
		return 0
	case b.Surplus:
		return -1
	default:
		return 1
	}
}

// earlierStart puts what has run longer first; what has not started at all has nothing to lose and is last.
func earlierStart(a, b int64) int {
	return cmp.Compare(startOrLast(a), startOrLast(b))
}

func startOrLast(start int64) int64 {
	if start == 0 {
		return math.MaxInt64
	}
	return start
}

// rankedUnit is what nearly every comparison of units comes down to, side by side in memory.
type rankedUnit struct {
	unit, priority int32
	order          int64
	group, surplus bool
	pods           int
	lost, start    int64
	uid            string
}

// sortByImportance sorts unit indices, most important first.
func sortByImportance(s *Snapshot, units []int32) {
	compare := func(a, b int32) int { return compareUnits(s, a, b) }
	if len(units) < 2 || slices.IsSortedFunc(units, compare) {
		return
	}
	keys := make([]rankedUnit, len(units))
	for i, at := range units {
		u := &s.Units[at]
		keys[i] = rankedUnit{
			unit: at, priority: s.priority(at), order: s.order(at), group: u.Group, surplus: u.Surplus, pods: len(u.Pods), lost: u.Lost, start: startOrLast(u.Start), uid: u.UID,
		}
	}
	slices.SortFunc(keys, func(a, b rankedUnit) int {
		switch {
		case a.priority != b.priority:
			return cmp.Compare(b.priority, a.priority)
		case a.order != b.order || a.group != b.group || a.surplus != b.surplus || a.lost != b.lost || a.pods != b.pods || a.start == b.start && a.uid == b.uid:
			return compare(a.unit, b.unit)
		case a.start != b.start:
			return cmp.Compare(a.start, b.start)
		default:
			return cmp.Compare(a.uid, b.uid)
		}
	})
	for i := range keys {
		units[i] = keys[i].unit
	}
}
