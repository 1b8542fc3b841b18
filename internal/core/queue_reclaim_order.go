package core

import (
	"cmp"
	"math"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/heap"
)

// reclaimOrder sorts the units of other queues for reclaim. The next unit always comes from the
// subtree with the highest ratio of usage to fair share. The ratio is computed again after each
// unit. The order ends when every subtree is within its fair share.
type reclaimOrder struct {
	l *ledger
	// units has the remaining units of each leaf queue, by the queue's index. lists has the state
	// of each of these lists.
	units map[int32][]int32
	lists []turnList
	// tops are the top queues of all subtrees, the queue with the highest ratio first. order maps a
	// queue to its position in tops.
	tops  []int32
	order []int64
	// met is true for the queues in tops.
	met []bool
	// left has the number of remaining units of each queue, including the queues below it.
	left  []int
	ratio []float64

	found []step
}

// step is the position of one unit in the order.
type step struct {
	unit, distance int32
	// refused is true if the unit may not be evicted together with the units before it.
	refused bool
}

// list adds a unit to the units of its leaf queue.
func (w *reclaimOrder) list(leaf, u int32) {
	if w.units[leaf] = append(w.units[leaf], u); len(w.units[leaf]) == 1 {
		w.meet(leaf)
	}
}

// meet adds the top queue of a leaf's subtree to tops. The leaf itself may have no units in the
// order.
func (w *reclaimOrder) meet(leaf int32) {
	if w.order == nil {
		w.order, w.met = make([]int64, w.l.c.t.Len()), make([]bool, w.l.c.t.Len())
	}
	if top := w.l.c.subtreeOf(leaf).top; !w.met[top] {
		w.met[top] = true
		w.tops = append(w.tops, top)
	}
}

// run takes units until no subtree has a distance below until, or until no unit may be evicted any
// more. A distance measures how far a subtree is above its fair share; see distanceOf.
func (w *reclaimOrder) run(until int32) {
	w.start()
	open := slices.Clone(w.tops)
	for top := w.furthest(open); top >= 0 && distanceOf(w.ratio[top]) < until; top = w.furthest(open) {
		if !w.l.c.above(top, w.l) {
			open = slices.DeleteFunc(open, func(q int32) bool { return q == top })
			continue
		}
		leaf := top
		for len(w.l.c.t.Children(leaf)) > 0 {
			leaf = w.furthest(w.l.c.t.Children(leaf))
		}
		w.turn(leaf, distanceOf(w.ratio[top]))
	}
}

// turn takes the next unit of a leaf queue. If the unit is a needed member of a gang, turn also
// takes the gang's other needed members, because the first eviction breaks the gang already.
func (w *reclaimOrder) turn(leaf, distance int32) {
	for first := int32(-1); first < 0 || len(w.units[leaf]) > 0 && w.l.c.s.sharesGang(first, w.units[leaf][0]); {
		at := step{unit: w.next(leaf), distance: distance}
		if at.refused = !w.l.take(at.unit); !at.refused {
			for q := leaf; q >= 0; q = w.l.c.t.Parent(q) {
				w.weigh(q)
			}
		}
		w.found = append(w.found, at)
		if first < 0 {
			first = at.unit
		}
	}
}

// sharesGang reports whether two units are needed members of the same gang.
func (s *Snapshot) sharesGang(a, b int32) bool {
	x, y := &s.Units[a], &s.Units[b]
	return x.PodGroup == y.PodGroup && s.gangs.isNeeded(x) && s.gangs.isNeeded(y)
}

// gangsTogether moves the needed members of each gang directly behind the first of them.
func (s *Snapshot) gangsTogether(units []int32) {
	if len(s.gangs) == 0 {
		return
	}
	members := make(map[string][]int32)
	for _, u := range units {
		if unit := &s.Units[u]; s.gangs.isNeeded(unit) {
			members[unit.PodGroup] = append(members[unit.PodGroup], u)
		}
	}
	out := units[:0:0]
	for _, u := range units {
		unit := &s.Units[u]
		if !s.gangs.isNeeded(unit) {
			out = append(out, u)
			continue
		}
		out = append(out, members[unit.PodGroup]...)
		delete(members, unit.PodGroup)
	}
	copy(units, out)
}

