package core

import (
	"cmp"
	"slices"
)

// nodeVictims selects victims on one node so that one or more members fit there. It reuses its
// memory for the next node.
type nodeVictims struct {
	*problem
	// draw has the evictions that budgets still allow after the victims on other nodes are evicted.
	// It is nil if no unit has a budget.
	draw *budgetDraw
	// seesGangs is true if broken gangs are part of the cost. This is so if the victims on this
	// node are the whole outcome.
	seesGangs bool
	// check is the class and node for calls of the oracle; nil if only room matters.
	check *nodeCheck
	// floor is a lower bound of the cost. The search stops if an outcome reaches it.
	floor prospect
	cover *cover

	col          *nodeColumn
	base         []int64
	wanted       []int64
	room         []int64
	potential    []int32
	order        []int32
	result       []int32
	units        []int32
	use, perCost []float64
	// best is the cheapest set so far, if found is true.
	best      []int32
	bestScore Score
	found     bool
	// unproven becomes true if a search for the cheapest set reaches its maximum number of steps.
	unproven bool
}

// nodeCheck is a class and a node, for calls of the oracle.
type nodeCheck struct {
	class, node int
}

func newNodeVictims(v *problem, draw *budgetDraw) *nodeVictims {
	return &nodeVictims{problem: v, draw: draw, room: make([]int64, v.dims), cover: newCover(v.dims)}
}

func (x *nodeVictims) release(pos int32) (before, after []int64) {
	return x.col.sum(int(pos), x.dims), x.col.sum(int(pos)+1, x.dims)
}

// pods returns the number of pods of the unit at the given position of the node, including the
// unit's pods on other nodes.
func (x *nodeVictims) pods(pos int32) int { return x.podsAt(x.col, pos) }

func (x *nodeVictims) podsAt(col *nodeColumn, pos int32) int {
	if col.alone {
		return 1
	}
	return len(x.s.Units[col.units[pos]].Pods)
}

// reachesFloor reports whether sc is certain to be the lowest possible score. A score with stops
// (Repeated) is never certain. If the search counts lost work, no score is certain, because the
// floor has no sum of priorities. The caller checks surplus separately, because the order of
// KEP-5710 gives the latest start, but not always the most surplus.
func (x *nodeVictims) reachesFloor(sc *Score) bool {
	return sc.BrokenBudgets == 0 && sc.BrokenGangs == 0 && sc.Repeated == 0 && sc.HighestPriority == x.floor.ceiling && x.s.losses == nil && sc.PrioritySum == x.floor.leading &&
		sc.Surplus == min(sc.Pods, x.surplusUpTo(x.col, int64(x.floor.ceiling)))
}

// solve finds the cheapest set of potential victims that frees enough for wanted, in addition to
// the free room in base. potential has positions in col, the least important unit first. The result
// has positions, the most important first, and is valid until the next call. The result is exact if
// no budget is broken and the oracle is not called. Otherwise it is the best of several orders of
// reprieve.
func (x *nodeVictims) solve(col *nodeColumn, base, wanted []int64, potential []int32) ([]int32, Score, bool) {
	x.col, x.base, x.wanted, x.potential = col, base, wanted, potential
	if !x.enough(potential) {
		return nil, Score{}, false
	}
	breaking := x.mostImportantFirst(potential)
	x.found = false
	x.try(x.order)
	if !x.found {
		return nil, Score{}, false
	}
	if x.reachesFloor(&x.bestScore) {
		return x.best, x.bestScore, true
	}
	if x.cheapest(potential); x.check == nil && x.bestScore.BrokenBudgets == 0 {
		return x.best, x.bestScore, true
	}
	x.within(potential)
	if breaking > 0 && x.bestScore.BrokenBudgets > 0 {
		if safe := x.unbroken(potential); x.enough(safe) {
			x.mostImportantFirst(safe)
			x.try(x.order)
			x.cheapest(safe)
			x.within(safe)
		}
	}
	return x.best, x.bestScore, true
}

// try reprieves units in the given order. It keeps the remaining victims if they are the cheapest
// set so far.
func (x *nodeVictims) try(order []int32) {
	if set, ok := x.reprieve(order); ok {
		x.consider(set)
	}
}

