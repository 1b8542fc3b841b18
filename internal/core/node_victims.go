package core

import (
	"cmp"
	"slices"
)

// nodeVictims chooses victims on one node so that a member or several fit there. It reuses its
// memory, so it can examine thousands of nodes without allocation.
type nodeVictims struct {
	*problem
	// draw has the evictions that budgets still allow after earlier victims; nil if no unit has a
	// budget.
	draw *budgetDraw
	// seesGangs makes broken gangs part of the cost. It is true if a set on this node is the whole
	// outcome.
	seesGangs bool
	// check names the class and node for questions to the oracle; nil if only room matters.
	check *nodeCheck
	// floor is a lower bound of the cost. The search ends once an outcome reaches it.
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
	// best is the cheapest set so far, once found.
	best      []int32
	bestScore Score
	found     bool
	// unproven becomes true when a search for the cheapest set reaches its bound.
	unproven bool
}

// nodeCheck is the class and the node of questions to the oracle.
type nodeCheck struct {
	class, node int
}

// newNodeVictims returns a nodeVictims. draw has the evictions that budgets still allow.
func newNodeVictims(v *problem, draw *budgetDraw) *nodeVictims {
	return &nodeVictims{problem: v, draw: draw, room: make([]int64, v.dims), cover: newCover(v.dims)}
}

func (x *nodeVictims) release(pos int32) (before, after []int64) {
	return x.col.sum(int(pos), x.dims), x.col.sum(int(pos)+1, x.dims)
}

// pods returns the number of pods, on all nodes, of the unit at a position of the node.
func (x *nodeVictims) pods(pos int32) int { return x.podsAt(x.col, pos) }

func (x *nodeVictims) podsAt(col *nodeColumn, pos int32) int {
	if col.alone {
		return 1
	}
	return len(x.s.Units[col.units[pos]].Pods)
}

// reachesFloor reports whether a score is the best possible. Among equal sums, the order of
// KEP-5710 results in the latest start, but not always in the most surplus. A score with stops may
// be improved, so it is never regarded as the best. If lost work counts, the least sum of
// priorities is not known.
func (x *nodeVictims) reachesFloor(sc *Score) bool {
	return sc.BrokenBudgets == 0 && sc.BrokenGangs == 0 && sc.Repeated == 0 && sc.HighestPriority == x.floor.ceiling && x.s.losses == nil && sc.PrioritySum == x.floor.leading &&
		sc.Surplus == min(sc.Pods, x.surplusUpTo(x.col, int64(x.floor.ceiling)))
}

// solve finds the cheapest set of potential victims that frees enough for wanted in addition to
// base. Units are positions in col, the least important first. The result lists them most important
// first, and is valid until the next call. The order of KEP-5710 competes with the cheapest set.
// Without broken budgets the result is exact. If budgets must be broken, or the oracle is asked,
// other orders of reprieve compete too.
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

// try reprieves units in the given order and keeps the resulting victims if they are the cheapest
// so far.
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

// pool returns the potential victims with priorities up to the lowest ceiling; nil if all of them
// must be evicted.
func (x *nodeVictims) pool(potential []int32) []int32 {
	pool := potential[:x.ceiling(potential)]
	if len(pool) == len(x.best) && x.bestScore.BrokenBudgets == 0 {
		return nil
	}
	return pool
}

// cheapest tries the cheapest set of potential victims with priorities up to the lowest ceiling,
// regardless of budgets.
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
// for members with the given request. It returns false if the cost of one potential victim depends
// on the others.
func (x *nodeVictims) load(col *nodeColumn, potential []int32, wanted []int64, top int64) bool {
	if x.check != nil || x.draw != nil && slices.ContainsFunc(potential, func(pos int32) bool { return draws(&x.s.Units[col.units[pos]]) }) {
		return false
	}
	x.col = col
	x.cover.load(x, col, potential, wanted, top)
	return true
}

// covering finds the cheapest set of the units from load that frees enough for wanted in addition
// to base.
func (x *nodeVictims) covering(base, wanted []int64) ([]int32, Score, bool) {
	x.base, x.wanted = base, wanted
	set, _, _, ok := x.cover.solve(x.short())
	if !ok {
		return nil, Score{}, false
	}
	return set, x.score(set), true
}

// wantedBy returns the sum of the requests of the members placed on a node. The result is valid
// until the next call.
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

// short returns the part of wanted that has no room yet. The result is valid until the next call.
func (x *nodeVictims) short() []int64 {
	for r, w := range x.wanted {
		x.room[r] = 0
		if w > 0 {
			x.room[r] = w - x.base[r]
		}
	}
	return x.room
}

// within reprieves potential victims up to the lowest ceiling in further orders.
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

// enough reports whether wanted fits with all units of a set evicted.
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

// ceiling returns how many potential victims, counted from the first, must be evicted. Units of one
// priority are all counted or none, so it is the smallest such number at the end of a priority.
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

// reprieve restores units in the given order, each if there is still room. It returns the others,
// most important first.
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

// reprieveChecked is like reprieve, and asks the oracle at every step. On entry, x.room must
// include the room of all units of order. On return, the oracle's state is unchanged.
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

// comesBack restores a unit if there is room and the oracle accepts the member next to it.
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

// score returns the cost of a set of victims, most important first, after earlier victims have used
// their budgets.
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
// the others, each by importance. It returns the number of units that would break a budget.
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

// unbroken returns a cheap set of victims that breaks no budget and is as large as possible. It
// adds units one by one, the least important first.
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

// stoppedFirst sets x.order to the order of importance, with units that were stopped more often
// before others of the same priority.
func (x *nodeVictims) stoppedFirst(potential []int32) {
	x.order = append(x.order[:0], potential...)
	slices.SortFunc(x.order, func(a, b int32) int {
		return cmp.Or(
			cmp.Compare(x.col.priorities[b], x.col.priorities[a]),
			cmp.Compare(x.s.stopped[x.col.units[b]], x.s.stopped[x.col.units[a]]), cmp.Compare(b, a),
		)
	})
}

// useOf computes, for each potential victim, the part of the missing room that it frees (x.use),
// and that part divided by its cost (x.perCost).
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

// weightAt returns the first part of a unit's cost that counts, at least 1.
func (x *nodeVictims) weightAt(pos int32) float64 {
	if x.s.losses != nil {
		return float64(max(x.s.losses.charge(x.col.units[pos]), 1))
	}
	return float64(weightOf(x.col.priorities[pos], x.pods(pos)))
}

// byUse sorts potential victims so that the least useful ones are reprieved first. use is x.use or
// x.perCost.
func (x *nodeVictims) byUse(potential []int32, use []float64) {
	x.order = append(x.order[:0], potential...)
	slices.SortFunc(x.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(use[a], use[b]), cmp.Compare(b, a))
	})
}
