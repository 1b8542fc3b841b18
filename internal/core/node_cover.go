package core

import (
	"cmp"
	"math"
	"slices"
)

// setCost is the part of a Score that differs between sets of victims with the same ceiling and
// without broken budgets. The costs of disjoint sets can be added. If the same units are added to
// two sets, the cheaper set stays cheaper. So the search may build the cheapest set from cheapest
// parts.
type setCost struct {
	price
	// start is the earliest start of the victims whose priority is the ceiling; MaxInt64 if there
	// are none.
	start int64
}

// noCost returns the cost of the empty set.
func noCost() setCost { return setCost{start: math.MaxInt64} }

func (a setCost) plus(b setCost) setCost {
	return setCost{a.price.plus(b.price), min(a.start, b.start)}
}

// compare compares costs in the same order as the function better.
func (a setCost) compare(b setCost) int {
	return cmp.Or(a.price.compare(b.price), cmp.Compare(b.start, a.start))
}

const (
	// coverSteps is the maximum number of steps of one search for the cheapest units of a node. In
	// each step, the search looks at every unit of the node. coverEffort limits the number of units
	// that all searches of a decision look at together. After that, each search still gets
	// coverLeast steps.
	coverSteps  = 10_000
	coverEffort = 5_000_000
	coverLeast  = 20
)

// cover finds the cheapest units on one node that free the missing room. It is a branch-and-bound
// search. It is exact if it does not reach the maximum number of steps. It reuses its memory for
// the next node.
type cover struct {
	dims int
	// effort is the number of units that the searches may still look at.
	effort int

	// units are the units of the node. After a call of rank, units with the most room for their
	// cost come first. frees is the room of each unit, and all is its sum.
	units    []coverUnit
	frees    []int64
	unsorted []int64
	all      []int64
	wanted   []int64
	ranked   bool
	// surplus is true if any unit is surplus. s is the snapshot with the units.
	surplus bool
	s       *Snapshot
	// byFree lists, for each resource, the units sorted by the room that they free, the most first.
	// bySum lists units by the sum of priorities. byLost lists units by lost work, if the search
	// counts it.
	byFree        [][]int32
	bySum, byLost []int32

	// left is the room that is still missing after the taken units are evicted. ruled lists the
	// units that the current branch excludes.
	left  []int64
	state []coverState
	ruled []int32
	taken []int32
	steps int
	found bool
	best  setCost
	set   []int32
}

type coverUnit struct {
	pos, row int32
	cost     setCost
	use      float64
}

type coverState uint8

const (
	coverOpen coverState = iota
	coverTaken
	coverRuledOut
)

func newCover(dims int) *cover {
	return &cover{
		dims: dims, effort: coverEffort, byFree: make([][]int32, dims), left: make([]int64, dims), all: make([]int64, dims),
	}
}

// of returns the room that unit i frees.
func (c *cover) of(i int32) []int64 { return c.frees[int(i)*c.dims:][:c.dims] }

// load sets the units to choose from, by their positions on a node. wanted is the request of one
// member. top is the ceiling.
func (c *cover) load(x *nodeVictims, col *nodeColumn, positions []int32, wanted []int64, top int64) {
	c.units, c.frees, c.ranked, c.wanted, c.surplus, c.s = c.units[:0], c.frees[:0], false, wanted, col.surplus > 0, x.s
	clear(c.all)
	for _, pos := range positions {
		pods := x.podsAt(col, pos)
		u := coverUnit{pos: pos, cost: setCost{price{
			x.s.losses.charge(col.units[pos]), weightOf(col.priorities[pos], pods), int32(pods), int32(x.surplusAt(col, pos)),
			int64(x.s.repeated(col.units[pos])),
		}, math.MaxInt64}}
		if int64(col.priorities[pos]) == top {
			u.cost.start = col.starts[pos]
		}
		c.units = append(c.units, u)
		before, after := col.sum(int(pos), c.dims), col.sum(int(pos)+1, c.dims)
		for r := range before {
			c.frees = append(c.frees, after[r]-before[r])
			c.all[r] += after[r] - before[r]
		}
	}
}