// consider keeps a set if it is the cheapest so far.
func (x *nodeVictims) consider(set []int32) {
	if sc := x.score(set); !x.found || better(sc, x.bestScore) < 0 {
		x.bestScore, x.found = sc, true
		x.best = append(x.best[:0], set...)
	}
}

// pool returns the potential victims with priorities up to the lowest possible ceiling. It returns
// nil if all of them must be evicted.
func (x *nodeVictims) pool(potential []int32) []int32 {
	pool := potential[:x.ceiling(potential)]
	if len(pool) == len(x.best) && x.bestScore.BrokenBudgets == 0 {
		return nil
	}
	return pool
}

// cheapest considers the cheapest set of potential victims with priorities up to the lowest
// possible ceiling. It ignores budgets.
func (x *nodeVictims) cheapest(potential []int32) {
	pool := x.pool(potential)
	if x.check != nil || len(pool) == 0 {
		return
	}
	x.cover.load(x, x.col, pool, x.wanted, int64(x.col.priorities[pool[len(pool)-1]]))
	set, _, proven, ok := x.cover.solve(x.short())
	if x.unproven = x.unproven || !proven; ok {
		x.consider(set)
	}
}

// load prepares the search for the cheapest sets of potential victims with priorities up to top,
// for members with the given request. The search is exact only if it needs no oracle and no
// potential victim has a budget. Otherwise load returns false.
func (x *nodeVictims) load(col *nodeColumn, potential []int32, wanted []int64, top int64) bool {
	if x.check != nil || x.draw != nil && slices.ContainsFunc(potential, func(pos int32) bool { return draws(&x.s.Units[col.units[pos]]) }) {
		return false
	}
	x.col = col
	x.cover.load(x, col, potential, wanted, top)
	return true
}

// covering finds the cheapest set of the loaded units that frees enough for wanted, in addition to
// the free room in base.
func (x *nodeVictims) covering(base, wanted []int64) ([]int32, Score, bool) {
	x.base, x.wanted = base, wanted
	set, _, _, ok := x.cover.solve(x.short())
	if !ok {
		return nil, Score{}, false
	}
	return set, x.score(set), true
}

// wantedBy returns the sum of the requests of the members that are placed on node n. The result is
// valid until the next call.
func (x *nodeVictims) wantedBy(placed [][]int32, n int32) []int64 {
	clear(x.room)
	for class := range placed {
		if placed[class] == nil {
			continue
		}
		for r, w := range x.problem.wanted[class] {
			x.room[r] += max(w, 0) * int64(placed[class][n])
		}
	}
	return x.room
}

// short returns, for each resource, the part of wanted that does not fit into base. The result is
// valid until the next call.
func (x *nodeVictims) short() []int64 {
	for r, w := range x.wanted {
		x.room[r] = 0
		if w > 0 {
			x.room[r] = w - x.base[r]
		}
	}
	return x.room
}

// within tries further orders of reprieve for the potential victims up to the lowest possible
// ceiling.
func (x *nodeVictims) within(potential []int32) {
	pool := x.pool(potential)
	if len(pool) == 0 {
		return
	}
	if len(pool) < len(potential) && x.draw != nil {
		x.mostImportantFirst(pool)
		x.try(x.order)
	}
	if x.s.countsStops() {
		x.stoppedFirst(pool)
		x.try(x.order)
	}
	x.useOf(pool)
	for _, use := range [...][]float64{x.perCost, x.use} {
		x.byUse(pool, use)
		x.try(x.order)
	}
}

// enough reports whether wanted fits if all units of the set are evicted.
func (x *nodeVictims) enough(set []int32) bool {
	copy(x.room, x.base)
	for _, pos := range set {
		before, after := x.release(pos)
		for r := range x.room {
			x.room[r] += after[r] - before[r]
		}
	}
	return fits(x.wanted, x.room)
}

// ceiling returns the smallest number of potential victims, counted from the least important, whose
// eviction makes enough room. Units of equal priority are counted together.
func (x *nodeVictims) ceiling(potential []int32) int {
	copy(x.room, x.base)
	for i, pos := range potential {
		newPriority := i == 0 || x.col.priorities[pos] != x.col.priorities[potential[i-1]]
		if newPriority && fits(x.wanted, x.room) {
			return i
		}
		before, after := x.release(pos)
		for r := range x.room {
			x.room[r] += after[r] - before[r]
		}
	}
	return len(potential)
}

