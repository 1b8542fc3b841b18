package core

import (
	"math"
	"slices"
)

// lowestCeiling finds, by binary search over the distinct priorities, the lowest one up to which units have to be
// at risk for everything wanted to have room; units above it are safe. It reports false where there is no
// room even with every potential victim gone, unless that is known already. Where the oracle has a say, some
// units are out of t afterwards.
func (t *simulation) lowestCeiling(ws []want, known bool) (int32, bool) {
	var levels []int32
	for priority, n := range t.c.perPriority {
		if n > 0 && int64(priority) < t.victims.below {
			levels = append(levels, priority)
		}
	}
	slices.Sort(levels)
	if len(levels) == 0 {
		return math.MinInt32, t.feasible(ws)
	}
	if top := levels[len(levels)-1]; !known && !t.feasibleUpTo(top, ws) {
		return 0, false
	}
	low, high := 0, len(levels)-1
	for low < high {
		mid := (low + high) / 2
		if t.feasibleUpTo(levels[mid], ws) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return levels[low], true
}

// ceiling is that of a view, with everything left in place.
func (v *view) ceiling(ws []want) (int32, bool) {
	t := newSimulation(v, v.c.later)
	defer t.allBack()
	return t.lowestCeiling(ws, false)
}

// feasibleUpTo reports whether everything wanted has room once all potential victims up to a priority are
// gone (KEP-5710: if that does not help, the domain is out).
func (t *simulation) feasibleUpTo(level int32, ws []want) bool {
	// Room is worked out from the columns first: units need not move, and the oracle is not asked, where
	// arithmetic can tell already.
	saved := t.free
	t.free = slices.Clone(t.c.later)
	t.clearBelow(int64(level) + 1)
	if counts := len(ws) == 1 && !t.anyStateful; counts || !t.plausible(ws) {
		ok := counts && t.plausible(ws)
		t.free = saved
		return ok
	}
	if !t.anyStateful {
		ok := t.feasible(ws)
		t.free = saved
		return ok
	}
	t.free = saved
	t.outUpTo(int64(level))
	return t.feasible(ws)
}

// outUpTo has exactly the potential victims up to a priority out. It moves only those between the last
// level and this one: for the oracle every move is work.
func (t *simulation) outUpTo(level int64) {
	if t.pool == nil {
		t.pool = t.eligible(int32(min(t.victims.below-1, math.MaxInt32)))
		sortByImportance(t.s, t.pool)
		slices.Reverse(t.pool)
	}
	for ; t.gone < len(t.pool) && int64(t.s.priority(t.pool[t.gone])) <= level; t.gone++ {
		t.remove(t.pool[t.gone])
	}
	for ; t.gone > 0 && int64(t.s.priority(t.pool[t.gone-1])) > level; t.gone-- {
		t.restore(t.pool[t.gone-1])
	}
}

// allBack has every unit in place again.
func (t *simulation) allBack() {
	if t.gone > 0 {
		t.outUpTo(math.MinInt64)
	}
}

// clearBelow gives nodes the room of all their potential victims below a priority, as far as arithmetic goes.
func (t *simulation) clearBelow(priority int64) {
	for _, n := range t.c.byName {
		col, free := t.column(n), t.freeOf(n)
		for r, v := range col.sum(col.count(min(priority, t.victims.below)), t.dims) {
			free[r] += v
		}
	}
}
