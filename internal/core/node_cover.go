package core

import (
	"cmp"
	"math"
	"slices"
)

// setCost is the cost of a set of victims up to a ceiling, without budgets: the rest of a Score
// once both are fixed. The costs of disjoint sets add up. Of two sets, the cheaper one stays
// cheaper if the same units are added to both. So the cheapest whole can be built from the cheapest
// parts.
type setCost struct {
	price
	// start is the earliest start among the victims of the ceiling's priority; MaxInt64 for none.
	start int64
}

// noCost returns the cost of the empty set.
func noCost() setCost { return setCost{start: math.MaxInt64} }

func (a setCost) plus(b setCost) setCost {
	return setCost{a.price.plus(b.price), min(a.start, b.start)}
}

// compare compares costs in the order of better.
func (a setCost) compare(b setCost) int {
	return cmp.Or(a.price.compare(b.price), cmp.Compare(b.start, a.start))
}

const (
	// coverSteps bounds the steps of one search for the cheapest units of a node. coverEffort
	// bounds the looks at units in all searches of a decision; a step looks at every unit of the
	// node. coverLeast is the minimum of steps for each search.
	coverSteps  = 10_000
	coverEffort = 5_000_000
	coverLeast  = 20
)

// cover finds the cheapest units of one node that free the missing room. It is a branch and bound
// search, exact unless it runs out of steps. It reuses its scratch space.
type cover struct {
	dims int
	// effort is the unused part of coverEffort.
	effort int

	// units are the node's units. frees is the room that each frees, and all their sum. Once
	// ranked, units with the most room for their cost come first.
	units    []coverUnit
	frees    []int64
	unsorted []int64
	all      []int64
	wanted   []int64
	ranked   bool
	// surplus is true if some unit is surplus. s is the snapshot of the units.
	surplus bool
	s       *Snapshot
	// byFree lists the units by the room that they free of each resource, most first. bySum lists
	// them by the sum of priorities, and byLost by lost work if it counts.
	byFree        [][]int32
	bySum, byLost []int32

	// left is the room still missing beyond the units in taken. ruled are the units ruled out.
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

// of returns the room that a unit frees.
func (c *cover) of(i int32) []int64 { return c.frees[int(i)*c.dims:][:c.dims] }

// load loads the units at some positions of a column. wanted is the request of one member, and top
// the ceiling.
func (c *cover) load(x *nodeVictims, col *nodeColumn, positions []int32, wanted []int64, top int64) {
	c.units, c.frees, c.ranked, c.wanted, c.surplus, c.s = c.units[:0], c.frees[:0], false, wanted, col.surplus > 0, x.s
	clear(c.all)
	for _, pos := range positions {
		pods := x.podsAt(col, pos)
		u := coverUnit{pos: pos, cost: setCost{price{
			x.s.losses.charge(col.units[pos]), weightOf(col.priorities[pos], pods), int32(pods), int32(x.surplusAt(col, pos)),
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

// rank sorts the units into the order of the search, and into the orders for its bounds. A unit
// that frees no less and costs no more than another must come before it.
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

// solve finds the cheapest units that free the missing room. It returns their positions, most
// important first, in scratch space, and reports whether the result is proven and whether there is
// one.
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

// allNeeded reports whether all units together free enough and each one is needed.
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

// search branches on the units from the i-th on.
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

// take adds a unit to taken, or removes it if sign is -1.
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

// ruleOut rules out a unit and every later one that frees no more of the missing room and costs no
// less. A set with the later unit instead of this one is never better than the reverse.
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

// promising reports whether open units may complete a set that is cheaper than the best one so far.
func (c *cover) promising(cost setCost) bool {
	more, ok := c.atLeast(math.MinInt64)
	if !ok {
		return false
	}
	if !c.found {
		return true
	}
	more.surplus = c.surplusOpen(more.pods)
	if d := cost.price.plus(more).compare(c.best.price); d != 0 {
		return d < 0
	}
	if cost.start <= c.best.start {
		return false
	}
	// Only a later start would make the set cheaper.
	more, ok = c.atLeast(c.best.start)
	more.surplus = c.best.surplus - cost.surplus
	return ok && cost.price.plus(more).compare(c.best.price) <= 0
}

// surplusOpen bounds the number of surplus pods among count open units.
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

// atLeast returns a lower bound of the cost of open units still to be added, among units that start
// after a time. Per resource, it counts the fewest units that free enough, each at the lowest cost.
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

// cheapest calls tell for a number of open units that free some of a resource and start after a
// time, in a given order.
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
