package core

import (
	"maps"
	"math"
	"slices"
)

// What is reclaimed has levels in place of priorities, so that the one search takes first what queues far over their
// fair share have to spare, and last what goes by priority. Distances are told apart coarsely: among queues that are
// about as far over, fewer victims count for more.
const (
	// levelReclaim is the lowest level.
	levelReclaim = math.MinInt32 + 1<<20
	// distances is how many distances from the fair share are told apart, distanceSteps how many for each doubling.
	distances, distanceSteps = 64, 4
	// nearest is the distance of what is hardly above its fair share, or not any more when its turn comes.
	nearest = distances - 1
	// levelSafe is above all levels.
	levelSafe = math.MaxInt32
)

// candidates are the units that a preemptor may take where more than priority counts, each with a level that stands
// for its priority in the search, and an order among others of that level: lower goes first.
type candidates struct {
	c   *contest
	mem *scratch
	// kinds says how the units of each leaf are judged, from 1 on; 0 is for units in no queue.
	kinds []leafKind
	// levels and orders are by unit. Those in open leaves have theirs once a sample has come upon them.
	levels []int32
	orders []int64
	// priorities are all that units have, ascending: the rank of a unit is its place there.
	priorities []int32
	// walk has what may be reclaimed and is judged one by one; byPriority is what goes by priority.
	walk       *walk
	byPriority []int32
	// listed are all that are judged one by one, and may be taken.
	listed []int32
	room   []int64
	// count is how many candidates there are.
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
	// leafOpen: any of them may be reclaimed, and the leaf's side is so near its fair share that their order is by
	// priority.
	leafOpen
	// leafMixed: they are judged one by one.
	leafMixed
)

// candidates judges all units, where it can whole leaves at a time.
func (c *contest) candidates(mem *scratch) *candidates {
	cs := &candidates{
		c: c, mem: mem, kinds: make([]leafKind, c.queues()+1), priorities: c.c.distinctPriorities(),
		walk: &walk{l: newLedger(c), units: make(map[int32][]int32)},
	}
	cs.levels, cs.orders = mem.grades(len(c.s.Units))
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
			c.protected[c.sideOf(int32(i-1)).rule] += n
		case leafOpen, leafUnseen:
			cs.walk.meet(int32(i - 1))
			cs.count, cs.bounded = cs.count+n, true
		}
	}
	cs.grade()
	return cs
}

// markMixed marks the leaves that have units of which the queues do not say all.
func (cs *candidates) markMixed() {
	c := cs.c
	mixed := func(u int32) { cs.kinds[c.leafOf[u]+1] = leafMixed }
	cs.kinds[0] = leafMixed
	for _, u := range c.c.ofPodGroup(c.s, c.p.PodGroup) {
		mixed(u)
	}
	if !c.p.IgnoresTolerations {
		for u := range c.c.tolerant {
			mixed(u)
		}
	}
	for u := range c.c.surplus {
		mixed(u)
	}
}

func (cs *candidates) kindOf(leaf int32) leafKind {
	kind := &cs.kinds[leaf+1]
	if *kind == leafUnseen {
		*kind = cs.c.kindOf(leaf)
	}
	return *kind
}

// kindOf says how the units of a queue are judged.
func (c *contest) kindOf(leaf int32) leafKind {
	if c.leaf < 0 || leaf == c.leaf {
		return leafMixed
	}
	sd := c.sideOf(leaf)
	if sd.rule != "" {
		return leafBarred
	}
	list := &c.roster.lists[leaf+1]
	if _, runtime := c.minRuntimeOf(leaf); !sd.near || runtime > 0 && !list.allRan(runtime, c.p.Now) {
		return leafMixed
	}
	for r, most := range list.most {
		if most > c.spareOf(leaf)[r] {
			return leafMixed
		}
	}
	return leafOpen
}

// judge lists a unit if it may be taken.
func (cs *candidates) judge(u int32) {
	c := cs.c
	if len(c.s.Units[u].Pods) == 0 {
		return
	}
	v := c.judge(u)
	if !v.Eligible {
		c.protect(u, v)
		return
	}
	cs.bounded = c.noteWindow(u) || cs.bounded
	cs.count++
	if c.byPriority(u) {
		cs.byPriority = append(cs.byPriority, u)
	} else {
		cs.walk.list(c.leafOf[u], u)
		cs.bounded = true
	}
}

