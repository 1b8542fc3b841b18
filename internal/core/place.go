package core

import (
	"cmp"
	"iter"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/heap"
)

// nodeOrder returns nodes in the order to try them for members of a class. The second value is the
// number of members to place on the node before the next node is tried. The order depends on the
// room at the time of the call. nodes is sorted by name.
type nodeOrder func(t *simulation, class int, nodes []int32) iter.Seq2[int32, int]

// firstFitOrder returns the nodes by name.
func firstFitOrder(_ *simulation, _ int, nodes []int32) iter.Seq2[int32, int] {
	return func(yield func(int32, int) bool) {
		for _, n := range nodes {
			if !yield(n, roomToCount) {
				return
			}
		}
	}
}

// fullestFirst sorts the nodes by the number of members that they have room for, the lowest first.
// This keeps large free room for other pods.
func fullestFirst(t *simulation, class int, nodes []int32) iter.Seq2[int32, int] {
	return byRoom(t, class, nodes, 1)
}

// emptiestFirst sorts the nodes by the number of members that they have room for, the highest
// first. This spreads members.
func emptiestFirst(t *simulation, class int, nodes []int32) iter.Seq2[int32, int] {
	return byRoom(t, class, nodes, -1)
}

// roomToCount is the maximum number of members that is counted on a node. Nodes with more room are
// equal in the order of nodes.
const roomToCount = 1 << 20

// byRoom returns the nodes by the number of members that they have room for: ascending if sign is
// 1, descending if -1. Nodes with equal room are sorted by name. It does not call the oracle. The
// result is a heap and not a sorted list, because the caller usually needs only few of the nodes.
func byRoom(t *simulation, class int, nodes []int32, sign int) iter.Seq2[int32, int] {
	type candidate struct{ room, place int32 }
	ahead := &heap.Heap[candidate]{Before: func(a, b *candidate) bool {
		return a.room < b.room || a.room == b.room && a.place < b.place
	}}
	for i, n := range nodes {
		if !t.c.sound[n] {
			continue
		}
		if r := howMany(t.wanted[class], t.freeOf(n), roomToCount); r > 0 {
			ahead.Items = append(ahead.Items, candidate{room: int32(sign * r), place: int32(i)})
		}
	}
	ahead.Init()
	return func(yield func(int32, int) bool) {
		for len(ahead.Items) > 0 {
			if !yield(nodes[ahead.Pop().place], roomToCount) {
				return
			}
		}
	}
}

// fill places all wanted members, or as many as fit, and returns their placements. Each member
// passes its filters next to the members before it. Classes in within use only the nodes of their
// domain.
func (t *simulation) fill(ws []want, order nodeOrder, within confinement) []placement {
	var placements []placement
	left := slices.Clone(ws)
	for {
		before, missing := len(placements), 0
		for i := range left {
			if left[i].count == 0 {
				continue
			}
			got := t.fillClass(left[i], order, within)
			left[i].count -= len(got)
			missing += left[i].count
			placements = append(placements, got...)
		}
		// Try again: a rejected member may need a member of another class next to it, and such a
		// member may have been placed since.
		if missing == 0 || !t.anyStateful || len(left) == 1 || len(placements) == before {
			return placements
		}
	}
}

// fillClass is fill for one class.
func (t *simulation) fillClass(w want, order nodeOrder, within confinement) []placement {
	var placements []placement
	put := func(n int32) {
		st := placement{class: w.class, node: n}
		t.place(st)
		placements = append(placements, st)
	}
	nodes := order(t, w.class, t.nodesFor(w.class, within))
	if !t.stateful[w.class] {
		for n, most := range nodes {
			if len(placements) == w.count {
				break
			}
			for range t.roomFor(w.class, n, min(w.count-len(placements), most)) {
				put(n)
			}
		}
		return placements
	}
	var sorted []int32
	for n := range nodes {
		sorted = append(sorted, n)
	}
	ls := t.lanesOf(w.class, sorted)
	for moved := false; len(placements) < w.count; {
		l := ls.next()
		switch {
		case l == nil && !moved:
			return placements
		case l == nil:
			// Start over: nodes that exceeded the maximum skew may be permitted now.
			ls.startOver()
			moved = false
		case t.accepts(w.class, l.nodes[l.at]):
			put(l.nodes[l.at])
			moved = ls.spread
		default:
			l.at++
		}
	}
	return placements
}

