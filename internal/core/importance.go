package core

import (
	"cmp"
	"math"
	"slices"
)

// moreImportant compares units by importance. The result is negative if a is more important.
// KEP-5710 defines the first two criteria and leaves the others to the implementation. The order is
// total: only a unit and itself compare equal.
func moreImportant(a, b *Unit) int {
	// The priority nearly always decides, so compute later criteria only if needed.
	if a.Priority != b.Priority {
		return cmp.Compare(b.Priority, a.Priority)
	}
	return moreImportantOfEquals(a, b)
}

// moreImportantOfEquals compares units that have the same priority or are in the same priority
// band. It uses the criteria of moreImportant that come after the priority.
func moreImportantOfEquals(a, b *Unit) int {
	if c := groupsFirst(a, b); c != 0 {
		return c
	}
	if c := cmp.Or(
		surplusLast(a, b),
		cmp.Compare(len(b.Pods), len(a.Pods)),
		earlierStart(a.Start, b.Start),
	); c != 0 {
		return c
	}
	return cmp.Or(
		localFirst(a, b),
		cmp.Compare(a.UID, b.UID),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}

// compareUnits compares two units by importance, like moreImportant. The units are given by index.
// If the search uses ranks, it compares the ranks first. If the search uses priority bands, it
// compares bands in place of priorities.
func compareUnits(s *Snapshot, a, b int32) int {
	if s.ranks != nil {
		if c := cmp.Or(cmp.Compare(s.ranks[b], s.ranks[a]), cmp.Compare(s.orders[b], s.orders[a])); c != 0 {
			return c
		}
	}
	if len(s.bands) > 0 {
		return cmp.Or(s.compareBands(a, b), cmp.Compare(a, b))
	}
	return cmp.Or(moreImportant(&s.Units[a], &s.Units[b]), cmp.Compare(a, b))
}

// priority returns the number that is compared first for the importance of a unit: its rank if the
// search uses ranks, otherwise its priority.
func (s *Snapshot) priority(u int32) int32 {
	if s.ranks != nil {
		return s.ranks[u]
	}
	return s.Units[u].Priority
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

// surplusLast puts surplus members after other units.
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

// localFirst puts pods whose replacements can only run on the same node before other units.
func localFirst(a, b *Unit) int {
	switch {
	case a.Local == b.Local:
		return 0
	case a.Local:
		return -1
	default:
		return 1
	}
}

// earlierStart compares start times, the earlier one first. A unit that has not started (0) has no
// work to lose and comes last.
func earlierStart(a, b int64) int {
	return cmp.Compare(startOrLast(a), startOrLast(b))
}

func startOrLast(start int64) int64 {
	if start == 0 {
		return math.MaxInt64
	}
	return start
}

// sortByImportance sorts the indexes of units, most important first.
func sortByImportance(s *Snapshot, units []int32) {
	sortBy(units, func(a, b int32) int { return compareUnits(s, a, b) })
}

// sortBy sorts units. It is fast if they are already sorted.
func sortBy(units []int32, compare func(a, b int32) int) {
	if !slices.IsSortedFunc(units, compare) {
		slices.SortFunc(units, compare)
	}
}