// grade gives all candidates that are listed their levels.
func (cs *candidates) grade() {
	c, w := cs.c, cs.walk
	w.run(nearest)
	for _, at := range w.found {
		cs.reclaimed(at.unit, at.distance)
	}
	for _, units := range w.units {
		for _, u := range units {
			cs.reclaimed(u, nearest)
		}
	}
	for _, u := range cs.byPriority {
		priority := c.s.Units[u].Priority
		cs.levels[u], cs.orders[u] = max(priority, levelReclaim+distances*cs.ranks()), int64(priority)
	}
	cs.listed = append(cs.listed, cs.byPriority...)
}

// reclaimed gives a unit that may be reclaimed its level. At the same distance, what gangs can do without goes first,
// then units go by priority.
func (cs *candidates) reclaimed(u, distance int32) {
	unit, rank := &cs.c.s.Units[u], int32(0)
	if !unit.Surplus {
		at, _ := slices.BinarySearch(cs.priorities, unit.Priority)
		rank = int32(at) + 1
	}
	cs.levels[u], cs.orders[u] = cs.level(distance, rank), cs.order(cs.c.leafOf[u], unit.Priority)
	cs.listed = append(cs.listed, u)
}

// ranks is how many levels there are at each distance.
func (cs *candidates) ranks() int32 { return int32(len(cs.priorities)) + 1 }

func (cs *candidates) level(distance, rank int32) int32 {
	return levelReclaim + distance*cs.ranks() + rank
}

func (cs *candidates) order(leaf, priority int32) int64 {
	return cs.walk.order[cs.c.sides[leaf].top]<<32 + int64(priority)
}

// has reports whether a unit is a candidate.
func (cs *candidates) has(u int32) bool {
	switch cs.kindOf(cs.c.leafOf[u]) {
	case leafOpen:
		return true
	case leafMixed:
		return cs.levels[u] < levelSafe
	default:
		return false
	}
}

// roomOn is the room that the candidates on a node make, in scratch space that the next call overwrites.
func (cs *candidates) roomOn(n int32) []int64 {
	c := cs.c.c
	if len(cs.c.protected) == 0 {
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

// showBarred offers the units of barred leaves to those that the Decision names.
func (cs *candidates) showBarred() {
	c := cs.c
	if !slices.Contains(cs.kinds, leafBarred) {
		return
	}
	for _, n := range c.c.byName {
		for _, u := range c.c.nodes[n].units {
			if cs.kindOf(c.leafOf[u]) == leafBarred && !c.shown.offer(u) {
				break
			}
		}
	}
}

// apart are candidates to do without, so that all others may be taken together, whichever of them.
func (cs *candidates) apart() map[int32]bool {
	c := cs.c
	w := &walk{l: newLedger(c), units: make(map[int32][]int32)}
	without := make(map[int32]bool)
	byPriority := slices.Clone(cs.byPriority)
	for u := range c.s.Units {
		if at := int32(u); cs.has(at) {
			without[at] = true
			if !c.byPriority(at) {
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
func (c *contest) takenFirst(a, b int32) int {
	x, y := &c.s.Units[a], &c.s.Units[b]
	if x.Surplus != y.Surplus && !c.byPriority(a) {
		return -surplusLast(x, y)
	}
	return -compareUnits(c.s, a, b)
}

func sortBy(units []int32, compare func(a, b int32) int) {
	if !slices.IsSortedFunc(units, compare) {
		slices.SortFunc(units, compare)
	}
}

// protect takes note of a unit that may not be taken.
func (c *contest) protect(u int32, v Verdict) {
	c.protected[v.Rule]++
	c.shown.offer(u)
	if v.passes() {
		c.passing = append(c.passing, timed{unit: u, verdict: v})
	}
}

// noteWindow takes note of an eligible unit that is bounded for a time only. It reports whether the unit is bounded by
// its gang's window at all.
func (c *contest) noteWindow(u int32) bool {
	if !elastic(&c.s.Units[u]) {
		return false
	}
	v, young := c.minRuntime(u)
	if young && v.Until != 0 {
		c.passing = append(c.passing, timed{unit: u, verdict: v})
	}
	return young
}
