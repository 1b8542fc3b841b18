package core

import (
	"cmp"
	"slices"
)

// clearing works out what has to go from one node so that something fits there. It keeps its scratch space,
// so that thousands of nodes can be priced without allocation.
type clearing struct {
	*view
	// draw is what earlier victims leave of the budgets; nil where no unit has any.
	draw *budgetDraw
	// check asks the oracle as well; nil where only room matters.
	check *nodeCheck
	// floor is the least that can be hoped for: an outcome that reaches it ends the search.
	floor prospect

	col        *nodeColumn
	base       []int64
	wanted     []int64
	room       []int64
	candidates []int32
	order      []int32
	result     []int32
	best       []int32
	value      []float64
}

// nodeCheck lets the oracle have its say on one node.
type nodeCheck struct {
	class, node int
}

func newClearing(v *view) *clearing {
	x := &clearing{view: v, room: make([]int64, v.dims)}
	if v.c.budgeted {
		x.draw = newBudgetDraw(v.s)
	}
	return x
}

func (x *clearing) release(pos int32) (before, after []int64) {
	return x.col.sum(int(pos), x.dims), x.col.sum(int(pos)+1, x.dims)
}

// pods is how many pods a unit of the column has, on all nodes.
func (x *clearing) pods(pos int32) int {
	if x.col.alone {
		return 1
	}
	return len(x.s.Units[x.col.units[pos]].Pods)
}

// solve finds the cheapest set among the candidates (positions in col, least important first) that makes
// room for wanted on top of base. It returns their positions, most important first, in scratch space that
// the next call overwrites. Several orders of reprieve compete, among them the one of the document.
func (x *clearing) solve(col *nodeColumn, base, wanted []int64, candidates []int32) ([]int32, Score, bool) {
	x.col, x.base, x.wanted, x.candidates = col, base, wanted, candidates
	if !x.enough(candidates) {
		return nil, Score{}, false
	}
	var best Score
	found := false
	try := func(order []int32) {
		set, ok := x.reprieve(order)
		if !ok {
			return
		}
		if sc := x.score(set); !found || better(sc, best) < 0 {
			best, found = sc, true
			x.best = append(x.best[:0], set...)
		}
	}
	breaking := x.mostImportantFirst(candidates)
	try(x.order)
	if !found {
		return nil, Score{}, false
	}
	if best.BrokenBudgets == 0 && best.HighestPriority == x.floor.ceiling && best.PrioritySum == x.floor.sum {
		return x.best, best, true
	}
	x.within(candidates, best, try)
	if breaking > 0 && best.BrokenBudgets > 0 {
		if safe := x.unbroken(candidates); x.enough(safe) {
			x.mostImportantFirst(safe)
			try(x.order)
			x.within(safe, Score{}, try)
		}
	}
	return x.best, best, true
}

// within tries other orders among the candidates up to the lowest ceiling that leaves room.
func (x *clearing) within(candidates []int32, first Score, try func([]int32)) {
	pool := candidates[:x.ceiling(candidates)]
	if len(pool) == 0 {
		return
	}
	same := x.col.priorities[pool[0]] == x.col.priorities[pool[len(pool)-1]]
	if same && first.Pods == 1 || len(pool) == first.Pods {
		return
	}
	if len(pool) < len(candidates) && x.draw != nil {
		x.mostImportantFirst(pool)
		try(x.order)
	}
	for _, perUse := range [...]bool{true, false} {
		x.byUse(pool, perUse)
		try(x.order)
	}
}

// enough reports whether there is room once all of a set are gone.
func (x *clearing) enough(set []int32) bool {
	copy(x.room, x.base)
	for _, pos := range set {
		before, after := x.release(pos)
		for r := range x.room {
			x.room[r] += after[r] - before[r]
		}
	}
	return fits(x.wanted, x.room)
}

// ceiling is the length of the shortest prefix of candidates, whole priorities only, that makes room.
func (x *clearing) ceiling(candidates []int32) int {
	copy(x.room, x.base)
	for i, pos := range candidates {
		newPriority := i == 0 || x.col.priorities[pos] != x.col.priorities[candidates[i-1]]
		if newPriority && fits(x.wanted, x.room) {
			return i
		}
		before, after := x.release(pos)
		for r := range x.room {
			x.room[r] += after[r] - before[r]
		}
	}
	return len(candidates)
}

