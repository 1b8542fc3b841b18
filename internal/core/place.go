package core

import (
	"cmp"
	"iter"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/heap"
)

// nodeOrder returns nodes, given by name, in the order for trying members of a class. Each comes
// with the number of members to place there before the next node. It uses the room at the time of
// the call.
type nodeOrder func(t *simulation, class int, nodes []int32) iter.Seq2[int32, int]

// firstFitOrder is the order by name.
func firstFitOrder(_ *simulation, _ int, nodes []int32) iter.Seq2[int32, int] {
	return func(yield func(int32, int) bool) {
		for _, n := range nodes {
			if !yield(n, roomToCount) {
				return
			}
		}
	}
}

// fullestFirst starts with the nodes that have room for the fewest members. This keeps large free
// room together.
func fullestFirst(t *simulation, class int, nodes []int32) iter.Seq2[int32, int] {
	return byRoom(t, class, nodes, 1)
}

// emptiestFirst starts with the nodes that have room for the most members. This spreads members.
func emptiestFirst(t *simulation, class int, nodes []int32) iter.Seq2[int32, int] {
	return byRoom(t, class, nodes, -1)
}

// roomToCount is the highest number of members that is counted on a node. Nodes with more room
// count as equal.
const roomToCount = 1 << 20

// byRoom sorts nodes by their room alone, and leaves questions to the oracle to the caller. The
// caller usually needs few of many nodes, so a heap replaces sorting. Nodes with equal room are
// sorted by name.
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

// fill places all wanted members, or as many as fit now, and returns their placements. Each member
// passes its filters next to those before it. Confined classes use the nodes of their domain only.
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
		// Try again: a member may need members of another class next to it.
		if missing == 0 || !t.anyStateful || len(left) == 1 || len(placements) == before {
			return placements
		}
	}
}

// fillClass places members of one class.
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
			// Start over: a domain that was too full compared with others may not be too full any
			// more.
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

// pack places all wanted members, or none. It first tries simple orders of nodes, in one domain if
// members share it. If classes compete for nodes, which is bin packing, or if the members' rules
// conflict, it tries all placements of a small case.
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

// packInTurn places all wanted members, or none, one class after the other, in simple orders of
// nodes.
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

// fillAll is like fill, but places no member if not all of them fit.
func (t *simulation) fillAll(ws []want, order nodeOrder, within confinement) ([]placement, bool) {
	var placements []placement
	if t.anyStateful {
		placements = t.fill(ws, order, within)
	} else {
		// Placing one class makes no other class fit.
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
// few places if few nodes admit it, or if few have a resource that it requests.
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

// placesFor returns the number of places per member of a class. It counts at most the given number
// of places on a node.
func (t *simulation) placesFor(w want, most int) float64 {
	sum := 0
	for _, n := range t.c.byName {
		sum += t.roomFor(w.class, n, most)
	}
	return float64(sum) / float64(w.count)
}

// most places as many members as possible, in one domain if they must share it.
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

// inOrder places members at the given placements, in an order such that each passes its filters
// next to the members before it. If there is no such order, it returns false and places none.
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

// plausible reports whether each class alone has room.
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

// feasible reports whether all wanted members fit in the current state. It leaves the state
// unchanged.
func (t *simulation) feasible(ws []want) bool {
	if len(ws) == 1 && !t.anyStateful {
		return t.plausible(ws)
	}
	placements, ok := t.pack(ws)
	t.unplaceAll(placements)
	return ok
}

// backtrackMixes is the most combinations of classes to try.
const backtrackMixes = 200

// backtrack tries all placements of a small case and, if the oracle is stateful, all orders of
// placing.
func (t *simulation) backtrack(ws []want) ([]placement, bool) {
	if total(ws) > t.limits.PackingMembers {
		return nil, false
	}
	b := &packing{simulation: t, left: slices.Clone(ws), steps: t.limits.PackingSteps, hopeless: make(map[string]bool)}
	ok := b.next()
	t.packed += t.limits.PackingSteps - max(b.steps, 0)
	return b.placements, ok
}

// packing is the state of one backtracking search.
type packing struct {
	*simulation
	left       []want
	placements []placement
	steps      int
	// hopeless has the sets of placements that no order completes.
	hopeless map[string]bool
}

// next places the remaining members.
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
			// The order of classes makes no difference.
			break
		}
	}
	if b.anyStateful && b.steps >= 0 {
		b.hopeless[key] = true
	}
	return false
}

// nextOf places the next member, of class i. Members of a class are interchangeable. So if only
// room matters, each starts on the node of the member before it.
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
