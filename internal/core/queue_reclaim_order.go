package core

import (
	"cmp"
	"math"
	"slices"
)

// reclaimOrder takes units from the queues for as long as their subtrees are above their fair share, always from the one that
// is furthest over, to find out how far over each subtree is when a unit's turn comes.
type reclaimOrder struct {
	l *ledger
	// units are left to be taken, by leaf; those of leaves that are sorted are in order.
	units  map[int32][]int32
	sorted []bool
	// tops are the queues at the top of all subtrees, the one furthest over first; order is the inverse.
	tops  []int32
	order []int64
	// met marks those that are among the tops.
	met []bool
	// left counts the units that are left in each queue and below it.
	left  []int
	ratio []float64

	found []step
}

// step is a unit's turn.
type step struct {
	unit, distance int32
	// refused is true where the unit may not be taken beside those before it.
	refused bool
}

// list adds a unit to those of its leaf.
func (w *reclaimOrder) list(leaf, u int32) {
	if w.units[leaf] = append(w.units[leaf], u); len(w.units[leaf]) == 1 {
		w.meet(leaf)
	}
}

// meet takes note of a leaf with units, which may be among those that the order leaves out.
func (w *reclaimOrder) meet(leaf int32) {
	if w.order == nil {
		w.order, w.met = make([]int64, w.l.c.t.Len()), make([]bool, w.l.c.t.Len())
	}
	if top := w.l.c.subtreeOf(leaf).top; !w.met[top] {
		w.met[top] = true
		w.tops = append(w.tops, top)
	}
}

// run takes units until no subtree is further over than a distance, or none has anything left that may be taken.
func (w *reclaimOrder) run(until int32) {
	w.start()
	open := slices.Clone(w.tops)
	for top := w.furthest(open); top >= 0 && distanceOf(w.ratio[top]) < until; top = w.furthest(open) {
		if !w.l.c.above(top, w.l) {
			open = slices.DeleteFunc(open, func(q int32) bool { return q == top })
			continue
		}
		at := step{distance: distanceOf(w.ratio[top])}
		leaf := top
		for len(w.l.c.t.Children(leaf)) > 0 {
			leaf = w.furthest(w.l.c.t.Children(leaf))
		}
		at.unit = w.next(leaf)
		if at.refused = !w.l.take(at.unit); !at.refused {
			for q := leaf; q >= 0; q = w.l.c.t.Parent(q) {
				w.weigh(q)
			}
		}
		w.found = append(w.found, at)
	}
}

// start weighs all queues with units.
func (w *reclaimOrder) start() {
	c := w.l.c
	w.left, w.ratio, w.sorted = make([]int, c.t.Len()), make([]float64, c.t.Len()), make([]bool, c.t.Len())
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

// next takes the next unit of a leaf out of the order.
func (w *reclaimOrder) next(leaf int32) int32 {
	if !w.sorted[leaf] {
		w.sorted[leaf] = true
		sortBy(w.units[leaf], w.l.c.takenFirst)
	}
	u := w.units[leaf][0]
	w.units[leaf] = w.units[leaf][1:]
	for q := leaf; q >= 0; q = w.l.c.t.Parent(q) {
		w.left[q]--
	}
	return u
}

// furthest is the queue with units left that is furthest over its fair share; the first one of several.
func (w *reclaimOrder) furthest(queues []int32) int32 {
	best := int32(-1)
	for _, q := range queues {
		if w.left[q] > 0 && (best < 0 || w.ratio[q] > w.ratio[best]) {
			best = q
		}
	}
	return best
}

// weigh works out how far over its fair share a queue is after what has been taken.
func (w *reclaimOrder) weigh(q int32) { w.ratio[q] = w.l.c.ratio(q, w.l.taken) }

// distanceOf sorts a ratio to the fair share into one of the distances, the furthest over first.
func distanceOf(ratio float64) int32 {
	if ratio <= 1 {
		return lent
	}
	return nearest - int32(min(math.Log2(max(ratio, 1))*distanceSteps, nearest))
}