// pack places all wanted members, or none. It first tries simple orders of nodes (packInTurn). If
// they fail in a small case with several classes or stateful classes, it tries all placements.
func (t *simulation) pack(ws []want) ([]placement, bool) {
	if !t.plausible(ws) {
		return nil, false
	}
	if placements, ok := t.packInTurn(ws); ok {
		return placements, true
	}
	if len(ws) == 1 && !t.anyStateful {
		return nil, false
	}
	if tight := t.tightestFirst(ws); !slices.Equal(tight, ws) {
		if placements, ok := t.packInTurn(tight); ok {
			return placements, true
		}
	}
	return t.backtrack(ws)
}

// packInTurn places all wanted members, or none. It places one class after the other, in simple
// orders of nodes.
func (t *simulation) packInTurn(ws []want) ([]placement, bool) {
	if placements, ok := t.packApart(ws); ok {
		return placements, true
	}
	orders := []nodeOrder{t.tightest()}
	if len(ws) > 1 || t.anyStateful {
		orders = append(orders, firstFitOrder, emptiestFirst)
	}
	for _, within := range t.confinements(ws) {
		for _, order := range orders {
			if placements, ok := t.fillAll(ws, order, within); ok {
				return placements, true
			}
		}
	}
	return nil, false
}

// fillAll is like fill, but if some members do not fit, it places none.
func (t *simulation) fillAll(ws []want, order nodeOrder, within confinement) ([]placement, bool) {
	var placements []placement
	if t.anyStateful {
		placements = t.fill(ws, order, within)
	} else {
		// A placed member never helps a member of another class to fit, so one pass is enough.
		for _, w := range ws {
			got := t.fillClass(w, order, within)
			if placements = append(placements, got...); len(got) < w.count {
				break
			}
		}
	}
	if len(placements) == total(ws) {
		return placements, true
	}
	t.unplaceAll(placements)
	return nil, false
}

// tightestFirst sorts the classes by the number of places per member, the fewest first. A class has
// few places if few nodes admit it or have a resource that it requests.
func (t *simulation) tightestFirst(ws []want) []want {
	if len(ws) == 1 {
		return ws
	}
	places := make(map[int]float64, len(ws))
	for _, w := range ws {
		places[w.class] = t.placesFor(w, total(ws))
	}
	tight := slices.Clone(ws)
	slices.SortStableFunc(tight, func(a, b want) int { return cmp.Compare(places[a.class], places[b.class]) })
	return tight
}

// placesFor returns the number of places of a class, divided by the wanted number of members. On
// each node, it counts at most the given number of places.
func (t *simulation) placesFor(w want, most int) float64 {
	sum := 0
	for _, n := range t.c.byName {
		sum += t.roomFor(w.class, n, most)
	}
	return float64(sum) / float64(w.count)
}

// most places as many members as possible. If members must share a domain, they are placed in one
// domain.
func (t *simulation) most(ws []want) []placement {
	var best []placement
	if parties := t.parties(ws); len(parties) > 1 {
		for _, party := range t.hardestParties(parties) {
			best = append(best, t.most(party)...)
		}
		return best
	}
	try := func(placements []placement) {
		t.unplaceAll(placements)
		if len(placements) > len(best) {
			best = placements
		}
	}
	for _, within := range t.enclosures(ws) {
		if len(best) < total(ws) {
			try(t.inside(within).most(ws))
		}
	}
	for _, within := range t.confinements(ws) {
		if len(best) < total(ws) {
			try(t.fill(ws, t.tightest(), within))
		}
	}
	t.placeAll(best)
	return best
}