// start computes the ratio of usage to fair share for all queues with units.
func (w *reclaimOrder) start() {
	c := w.l.c
	w.left, w.ratio, w.lists = make([]int, c.t.Len()), make([]float64, c.t.Len()), make([]turnList, c.t.Len())
	for leaf, units := range w.units {
		for q := leaf; q >= 0; q = c.t.Parent(q) {
			if w.left[q] += len(units); w.left[q] == len(units) {
				w.weigh(q)
			}
		}
	}
	for _, top := range w.tops {
		w.weigh(top)
	}
	slices.SortFunc(w.tops, func(a, b int32) int {
		return cmp.Or(cmp.Compare(w.ratio[b], w.ratio[a]), cmp.Compare(a, b))
	})
	for i, top := range w.tops {
		w.order[top] = int64(i)
	}
}

// turnList is the state of the list of one leaf queue. Usually only few of many units are taken, so
// the list is a heap at first. It is sorted when so many units are taken that a heap is no cheaper.
type turnList struct {
	state turnListState
	// most is the minimum length of a heap. If the list becomes shorter, it is sorted.
	most int
}

// turnListState is the arrangement of a list. In a heaped or sorted list, the first unit is the
// next one.
type turnListState uint8

const (
	unarranged turnListState = iota
	heaped
	sorted
)

// sortAfter determines when a list is sorted: after one in sortAfter of its units is taken.
const sortAfter = 8

// next removes the next unit from the list of a leaf queue and returns it.
func (w *reclaimOrder) next(leaf int32) int32 {
	c, list := w.l.c, &w.lists[leaf]
	ahead := heap.Heap[int32]{Items: w.units[leaf], Before: func(a, b *int32) bool { return c.takenFirst(*a, *b) < 0 }}
	switch n := len(ahead.Items); {
	case list.state == unarranged && !slices.ContainsFunc(ahead.Items, func(u int32) bool { return c.s.gangs.isNeeded(&c.s.Units[u]) }):
		list.state, list.most = heaped, n-n/sortAfter
		ahead.Init()
	case list.state == unarranged:
		list.state = sorted
		sortBy(ahead.Items, c.takenFirst)
		c.s.gangsTogether(ahead.Items)
	case list.state == heaped && n < list.most:
		list.state = sorted
		sortBy(ahead.Items, c.takenFirst)
	}
	u := ahead.Items[0]
	if list.state == heaped {
		ahead.Pop()
		w.units[leaf] = ahead.Items
	} else {
		w.units[leaf] = ahead.Items[1:]
	}
	for q := leaf; q >= 0; q = c.t.Parent(q) {
		w.left[q]--
	}
	return u
}

// furthest returns the queue with units left and the highest ratio. Among equal ratios, it returns
// the first queue; -1 if no queue has units left.
func (w *reclaimOrder) furthest(queues []int32) int32 {
	best := int32(-1)
	for _, q := range queues {
		if w.left[q] > 0 && (best < 0 || w.ratio[q] > w.ratio[best]) {
			best = q
		}
	}
	return best
}

// weigh computes the ratio of a queue's usage to its fair share, without the units that are already
// taken.
func (w *reclaimOrder) weigh(q int32) { w.ratio[q] = w.l.c.ratio(q, w.l.taken) }

// distanceOf maps a ratio of usage to fair share to a distance, which is an index of a logarithmic
// scale. Distance 0 is the highest ratio.
func distanceOf(ratio float64) int32 {
	if ratio <= 1 {
		return lent
	}
	return nearest - int32(min(math.Log2(max(ratio, 1))*distanceSteps, nearest))
}
