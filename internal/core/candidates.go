package core

import (
	"cmp"
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
	// levelSafe is above all levels.
	levelSafe = math.MaxInt32
)

// candidate is a unit that may be taken, with what stands for its priority in the search, and its order among others
// of that level: lower goes first.
type candidate struct {
	unit, level int32
	order       int64
}

// candidates judges all units. It returns those that can be taken together, whichever of them, and those of which each
// can be taken, but not all.
func (c *contest) candidates() (together, beyond []candidate) {
	w := &walk{l: newLedger(c), units: make(map[int32][]int32)}
	var byPriority []int32
	for i := range c.s.Units {
		u := int32(i)
		if len(c.s.Units[i].Pods) == 0 {
			continue
		}
		v := c.judge(u)
		if !v.Eligible {
			c.protect(u, v)
			continue
		}
		c.noteWindow(u)
		if c.byPriority(u) {
			byPriority = append(byPriority, u)
		} else {
			leaf := c.leafOfUnit(u)
			w.units[leaf] = append(w.units[leaf], u)
		}
	}
	w.run()
	lowest := c.grade(w)
	// Units in a window of their gang's are bounded together, so it matters which ones are looked at first.
	sortBy(byPriority, c.takenFirst)
	for _, u := range byPriority {
		at := candidate{unit: u, level: max(c.s.Units[u].Priority, lowest), order: int64(c.s.Units[u].Priority)}
		if w.l.take(u) {
			w.together = append(w.together, at)
		} else {
			w.beyond = append(w.beyond, at)
		}
	}
	return w.together, w.beyond
}