// reprieve restores units in the given order if there is still enough room. It returns the units
// that stay removed, most important first.
func (x *nodeVictims) reprieve(order []int32) ([]int32, bool) {
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

// reprieveChecked does the work of reprieve, and calls the oracle in every step. Before the call,
// x.room must include the room of all units in order. After the call, the oracle's state is the
// same as before.
func (x *nodeVictims) reprieveChecked(order []int32) ([]int32, bool) {
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

// comesBack restores a unit if there is enough room and the oracle accepts the member next to the
// unit. It reports whether the unit is restored.
func (x *nodeVictims) comesBack(pos int32) bool {
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

// score returns the cost of a set of victims, sorted most important first. Victims on other nodes
// have already used their budgets.
func (x *nodeVictims) score(set []int32) Score {
	sc := noVictims()
	for _, pos := range set {
		sc = sc.plus(x.col.priorities[pos], x.pods(pos), x.surplusAt(x.col, pos), x.col.starts[pos])
		sc.Repeated += x.s.repeated(x.col.units[pos])
	}
	if x.seesGangs || x.s.losses != nil {
		x.units = x.units[:0]
		for _, pos := range set {
			x.units = append(x.units, x.col.units[pos])
		}
		sc.LostWork = x.s.losses.together(x.units)
	}
	if x.seesGangs {
		sc.BrokenGangs = len(brokenGangs(x.s, x.units))
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

// mostImportantFirst sets x.order to the order of KEP-5710: units that would break a budget, then
// the other units. Each part is sorted by importance. It returns the number of units that would
// break a budget.
func (x *nodeVictims) mostImportantFirst(potential []int32) (breaking int) {
	x.order = x.order[:0]
	for _, pos := range slices.Backward(potential) {
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

// unbroken returns a largest possible set of victims that breaks no budget. It adds one unit at a
// time, the least important first.
func (x *nodeVictims) unbroken(potential []int32) []int32 {
	var safe []int32
	for _, pos := range potential {
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

// stoppedFirst sets x.order to the order of importance with one change: among units of equal
// priority, the unit with more stops comes first.
func (x *nodeVictims) stoppedFirst(potential []int32) {
	x.order = append(x.order[:0], potential...)
	slices.SortFunc(x.order, func(a, b int32) int {
		return cmp.Or(
			cmp.Compare(x.col.priorities[b], x.col.priorities[a]),
			cmp.Compare(x.s.stopped[x.col.units[b]], x.s.stopped[x.col.units[a]]), cmp.Compare(b, a),
		)
	})
}

// useOf sets x.use and x.perCost for the potential victims. x.use is the part of the missing room
// that a unit frees. x.perCost is that part divided by the unit's cost.
func (x *nodeVictims) useOf(potential []int32) {
	x.use = append(x.use[:0], make([]float64, len(x.col.units))...)
	x.perCost = append(x.perCost[:0], make([]float64, len(x.col.units))...)
	for _, pos := range potential {
		before, after := x.release(pos)
		use := 0.0
		for r, v := range x.wanted {
			if short := v - x.base[r]; v > 0 && short > 0 {
				use += float64(min(after[r]-before[r], short)) / float64(short)
			}
		}
		x.use[pos], x.perCost[pos] = use, use/x.weightAt(pos)
	}
}

// weightAt returns the first part of a unit's cost to compare (lost work or sum of priorities), at
// least 1.
func (x *nodeVictims) weightAt(pos int32) float64 {
	if x.s.losses != nil {
		return float64(max(x.s.losses.charge(x.col.units[pos]), 1))
	}
	return float64(weightOf(x.col.priorities[pos], x.pods(pos)))
}

// byUse sets x.order to the potential victims, sorted by use, the lowest first. use is x.use or
// x.perCost.
func (x *nodeVictims) byUse(potential []int32, use []float64) {
	x.order = append(x.order[:0], potential...)
	slices.SortFunc(x.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(use[a], use[b]), cmp.Compare(b, a))
	})
}
