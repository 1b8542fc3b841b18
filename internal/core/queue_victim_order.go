package core

import (
	"maps"
	"math"
	"slices"
)

// What is reclaimed has ranks in place of priorities, so that the one search takes first what queues far over their
// fair share have to spare, and last what goes by priority. Distances are told apart coarsely: among queues that are
// about as far over, fewer victims count for more.
const (
	// rankReclaim is the lowest rank.
	rankReclaim = math.MinInt32 + 1<<20
	// distances is how many distances from the fair share are told apart, distanceSteps how many for each doubling.
	distances, distanceSteps = 65, 4
	// nearest is the distance of what is hardly above its fair share, and lent that of what is not, or not any more when its
	// turn comes, and above its quota. Where quotas do not count, these are one.
	nearest, lent = distances - 2, distances - 1
	// rankSafe is above all ranks.
	rankSafe = math.MaxInt32
)

// victimOrder has the units that a preemptor may take where more than priority counts, each with a rank that stands
// for its priority in the search, and an order among others of that rank: lower goes first.
type victimOrder struct {
	c   *queuePolicy
	mem *scratch
	// kinds says how the units of each leaf are judged, from 1 on; 0 is for units in no queue.
	kinds []leafKind
	// ranks and orders are by unit. Those in open leaves have theirs once a restricted view has come upon them.
	ranks  []int32
	orders []int64
	// priorities are all that units have, ascending: a unit's place there is its step.
	priorities []int32
	// reclaim has what may be reclaimed and is judged one by one; byPriority is what goes by priority.
	reclaim    *reclaimOrder
	byPriority []int32
	// listed are all that are judged one by one, and may be taken.
	listed []int32
	room   []int64
	here   []int32
	// count is how many units there are in all.
	count int
	// bounded is true where not all of them may be taken together, as far as is known.
	bounded bool
}

// leafKind is how much the queues say of all units in a leaf at once.
type leafKind uint8

const (
	leafUnseen leafKind = iota
	// leafBarred: none of them may be taken.
	leafBarred
	// leafOpen: any of them may be reclaimed, and the leaf's subtree is so near its fair share that their order is by
	// priority.
	leafOpen
	// leafMixed: they are judged one by one.
	leafMixed
)

// rank judges all units, where it can whole leaves at a time, and puts those that may be taken in order.
func (c *queuePolicy) rank(mem *scratch) *victimOrder {
	cs := &victimOrder{
		c: c, mem: mem, kinds: make([]leafKind, c.t.Len()+1), priorities: c.c.distinctPriorities(),
		reclaim: &reclaimOrder{l: newLedger(c), units: make(map[int32][]int32)},
	}
	cs.ranks, cs.orders = mem.grades(len(c.s.Units))
	cs.markMixed()
	for i := range c.roster.lists {
		units := c.roster.lists[i].units
		n := len(units)
		if n == 0 {
			continue
		}
		switch cs.kindOf(int32(i - 1)) {
		case leafMixed:
			for _, u := range units {
				cs.judge(u)
			}
		case leafBarred:
			c.count[c.subtreeOf(int32(i-1)).rule] += n
		case leafOpen, leafUnseen:
			cs.reclaim.meet(int32(i - 1))
			cs.count, cs.bounded = cs.count+n, true
		}
	}
	cs.grade()
	c.order = cs
	return cs
}

// markMixed marks the leaves that have units of which the queues do not say all.
func (cs *victimOrder) markMixed() {
	c := cs.c
	mixed := func(u int32) { cs.kinds[c.leafOf[u]+1] = leafMixed }
	cs.kinds[0] = leafMixed
	for u := range c.special() {
		mixed(u)
	}
	// What gangs can do without goes before the rest of their leaf.
	for u := range c.c.surplus {
		mixed(u)
	}
}

func (cs *victimOrder) kindOf(leaf int32) leafKind {
	kind := &cs.kinds[leaf+1]
	if *kind == leafUnseen {
		*kind = cs.c.kindOf(leaf)
	}
	return *kind
}

// kindOf says how the units of a queue are judged.
func (c *queuePolicy) kindOf(leaf int32) leafKind {
	if c.leaf < 0 || leaf == c.leaf {
		return leafMixed
	}
	st := c.subtreeOf(leaf)
	if st.rule != "" {
		return leafBarred
	}
	list := &c.roster.lists[leaf+1]
	if !st.near || c.judgedAlone(leaf) || len(list.most) > 0 && c.pastSpare(leaf, func(r int) int64 { return list.most[r] }) {
		return leafMixed
	}
	return leafOpen
}

// judge lists a unit if it may be taken.
func (cs *victimOrder) judge(u int32) {
	c := cs.c
	if len(c.s.Units[u].Pods) == 0 {
		return
	}
	v := judge(c, u)
	if !v.Eligible {
		c.protect(u, v)
		return
	}
	cs.bounded = c.noteWindow(u) || cs.bounded
	cs.count++
	if !c.reclaims(u) {
		cs.byPriority = append(cs.byPriority, u)
	} else {
		cs.reclaim.list(c.leafOf[u], u)
		cs.bounded = true
	}
}