// rank sorts the units by the part of the missing room that they free, divided by their cost. So a
// unit that frees as much room as another unit, or more, and costs as little, or less, comes before
// the other unit. It also prepares the lists for lower bounds.
func (c *cover) rank() {
	c.ranked = true
	for i := range c.units {
		u := &c.units[i]
		u.row, u.use = int32(i), 0
		for r, w := range c.wanted {
			if w > 0 {
				u.use += float64(c.of(int32(i))[r]) / float64(w)
			}
		}
		u.use /= float64(max(u.cost.leading(c.s), 1))
	}
	slices.SortFunc(c.units, func(a, b coverUnit) int {
		return cmp.Or(cmp.Compare(b.use, a.use), a.cost.compare(b.cost), cmp.Compare(a.pos, b.pos))
	})
	c.unsorted = append(c.unsorted[:0], c.frees...)
	c.bySum, c.state = c.bySum[:0], c.state[:0]
	for i, u := range c.units {
		copy(c.of(int32(i)), c.unsorted[int(u.row)*c.dims:])
		c.bySum, c.state = append(c.bySum, int32(i)), append(c.state, coverOpen)
	}
	for r, w := range c.wanted {
		if c.byFree[r] = c.byFree[r][:0]; w > 0 {
			c.byFree[r] = append(c.byFree[r], c.bySum...)
			slices.SortFunc(c.byFree[r], func(a, b int32) int {
				return cmp.Or(cmp.Compare(c.of(b)[r], c.of(a)[r]), cmp.Compare(a, b))
			})
		}
	}
	slices.SortFunc(c.bySum, func(a, b int32) int {
		return cmp.Or(cmp.Compare(c.units[a].cost.sum, c.units[b].cost.sum), cmp.Compare(a, b))
	})
	if c.byLost = c.byLost[:0]; c.s.losses != nil {
		c.byLost = append(c.byLost, c.bySum...)
		slices.SortFunc(c.byLost, func(a, b int32) int {
			return cmp.Or(cmp.Compare(c.units[a].cost.lost, c.units[b].cost.lost), cmp.Compare(a, b))
		})
	}
}

// solve finds the cheapest units that free the room in short. It returns their positions, most
// important first. The result is valid until the next call. proven is true if no cheaper set
// exists. ok is true if there is a set.
func (c *cover) solve(short []int64) (set []int32, cost setCost, proven, ok bool) {
	copy(c.left, short)
	c.found, c.best, c.set, c.steps = false, noCost(), c.set[:0], 0
	if c.allNeeded() {
		c.found = true
		for i := range c.units {
			c.best, c.set = c.best.plus(c.units[i].cost), append(c.set, c.units[i].pos)
		}
	} else {
		if !c.ranked {
			c.rank()
		}
		limit := max(min(coverSteps, c.effort/max(len(c.units), 1)), coverLeast)
		c.steps = limit
		c.search(0, noCost())
		c.effort -= (limit - max(c.steps, 0)) * len(c.units)
	}
	slices.SortFunc(c.set, func(a, b int32) int { return cmp.Compare(b, a) })
	return c.set, c.best, c.steps >= 0, c.found
}

// allNeeded reports whether every unit must be evicted. This is so if all units together free
// enough room, and there is too little room if any one of them keeps running.
func (c *cover) allNeeded() bool {
	for r, left := range c.left {
		if left > 0 && c.all[r] < left {
			return false
		}
	}
	for i := range c.units {
		needed := false
		for r, v := range c.of(int32(i)) {
			needed = needed || c.left[r] > 0 && c.all[r]-v < c.left[r]
		}
		if !needed {
			return false
		}
	}
	return true
}

// search decides for each unit from position i on whether to evict it, and tries both decisions.
func (c *cover) search(i int, cost setCost) {
	if c.covered() {
		if !c.found || cost.compare(c.best) < 0 {
			c.found, c.best, c.set = true, cost, c.set[:0]
			for _, t := range c.taken {
				c.set = append(c.set, c.units[t].pos)
			}
		}
		return
	}
	mark := len(c.ruled)
	for ; i < len(c.units); i++ {
		if c.state[i] != coverOpen || !c.helps(int32(i)) {
			continue
		}
		if c.steps--; c.steps < 0 && c.found || !c.promising(cost) {
			break
		}
		c.take(int32(i), 1)
		c.search(i+1, cost.plus(c.units[i].cost))
		c.take(int32(i), -1)
		c.ruleOut(int32(i))
	}
	for _, r := range c.ruled[mark:] {
		c.state[r] = coverOpen
	}
	c.ruled = c.ruled[:mark]
}

func (c *cover) covered() bool {
	for _, v := range c.left {
		if v > 0 {
			return false
		}
	}
	return true
}

func (c *cover) helps(i int32) bool {
	for r, v := range c.of(i) {
		if v > 0 && c.left[r] > 0 {
			return true
		}
	}
	return false
}

