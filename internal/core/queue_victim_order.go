package core

import (
	"maps"
	"math"
	"slices"
)

// Ranks replace the priorities of units that may be evicted. So the search first evicts units of
// the queues with the highest ratio of usage to fair share. Units that are evicted by priority have
// the highest ranks and come last. Queues with nearly equal ratios have the same distance (see
// distanceOf). Among queues with the same distance, the search prefers fewer victims to a higher
// ratio.
const (
	// rankReclaim is the lowest rank.
	rankReclaim = math.MinInt32 + 1<<20
	// distances is the number of distances. distanceSteps is the number of distances for each
	// doubling of the ratio.
	distances, distanceSteps = 65, 4
	// nearest is the distance of usage just above the fair share. lent is the distance of usage
	// above the quota but within the fair share. A unit also has the distance lent if earlier
	// evictions bring its queue within the fair share. If no unit is reclaimed by quota, nearest is
	// used in place of lent.
	nearest, lent = distances - 2, distances - 1
	// rankSafe is higher than the rank of every potential victim.
	rankSafe = math.MaxInt32
)

// victimOrder has the units that a preemptor may evict, with queues or min-runtimes. Each unit has
// a rank, which replaces its priority in the search. Among units of equal rank, the unit with the
// lowest order is evicted first.
type victimOrder struct {
	c   *queuePolicy
	mem *scratch
	// kinds has the leafKind of each leaf queue. The index is the queue's index plus 1. Index 0 is
	// for units in no queue.
	kinds []leafKind
	// ranks and orders have one entry per unit. The entries of units in leafOpen queues are set
	// when a search includes these units.
	ranks  []int32
	orders []int64
	// priorities are the distinct priorities of units, or of their bands, in ascending order. The
	// index of a unit's priority is the step in its rank.
	priorities []int32
	// reclaim has the units that may be reclaimed and are judged one by one. byPriority has the
	// units that may be evicted by priority.
	reclaim    *reclaimOrder
	byPriority []int32
	// listed has all potential victims that are judged one by one.
	listed []int32
	room   []int64
	here   []int32
	// count is the number of potential victims.
	count int
	// bounded is true if some potential victims must not be evicted together.
	bounded bool
}

// leafKind is the way to judge the units of a leaf queue: all together, or one by one.
type leafKind uint8

const (
	leafUnseen leafKind = iota
	// leafBarred: no unit of the queue may be evicted.
	leafBarred
	// leafOpen: every unit of the queue may be reclaimed. The usage of the queue is just above its
	// fair share, so all its units have one distance. Their order depends only on priority.
	leafOpen
	// leafMixed: units of the queue are judged one by one.
	leafMixed
)

// rank judges all units and sorts the potential victims. If possible, it judges all units of a leaf
// queue together.
func (c *queuePolicy) rank(mem *scratch) *victimOrder {
	vo := &victimOrder{
		c: c, mem: mem, kinds: make([]leafKind, c.t.Len()+1), priorities: bands(c.p.Bands).distinct(c.c.distinctPriorities()),
		reclaim: &reclaimOrder{l: newLedger(c), units: make(map[int32][]int32)},
	}
	vo.ranks, vo.orders = mem.grades(len(c.s.Units))
	vo.markMixed()
	for i := range c.index.lists {
		units := c.index.lists[i].units
		n := len(units)
		if n == 0 {
			continue
		}
		switch vo.kindOf(int32(i - 1)) {
		case leafMixed:
			for _, u := range units {
				vo.judge(u)
			}
		case leafBarred:
			c.count[c.subtreeOf(int32(i-1)).rule] += n
		case leafOpen, leafUnseen:
			vo.reclaim.meet(int32(i - 1))
			vo.count, vo.bounded = vo.count+n, true
		}
	}
	vo.grade()
	c.order = vo
	return vo
}