// grade turns the distances of what may be reclaimed into levels, and returns the lowest level above them. At the same
// distance, what gangs can do without goes first, then units go by priority.
func (c *contest) grade(w *walk) (above int32) {
	var priorities []int32
	for _, list := range [...][]candidate{w.together, w.beyond} {
		for _, at := range list {
			priorities = append(priorities, c.s.Units[at.unit].Priority)
		}
	}
	slices.Sort(priorities)
	priorities = slices.Compact(priorities)
	ranks := int32(len(priorities)) + 1
	for _, list := range [...][]candidate{w.together, w.beyond} {
		for i := range list {
			u, rank := &c.s.Units[list[i].unit], 0
			if !u.Surplus {
				rank, _ = slices.BinarySearch(priorities, u.Priority)
				rank++
			}
			list[i].level = levelReclaim + list[i].level*ranks + int32(rank)
			list[i].order = list[i].order<<32 + int64(u.Priority)
		}
	}
	return levelReclaim + distances*ranks
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

// noteWindow takes note of an eligible unit that is bounded for a time only.
func (c *contest) noteWindow(u int32) {
	if !elastic(&c.s.Units[u]) {
		return
	}
	if v, young := c.minRuntime(u); young && v.Until != 0 {
		c.passing = append(c.passing, timed{unit: u, verdict: v})
	}
}

// walk takes units from the queues for as long as their sides are above their fair share, always from the one that
// is furthest over, to find out how far over each side is when a unit's turn comes.
type walk struct {
	l     *ledger
	units map[int32][]int32
	// left counts the units that are left in each queue and below it.
	left  []int
	ratio []float64
	// sides are the queues at the top of all sides, the one furthest over first; order is the inverse.
	sides []int32
	order map[int32]int64

	together, beyond []candidate
}

func (w *walk) run() {
	if len(w.units) == 0 {
		return
	}
	w.start()
	open := slices.Clone(w.sides)
	for top := w.furthest(open); top >= 0; top = w.furthest(open) {
		if !w.l.c.above(top, w.l.taken) {
			open = slices.DeleteFunc(open, func(q int32) bool { return q == top })
			w.rest(top, top)
			continue
		}
		at := candidate{level: distanceOf(w.ratio[top]), order: w.order[top]}
		leaf := top
		for len(w.l.c.t.nodes[leaf].children) > 0 {
			leaf = w.furthest(w.l.c.t.nodes[leaf].children)
		}
		at.unit = w.next(leaf)
		if !w.l.take(at.unit) {
			w.beyond = append(w.beyond, at)
			continue
		}
		w.together = append(w.together, at)
		for q := leaf; q >= 0; q = w.l.c.t.nodes[q].parent {
			w.weigh(q)
		}
	}
}

// start puts the units of each leaf in order, and weighs all queues with units.
func (w *walk) start() {
	c := w.l.c
	w.left, w.ratio, w.order = make([]int, len(c.t.nodes)), make([]float64, len(c.t.nodes)), make(map[int32]int64)
	for leaf, units := range w.units {
		sortBy(units, c.takenFirst)
		if top := c.sideOf(leaf).top; !slices.Contains(w.sides, top) {
			w.sides = append(w.sides, top)
		}
		for q := leaf; q >= 0; q = c.t.nodes[q].parent {
			if w.left[q] += len(units); w.left[q] == len(units) {
				w.weigh(q)
			}
		}
	}
	slices.SortFunc(w.sides, func(a, b int32) int {
		return cmp.Or(cmp.Compare(w.ratio[b], w.ratio[a]), cmp.Compare(a, b))
	})
	for i, top := range w.sides {
		w.order[top] = int64(i)
	}
}

// next takes the next unit of a leaf out of the walk.
func (w *walk) next(leaf int32) int32 {
	u := w.units[leaf][0]
	w.units[leaf] = w.units[leaf][1:]
	for q := leaf; q >= 0; q = w.l.c.t.nodes[q].parent {
		w.left[q]--
	}
	return u
}

// rest lists what is left in a queue of a side that has no more to spare: it may be taken in place of what has been.
func (w *walk) rest(top, q int32) {
	for _, u := range w.units[q] {
		w.beyond = append(w.beyond, candidate{unit: u, level: distanceOf(1), order: w.order[top]})
	}
	w.units[q] = nil
	for _, child := range w.l.c.t.nodes[q].children {
		w.rest(top, child)
	}
}

// furthest is the queue with units left that is furthest over its fair share; the first one of several.
func (w *walk) furthest(queues []int32) int32 {
	best := int32(-1)
	for _, q := range queues {
		if w.left[q] > 0 && (best < 0 || w.ratio[q] > w.ratio[best]) {
			best = q
		}
	}
	return best
}

// weigh works out how far over its fair share a queue is after what has been taken, by its dominant resource among
// those that the preemptor asks for.
func (w *walk) weigh(q int32) {
	c := w.l.c
	w.ratio[q] = 0
	for _, r := range c.asks {
		used := c.usedOf(q)[r] - w.l.taken[int(q)*c.t.dims+r]
		if used <= 0 {
			continue
		}
		w.ratio[q] = max(w.ratio[q], float64(used)/float64(c.shareOf(q, r)))
	}
}

// distanceOf sorts a ratio to the fair share into one of the distances, the furthest over first.
func distanceOf(ratio float64) int32 {
	return distances - 1 - int32(min(math.Log2(max(ratio, 1))*distanceSteps, distances-1))
}

// sample is the snapshot of a search among some candidates: only they are units there, by what stands for their
// priority. It shares everything else with the snapshot that was asked about.
func (c *contest) sample(list []candidate) (s *Snapshot, original []int32) {
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(a.unit, b.unit) })
	whole := *c.s
	whole.Units = make([]Unit, len(list))
	original = make([]int32, len(list))
	for i, at := range list {
		u := &whole.Units[i]
		*u = c.s.Units[at.unit]
		u.order, u.Priority, u.Toleration = at.order, at.level, nil
		original[i] = at.unit
	}
	whole.columns = c.c.among(&whole)
	return &whole, original
}

// among makes the columns of other units on the same nodes.
func (c *columns) among(s *Snapshot) *columns {
	d := &columns{
		dims: c.dims, free: c.free, later: c.later, byName: c.byName, rank: c.rank,
		all: make([]int64, len(c.all)), top: make([]int64, len(c.top)),
		sound: make([]bool, len(c.sound)), nodes: make([]nodeColumn, len(c.nodes)),
		perPriority: make(map[int32]int), sites: make([]site, len(s.Units)),
	}
	d.fill(s)
	for n, sound := range c.sound {
		d.sound[n] = d.sound[n] && sound
	}
	return d
}

// relabelled is an oracle in front of which units have other numbers.
type relabelled struct {
	Oracle
	original []int32
}

// RemoveUnit passes a unit on by its original number.
func (o relabelled) RemoveUnit(unit int) { o.Oracle.RemoveUnit(int(o.original[unit])) }

// RestoreUnit passes a unit on by its original number.
func (o relabelled) RestoreUnit(unit int) { o.Oracle.RestoreUnit(int(o.original[unit])) }