// take adds unit i to taken, or removes it if sign is -1.
func (c *cover) take(i int32, sign int64) {
	for r, v := range c.of(i) {
		c.left[r] -= sign * v
	}
	if sign > 0 {
		c.state[i], c.taken = coverTaken, append(c.taken, i)
		return
	}
	c.state[i], c.taken = coverOpen, c.taken[:len(c.taken)-1]
}

// ruleOut excludes unit i from the branch. It also excludes each later unit that frees at most as
// much of the missing room and costs at least as much. In every set, unit i could replace such a
// unit.
func (c *cover) ruleOut(i int32) {
	c.state[i], c.ruled = coverRuledOut, append(c.ruled, i)
	for j := i + 1; int(j) < len(c.units); j++ {
		if c.state[j] == coverOpen && c.units[i].cost.compare(c.units[j].cost) <= 0 && c.freesNoMore(j, i) {
			c.state[j], c.ruled = coverRuledOut, append(c.ruled, j)
		}
	}
}

func (c *cover) freesNoMore(j, i int32) bool {
	a, b := c.of(j), c.of(i)
	for r, left := range c.left {
		if left > 0 && min(a[r], left) > b[r] {
			return false
		}
	}
	return true
}

// promising reports whether the undecided units may complete a set that is cheaper than the best
// set so far.
func (c *cover) promising(cost setCost) bool {
	more, ok := c.atLeast(math.MinInt64)
	if !ok {
		return false
	}
	if !c.found {
		return true
	}
	more.surplus, more.repeated = c.surplusOpen(more.pods), c.repeatedOpen(more.pods)
	if d := cost.price.plus(more).compare(c.best.price); d != 0 {
		return d < 0
	}
	if cost.start <= c.best.start {
		return false
	}
	// The bounds are equal, so only a set with a later start can be cheaper.
	more, ok = c.atLeast(c.best.start)
	more.surplus, more.repeated = c.best.surplus-cost.surplus, c.best.repeated-cost.repeated
	return ok && cost.price.plus(more).compare(c.best.price) <= 0
}

// surplusOpen returns an upper bound of the number of surplus pods in any count undecided units.
func (c *cover) surplusOpen(count int32) int32 {
	if !c.surplus {
		return 0
	}
	open := int32(0)
	for i := range c.units {
		if c.state[i] == coverOpen && c.units[i].cost.surplus > 0 && c.helps(int32(i)) {
			open += c.units[i].cost.surplus
		}
	}
	return min(count, open)
}

// repeatedOpen returns a lower bound of the stops (Score.Repeated) of any undecided units with at
// least count pods together.
func (c *cover) repeatedOpen(count int32) int64 {
	if !c.s.countsStops() {
		return 0
	}
	var open stopCounts
	for i := range c.units {
		if cost := &c.units[i].cost; c.state[i] == coverOpen && c.helps(int32(i)) {
			open.add(int(cost.repeated)/int(cost.pods), int(cost.pods))
		}
	}
	return int64(open.least(int(count)))
}

// atLeast returns a lower bound of the cost to free the rest of the room, with units that start
// later than after. For each resource, it assumes the minimum number of units, each at the lowest
// cost. ok is false if these units cannot free enough.
func (c *cover) atLeast(after int64) (least price, ok bool) {
	for r, left := range c.left {
		if left <= 0 {
			continue
		}
		units := 0
		for _, i := range c.byFree[r] {
			if c.state[i] != coverOpen || c.units[i].cost.start <= after {
				continue
			}
			units++
			if left -= c.of(i)[r]; left <= 0 {
				break
			}
		}
		if left > 0 {
			return price{}, false
		}
		least.pods = max(least.pods, int32(units))
		sum, lost := int64(0), int64(0)
		c.cheapest(c.bySum, r, units, after, func(cost *setCost) { sum += cost.sum })
		c.cheapest(c.byLost, r, units, after, func(cost *setCost) { lost += cost.lost })
		least.sum, least.lost = max(least.sum, sum), max(least.lost, lost)
	}
	return least, true
}

// cheapest calls tell for count undecided units, in the given order. It skips units that do not
// free resource r, and units that do not start later than after.
func (c *cover) cheapest(order []int32, r, count int, after int64, tell func(*setCost)) {
	for _, i := range order {
		if count == 0 {
			return
		}
		if c.state[i] == coverOpen && c.units[i].cost.start > after && c.of(i)[r] > 0 {
			count--
			tell(&c.units[i].cost)
		}
	}
}