// markMixed sets leafMixed for the queues with units that need their own verdict.
func (vo *victimOrder) markMixed() {
	c := vo.c
	mixed := func(u int32) { vo.kinds[c.leafOf[u]+1] = leafMixed }
	vo.kinds[0] = leafMixed
	for u := range c.special() {
		mixed(u)
	}
	// Surplus members are evicted before other units of their queue.
	for u := range c.c.having[traitSurplus] {
		mixed(u)
	}
	// Stale gangs may be evicted even if their queue is within its fair share.
	for u := range c.c.having[traitStale] {
		mixed(u)
	}
}

func (vo *victimOrder) kindOf(leaf int32) leafKind {
	kind := &vo.kinds[leaf+1]
	if *kind == leafUnseen {
		*kind = vo.c.kindOf(leaf)
	}
	return *kind
}

// kindOf returns the leafKind of a leaf queue, if no unit of it needs its own verdict.
func (c *queuePolicy) kindOf(leaf int32) leafKind {
	if c.leaf < 0 || leaf == c.leaf {
		return leafMixed
	}
	st := c.subtreeOf(leaf)
	if st.rule != "" {
		return leafBarred
	}
	list := &c.index.lists[leaf+1]
	if !st.near || c.judgedAlone(leaf) || len(list.most) > 0 && c.pastSpare(leaf, func(r int) int64 { return list.most[r] }) {
		return leafMixed
	}
	return leafOpen
}

// judge adds a unit to reclaim or byPriority if it may be evicted. Otherwise it records the
// protection.
func (vo *victimOrder) judge(u int32) {
	c := vo.c
	if len(c.s.Units[u].Pods) == 0 {
		return
	}
	v := judge(c, u)
	if !v.Eligible {
		c.protect(u, v)
		return
	}
	vo.bounded = c.noteWindow(u) || vo.bounded
	vo.count++
	if !c.reclaims(u) {
		vo.byPriority = append(vo.byPriority, u)
	} else {
		vo.reclaim.list(c.leafOf[u], u)
		vo.bounded = true
	}
}

// grade assigns ranks to all listed units.
func (vo *victimOrder) grade() {
	c, w, last := vo.c, vo.reclaim, int32(nearest)
	if c.reach.quota > 0 {
		last = lent
	}
	w.run(last)
	for _, at := range w.found {
		vo.reclaimed(at.unit, at.distance)
	}
	for _, units := range w.units {
		for _, u := range units {
			vo.reclaimed(u, last)
		}
	}
	for _, u := range vo.byPriority {
		priority := vo.countsAs(c.s.Units[u].Priority)
		vo.ranks[u], vo.orders[u] = max(priority, rankReclaim+distances*vo.steps()), int64(priority)
	}
	vo.listed = append(vo.listed, vo.byPriority...)
}

// reclaimed sets the rank of a unit that may be reclaimed. At the same distance, surplus members
// have the lowest rank. Other units follow by priority.
func (vo *victimOrder) reclaimed(u, distance int32) {
	unit, step := &vo.c.s.Units[u], int32(0)
	priority := vo.countsAs(unit.Priority)
	if !unit.Surplus {
		at, _ := slices.BinarySearch(vo.priorities, priority)
		step = int32(at) + 1
	}
	vo.ranks[u], vo.orders[u] = vo.rank(distance, step), vo.order(vo.c.leafOf[u], priority)
	vo.listed = append(vo.listed, u)
}

// countsAs returns the priority to compare victims by: the lowest priority of the band, or the
// given priority if it is in no band.
func (vo *victimOrder) countsAs(priority int32) int32 { return bands(vo.c.p.Bands).of(priority) }

// steps returns the number of ranks at each distance.
func (vo *victimOrder) steps() int32 { return int32(len(vo.priorities)) + 1 }

func (vo *victimOrder) rank(distance, step int32) int32 {
	return rankReclaim + distance*vo.steps() + step
}

func (vo *victimOrder) order(leaf, priority int32) int64 {
	return vo.reclaim.order[vo.c.subtrees[leaf].top]<<32 + int64(priority)
}