// reprieve brings units of order back, first come first, as long as there is room, and returns the others,
// most important first.
func (x *clearing) reprieve(order []int32) ([]int32, bool) {
	if !x.enough(order) {
		return nil, false
	}
	x.result = x.result[:0]
	if x.check != nil {
		return x.reprieveChecked(order)
	}
	for _, pos := range order {
		before, after := x.release(pos)
		for r := range x.room {
			x.room[r] -= after[r] - before[r]
		}
		if fits(x.wanted, x.room) {
			continue
		}
		for r := range x.room {
			x.room[r] += after[r] - before[r]
		}
		x.result = append(x.result, pos)
	}
	slices.SortFunc(x.result, func(a, b int32) int { return cmp.Compare(b, a) })
	return x.result, true
}

// reprieveChecked is reprieve with the oracle's consent to every step. All of order are out of x.room on
// entry; the oracle's trial state is what it was in the end.
func (x *clearing) reprieveChecked(order []int32) ([]int32, bool) {
	for _, pos := range order {
		x.oracle.RemoveUnit(int(x.col.units[pos]))
	}
	if !x.oracle.Fits(x.check.class, x.check.node) {
		for _, pos := range order {
			x.oracle.RestoreUnit(int(x.col.units[pos]))
		}
		return nil, false
	}
	for _, pos := range order {
		if !x.comesBack(pos) {
			x.result = append(x.result, pos)
		}
	}
	for _, pos := range x.result {
		x.oracle.RestoreUnit(int(x.col.units[pos]))
	}
	slices.SortFunc(x.result, func(a, b int32) int { return cmp.Compare(b, a) })
	return x.result, true
}

// comesBack restores a unit if there is room and the oracle agrees.
func (x *clearing) comesBack(pos int32) bool {
	unit := int(x.col.units[pos])
	before, after := x.release(pos)
	for r := range x.room {
		x.room[r] -= after[r] - before[r]
	}
	if fits(x.wanted, x.room) {
		x.oracle.RestoreUnit(unit)
		if x.oracle.Fits(x.check.class, x.check.node) {
			return true
		}
		x.oracle.RemoveUnit(unit)
	}
	for r := range x.room {
		x.room[r] += after[r] - before[r]
	}
	return false
}

// score is the score of a set, most important first, on top of what has been drawn on budgets already.
func (x *clearing) score(set []int32) Score {
	sc := noVictims()
	for _, pos := range set {
		sc = sc.plus(x.col.priorities[pos], x.pods(pos), x.col.starts[pos])
	}
	if x.draw != nil {
		for _, pos := range set {
			sc.BrokenBudgets += x.draw.evict(x.col.units[pos])
		}
		for _, pos := range set {
			x.draw.spare(x.col.units[pos])
		}
	}
	return sc
}

// mostImportantFirst puts the order of the document into x.order: those that would break a budget, then the
// others, both by importance. It returns how many would break one.
func (x *clearing) mostImportantFirst(candidates []int32) (breaking int) {
	x.order = x.order[:0]
	for _, pos := range slices.Backward(candidates) {
		x.order = append(x.order, pos)
	}
	if x.draw == nil {
		return 0
	}
	var breakers, others []int32
	for _, pos := range x.order {
		if x.draw.evict(x.col.units[pos]) > 0 {
			breakers = append(breakers, pos)
		} else {
			others = append(others, pos)
		}
	}
	for _, pos := range x.order {
		x.draw.spare(x.col.units[pos])
	}
	x.order = append(append(x.order[:0], breakers...), others...)
	return len(breakers)
}

// unbroken is the largest cheap set that breaks no budget: units draw in turn, the least important first.
func (x *clearing) unbroken(candidates []int32) []int32 {
	var safe []int32
	for _, pos := range candidates {
		if u := x.col.units[pos]; x.draw.evict(u) == 0 {
			safe = append(safe, pos)
		} else {
			x.draw.spare(u)
		}
	}
	for _, pos := range safe {
		x.draw.spare(x.col.units[pos])
	}
	return safe
}

// byUse orders candidates so that those that help least for what they cost come back first (perUse), or
// simply those that help least.
func (x *clearing) byUse(candidates []int32, perUse bool) {
	x.value = append(x.value[:0], make([]float64, len(x.col.units))...)
	x.order = append(x.order[:0], candidates...)
	for _, pos := range candidates {
		before, after := x.release(pos)
		use := 0.0
		for r, v := range x.wanted {
			if short := v - x.base[r]; v > 0 && short > 0 {
				use += float64(min(after[r]-before[r], short)) / float64(short)
			}
		}
		if perUse {
			use /= float64(weightOf(x.col.priorities[pos], x.pods(pos)))
		}
		x.value[pos] = use
	}
	slices.SortFunc(x.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(x.value[a], x.value[b]), cmp.Compare(b, a))
	})
}