// inOrder places members on the nodes of the given placements, in an order such that each passes
// its filters. If there is no such order, it returns false and places no member.
func (t *simulation) inOrder(placements []placement) ([]placement, bool) {
	var order []placement
	for left := placements; len(left) > 0; {
		var later []placement
		for _, st := range left {
			if t.accepts(st.class, st.node) {
				t.place(st)
				order = append(order, st)
			} else {
				later = append(later, st)
			}
		}
		if len(later) == len(left) {
			t.unplaceAll(order)
			return nil, false
		}
		left = later
	}
	return order, true
}

// plausible reports whether each class has enough room if it is alone.
func (t *simulation) plausible(ws []want) bool {
	for _, w := range ws {
		left := w.count
		for _, n := range t.c.byName {
			if left -= t.roomFor(w.class, n, left); left <= 0 {
				break
			}
		}
		if left > 0 {
			return false
		}
	}
	return true
}

// feasible reports whether all wanted members fit in the current state. It does not change the
// state.
func (t *simulation) feasible(ws []want) bool {
	if len(ws) == 1 && !t.anyStateful {
		return t.plausible(ws)
	}
	placements, ok := t.pack(ws)
	t.unplaceAll(placements)
	return ok
}

// backtrackMixes is the maximum number of combinations of classes to try.
const backtrackMixes = 200

// backtrack tries all placements in a small case. If the oracle is stateful, it also tries all
// orders of placement.
func (t *simulation) backtrack(ws []want) ([]placement, bool) {
	if total(ws) > t.limits.PackingMembers {
		return nil, false
	}
	b := &packing{simulation: t, left: slices.Clone(ws), steps: t.limits.PackingSteps, hopeless: make(map[string]bool)}
	ok := b.next()
	t.packed += t.limits.PackingSteps - max(b.steps, 0)
	return b.placements, ok
}

// packing is the state of a backtracking search.
type packing struct {
	*simulation
	left       []want
	placements []placement
	steps      int
	// hopeless has the sets of placements that cannot be completed in any order.
	hopeless map[string]bool
}

// next places the remaining members. It returns false if this is not possible.
func (b *packing) next() bool {
	if total(b.left) == 0 {
		return true
	}
	key := ""
	if b.anyStateful {
		if key = b.key(); b.hopeless[key] {
			return false
		}
	}
	for i := range b.left {
		if b.left[i].count == 0 {
			continue
		}
		if b.nextOf(i) {
			return true
		}
		if !b.anyStateful {
			// Only room matters, so the order of classes makes no difference.
			break
		}
	}
	if b.anyStateful && b.steps >= 0 {
		b.hopeless[key] = true
	}
	return false
}

// nextOf places the next member of class b.left[i], and then the remaining members. Members of a
// class are interchangeable. So if only room matters, the search starts at the node of the previous
// member of the class.
func (b *packing) nextOf(i int) bool {
	class, from := b.left[i].class, 0
	if last := len(b.placements) - 1; !b.anyStateful && last >= 0 && b.placements[last].class == class {
		from, _ = slices.BinarySearchFunc(b.c.byName, b.c.rank[b.placements[last].node], func(n, rank int32) int { return cmp.Compare(b.c.rank[n], rank) })
	}
	for _, n := range b.c.byName[from:] {
		if b.steps--; b.steps < 0 {
			return false
		}
		if !b.accepts(class, n) {
			continue
		}
		st := placement{class: class, node: n}
		b.place(st)
		b.left[i].count--
		b.placements = append(b.placements, st)
		if b.next() {
			return true
		}
		b.placements = b.placements[:len(b.placements)-1]
		b.left[i].count++
		b.unplace(st)
	}
	return false
}

// key returns a map key for the set of placements so far.
func (b *packing) key() string {
	placed := slices.Clone(b.placements)
	slices.SortFunc(placed, func(x, y placement) int { return cmp.Or(cmp.Compare(x.class, y.class), cmp.Compare(x.node, y.node)) })
	numbers := make([]int32, 0, 2*len(placed))
	for _, st := range placed {
		numbers = append(numbers, int32(st.class), st.node)
	}
	return keyOf(numbers)
}