// grade gives all units that are listed their ranks.
func (cs *victimOrder) grade() {
	c, w, last := cs.c, cs.reclaim, int32(nearest)
	if c.reach.quota > 0 {
		last = lent
	}
	w.run(last)
	for _, at := range w.found {
		cs.reclaimed(at.unit, at.distance)
	}
	for _, units := range w.units {
		for _, u := range units {
			cs.reclaimed(u, last)
		}
	}
	for _, u := range cs.byPriority {
		priority := c.s.Units[u].Priority
		cs.ranks[u], cs.orders[u] = max(priority, rankReclaim+distances*cs.steps()), int64(priority)
	}
	cs.listed = append(cs.listed, cs.byPriority...)
}

// reclaimed gives a unit that may be reclaimed its rank. At the same distance, what gangs can do without goes first,
// then units go by priority.
func (cs *victimOrder) reclaimed(u, distance int32) {
	unit, step := &cs.c.s.Units[u], int32(0)
	if !unit.Surplus {
		at, _ := slices.BinarySearch(cs.priorities, unit.Priority)
		step = int32(at) + 1
	}
	cs.ranks[u], cs.orders[u] = cs.rank(distance, step), cs.order(cs.c.leafOf[u], unit.Priority)
	cs.listed = append(cs.listed, u)
}

// steps is how many ranks there are at each distance.
func (cs *victimOrder) steps() int32 { return int32(len(cs.priorities)) + 1 }

func (cs *victimOrder) rank(distance, step int32) int32 {
	return rankReclaim + distance*cs.steps() + step
}

func (cs *victimOrder) order(leaf, priority int32) int64 {
	return cs.reclaim.order[cs.c.subtrees[leaf].top]<<32 + int64(priority)
}

// has reports whether a unit is a candidate.
func (cs *victimOrder) has(u int32) bool {
	switch cs.kindOf(cs.c.leafOf[u]) {
	case leafOpen:
		return true
	case leafMixed:
		return cs.ranks[u] < rankSafe
	default:
		return false
	}
}

// roomOn is the room that the candidates on a node make, in scratch space that the next call overwrites.
func (cs *victimOrder) roomOn(n int32) []int64 {
	c := cs.c.c
	if len(cs.c.count) == 0 {
		return c.all[int(n)*c.dims:][:c.dims]
	}
	if cs.room == nil {
		cs.room = make([]int64, c.dims)
	}
	clear(cs.room)
	col := &c.nodes[n]
	for i, u := range col.units {
		if !cs.has(u) {
			continue
		}
		before, after := col.sum(i, c.dims), col.sum(i+1, c.dims)
		for r := range cs.room {
			cs.room[r] += after[r] - before[r]
		}
	}
	return cs.room
}

// on lists the units on a node that may be taken, in scratch space that the next call overwrites.
func (cs *victimOrder) on(n int32) []int32 {
	cs.here = cs.here[:0]
	for _, u := range cs.c.c.nodes[n].units {
		if cs.has(u) {
			cs.here = append(cs.here, u)
		}
	}
	return cs.here
}

// showBarred options the units of barred leaves to those that the Decision names.
func (cs *victimOrder) showBarred() {
	c := cs.c
	if !slices.Contains(cs.kinds, leafBarred) {
		return
	}
	for _, n := range c.c.byName {
		for _, u := range c.c.nodes[n].units {
			if cs.kindOf(c.leafOf[u]) == leafBarred && !c.shown.add(u) {
				break
			}
		}
	}
}

// apart are candidates to do without, so that all others may be taken together, whichever of them.
func (cs *victimOrder) apart() map[int32]bool {
	c := cs.c
	w := &reclaimOrder{l: newLedger(c), units: make(map[int32][]int32)}
	without := make(map[int32]bool)
	byPriority := slices.Clone(cs.byPriority)
	for u := range c.s.Units {
		if at := int32(u); cs.has(at) {
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
	// Units in a window of their gang's are bounded together, so it matters which ones are looked at first.
	sortBy(byPriority, c.takenFirst)
	for _, u := range byPriority {
		if w.l.take(u) {
			delete(without, u)
		}
	}
	return without
}

// distinctPriorities lists the priorities of all units, ascending.
func (c *columns) distinctPriorities() []int32 {
	return slices.Sorted(func(yield func(int32) bool) {
		for priority, n := range maps.All(c.perPriority) {
			if n > 0 && !yield(priority) {
				return
			}
		}
	})
}

// takenFirst is the order in which a queue's units are taken: what gangs can do without, then the least important.
func (c *queuePolicy) takenFirst(a, b int32) int {
	x, y := &c.s.Units[a], &c.s.Units[b]
	if x.Surplus != y.Surplus && c.reclaims(a) {
		return -surplusLast(x, y)
	}
	return -compareUnits(c.s, a, b)
}

// protect takes note of a unit that may not be taken.
func (c *queuePolicy) protect(u int32, v Verdict) {
	c.count[v.Rule]++
	c.shown.add(u)
	if v.passes() {
		c.timed = append(c.timed, timed{unit: u, verdict: v})
	}
}

// noteWindow takes note of an eligible unit that is bounded for a time only. It reports whether the unit is bounded by
// its gang's window at all.
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