// has reports whether a unit is a potential victim.
func (vo *victimOrder) has(u int32) bool {
	switch vo.kindOf(vo.c.leafOf[u]) {
	case leafOpen:
		return true
	case leafMixed:
		return vo.ranks[u] < rankSafe
	default:
		return false
	}
}

// roomOn returns the sum of the requests of the potential victims on a node. The result is valid
// until the next call.
func (vo *victimOrder) roomOn(n int32) []int64 {
	c := vo.c.c
	if len(vo.c.count) == 0 {
		return c.all[int(n)*c.dims:][:c.dims]
	}
	if vo.room == nil {
		vo.room = make([]int64, c.dims)
	}
	clear(vo.room)
	col := &c.nodes[n]
	for i, u := range col.units {
		if !vo.has(u) {
			continue
		}
		before, after := col.sum(i, c.dims), col.sum(i+1, c.dims)
		for r := range vo.room {
			vo.room[r] += after[r] - before[r]
		}
	}
	return vo.room
}

// on lists the potential victims on a node. The result is valid until the next call.
func (vo *victimOrder) on(n int32) []int32 {
	vo.here = vo.here[:0]
	for _, u := range vo.c.c.nodes[n].units {
		if vo.has(u) {
			vo.here = append(vo.here, u)
		}
	}
	return vo.here
}

// showBarred adds the units of leafBarred queues to the units that a Decision names.
func (vo *victimOrder) showBarred() {
	c := vo.c
	if !slices.Contains(vo.kinds, leafBarred) {
		return
	}
	for _, n := range c.c.byName {
		for _, u := range c.c.nodes[n].units {
			if vo.kindOf(c.leafOf[u]) == leafBarred && !c.shown.add(u) {
				break
			}
		}
	}
}

// apart returns the potential victims that the search must leave out, so that it may evict the
// remaining ones in any combination.
func (vo *victimOrder) apart() map[int32]bool {
	c := vo.c
	w := &reclaimOrder{l: newLedger(c), units: make(map[int32][]int32)}
	without := make(map[int32]bool)
	byPriority := slices.Clone(vo.byPriority)
	for u := range c.s.Units {
		if at := int32(u); vo.has(at) {
			without[at] = true
			if c.reclaims(at) {
				w.list(c.leafOf[at], at)
			}
		}
	}
	w.run(distances)
	for _, at := range w.found {
		if !at.refused {
			delete(without, at.unit)
		}
	}
	// A gang inside its min-runtime may lose only its surplus. So the order of its members decides
	// which of them are excluded.
	sortBy(byPriority, c.takenFirst)
	for _, u := range byPriority {
		if w.l.take(u) {
			delete(without, u)
		}
	}
	return without
}

// distinctPriorities returns the distinct priorities of all units, in ascending order.
func (c *columns) distinctPriorities() []int32 {
	return slices.Sorted(func(yield func(int32) bool) {
		for priority, n := range maps.All(c.perPriority) {
			if n > 0 && !yield(priority) {
				return
			}
		}
	})
}

// takenFirst compares units by the order of eviction within a queue: surplus members first, then
// the least important units.
func (c *queuePolicy) takenFirst(a, b int32) int {
	x, y := &c.s.Units[a], &c.s.Units[b]
	if x.Surplus != y.Surplus && c.reclaims(a) {
		return -surplusLast(x, y)
	}
	return -compareUnits(c.line, a, b)
}

// protect records that a unit is protected, for the report.
func (c *queuePolicy) protect(u int32, v Verdict) {
	c.count[v.Rule]++
	c.shown.add(u)
	if v.passes() {
		c.timed = append(c.timed, timed{unit: u, verdict: v})
	}
}

// noteWindow reports whether the unit is an elastic gang member inside its min-runtime, so that
// only the gang's surplus may be evicted. It records the end of the min-runtime for the report.
func (c *queuePolicy) noteWindow(u int32) bool {
	if !elastic(&c.s.Units[u]) {
		return false
	}
	v, young := c.young(u)
	if young && v.Until != 0 {
		c.timed = append(c.timed, timed{unit: u, verdict: v})
	}
	return young
}
