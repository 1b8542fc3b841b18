package core

import (
	"cmp"
	"slices"
)

// nodeOrder lists nodes in the order in which members of a class are to be tried on them.
type nodeOrder func(t *trial, class int) []int32

// firstFitOrder is by name.
func firstFitOrder(t *trial, _ int) []int32 { return t.c.byName }

// fullestFirst leaves large holes large: nodes with room for the fewest members come first.
func fullestFirst(t *trial, class int) []int32 { return byRoom(t, class, 1) }

// emptiestFirst spreads members.
func emptiestFirst(t *trial, class int) []int32 { return byRoom(t, class, -1) }

// roomToCount is as far as room is told apart: nodes with room for more are all the same.
const roomToCount = 1 << 20

// byRoom counts room alone: the oracle is asked only about the nodes whose turn comes.
func byRoom(t *trial, class, sign int) []int32 {
	room := make([]int32, len(t.s.Nodes))
	var order []int32
	for _, n := range t.c.byName {
		if !t.c.sound[n] {
			continue
		}
		if r := howMany(t.wanted[class], t.freeOf(n), roomToCount); r > 0 {
			room[n] = int32(sign * r)
			order = append(order, n)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(room[a], room[b]) })
	return order
}

// fill places members where there is room now and returns their seats: all that are wanted, or as many as
// it finds room for.
func (t *trial) fill(ws []want, order nodeOrder) []seat {
	var seats []seat
	for _, w := range ws {
		left := w.count
		for _, n := range order(t, w.class) {
			if left == 0 {
				break
			}
			for range t.roomFor(w.class, n, left) {
				if t.stateful[w.class] && !t.oracle.Fits(w.class, int(n)) {
					break
				}
				st := seat{class: w.class, node: n}
				t.place(st)
				seats = append(seats, st)
				left--
			}
		}
	}
	return seats
}

// seatAll places everything wanted, or nothing. Simple orders come first; where classes compete for the
// same nodes, which is bin packing, a small case is searched through.
func (t *trial) seatAll(ws []want) ([]seat, bool) {
	if !t.plausible(ws) {
		return nil, false
	}
	orders := []nodeOrder{fullestFirst}
	if len(ws) > 1 || t.anyStateful {
		orders = append(orders, firstFitOrder, emptiestFirst)
	}
	for _, order := range orders {
		seats := t.fill(ws, order)
		if len(seats) == total(ws) {
			return seats, true
		}
		t.unplaceAll(seats)
	}
	if len(ws) == 1 && !t.anyStateful {
		return nil, false
	}
	return t.backtrack(ws)
}

// plausible reports whether there is room for each class on its own.
func (t *trial) plausible(ws []want) bool {
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

// feasible reports whether everything wanted has room as the trial stands, and leaves the trial as it was.
func (t *trial) feasible(ws []want) bool {
	if len(ws) == 1 && !t.anyStateful {
		return t.plausible(ws)
	}
	seats, ok := t.seatAll(ws)
	t.unplaceAll(seats)
	return ok
}

// backtrackMixes bounds the mixes of classes that are tried.
const backtrackMixes = 200

// backtrack searches through the placements of a small case.
func (t *trial) backtrack(ws []want) ([]seat, bool) {
	if total(ws) > t.limits.PackingMembers {
		return nil, false
	}
	b := &packing{trial: t, steps: t.limits.PackingSteps}
	for _, w := range ws {
		for range w.count {
			b.members = append(b.members, w.class)
		}
	}
	ok := b.next(0)
	return b.seats, ok
}

// packing is the state of one backtracking search.
type packing struct {
	*trial
	members []int
	seats   []seat
	steps   int
}

// next places the members from the i-th on. Members of one class are interchangeable, so each starts on the
// node of the one before it.
func (b *packing) next(i int) bool {
	if i == len(b.members) {
		return true
	}
	class, from := b.members[i], 0
	if i > 0 && b.members[i-1] == class && !b.stateful[class] {
		from = int(b.c.rank[b.seats[i-1].node])
	}
	for _, n := range b.c.byName[from:] {
		if b.steps--; b.steps < 0 {
			return false
		}
		if !b.accepts(class, n) {
			continue
		}
		st := seat{class: class, node: n}
		b.place(st)
		b.seats = append(b.seats, st)
		if b.next(i + 1) {
			return true
		}
		b.seats = b.seats[:len(b.seats)-1]
		b.unplace(st)
	}
	return false
}
