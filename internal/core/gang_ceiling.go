package core

import (
	"math"
	"slices"
)

// lowestCeiling returns the lowest priority such that all wanted members fit if the potential
// victims up to this priority are evicted. It is a binary search over the distinct priorities. The
// result is false if the members do not fit even with all potential victims evicted. If known is
// true, the caller has already checked this. If the oracle is stateful, some units stay removed
// from t.
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

// ceiling returns the lowest ceiling for the wanted members; see lowestCeiling. All units are in
// place afterwards.
func (v *problem) ceiling(ws []want) (int32, bool) {
	t := newSimulation(v, v.c.later)
	defer t.allBack()
	return t.lowestCeiling(ws, false)
}

// feasibleUpTo reports whether all wanted members fit if all potential victims up to a priority are
// evicted.
func (t *simulation) feasibleUpTo(level int32, ws []want) bool {
	// First add up the room from the columns. If this is enough to decide, no unit is moved and the
	// oracle is not called.
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

// outUpTo removes the potential victims up to a priority and restores all others. It moves only the
// units between the previous priority and the new one, because each move calls a stateful oracle.
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

// allBack restores every unit.
func (t *simulation) allBack() {
	if t.gone > 0 {
		t.outUpTo(math.MinInt64)
	}
}

// clearBelow adds the room of all potential victims below a priority to the free room of their
// nodes. It does not mark the units as removed.
func (t *simulation) clearBelow(priority int64) {
	for _, n := range t.c.byName {
		col, free := t.column(n), t.freeOf(n)
		for r, v := range col.sum(col.count(min(priority, t.victims.below)), t.dims) {
			free[r] += v
		}
	}
}
