package core

import (
	"cmp"
	"slices"
)

const (
	// exchangeMembers bounds how many members more or fewer than the fractional choice the tried
	// nodes may have together. If nodes hold more than 13 members, the bound may exclude solutions.
	exchangeMembers = 512
	// exchangeEffort bounds the sums computed in all exchanges of a decision. One takes about 3 ns.
	exchangeEffort = 20_000_000
)

// deviation is an option of a node other than its option in the fractional choice. It has more or
// fewer members, and a cost beyond the price of these members, scaled by the gain of the last
// increment.
type deviation struct {
	index   int32
	to      int
	members int
	extra   price
}

// exchange improves on the fractional choice rounded up. At the price of a member in the last
// increment, every other option has an extra cost. A choice is cheaper if its extras add up to less
// than the cost that the last increment wastes.
//
// At most 3Δ nodes deviate in some optimum, where Δ is the most members that one node can deviate
// by. With more nodes, some deviations would cancel out. So of the deviations by equally many
// members, the 3Δ cheapest are enough.
func (ch *choice) exchange(last increment, left int) {
	limit := last.cost.times(int(last.gain) - left)
	if int(last.gain) == left || limit == (price{}) {
		return
	}
	ch.widen(last, limit)
	x := newExchangeTable(last, left, limit, ch.deviations(last, limit))
	best, complete := x.run(&ch.effort)
	ch.proven = ch.proven && complete
	if best == nil {
		return
	}
	ch.nodes[last.index].taken = ch.nodes[last.index].base
	for _, d := range best {
		ch.nodes[d.index].taken = d.to
	}
}

// widen works out the nodes that may have an option with an extra up to limit.
func (ch *choice) widen(last increment, limit price) {
	for i := range ch.nodes {
		n := &ch.nodes[i]
		if n.options != nil {
			continue
		}
		near := false
		ch.bounds(n, func(gain int, least price) {
			near = near || least.times(int(last.gain)).minus(last.cost.times(gain)).compare(limit) <= 0
		})
		if near {
			ch.workOut(int32(i))
		}
	}
}

// deviations lists the options with an extra below limit, grouped by node.
func (ch *choice) deviations(last increment, limit price) []deviation {
	var devs []deviation
	most := 0
	for i := range ch.nodes {
		n := &ch.nodes[i]
		for to := range n.options {
			o, base := &n.options[to], &n.options[n.base]
			if to == n.base || o.cost.start <= ch.after {
				continue
			}
			d := deviation{index: int32(i), to: to, members: o.gain - base.gain}
			d.extra = o.cost.price.minus(base.cost.price).times(int(last.gain)).minus(last.cost.times(d.members))
			if d.extra.compare(limit) < 0 {
				devs = append(devs, d)
				most = max(most, d.members, -d.members)
			}
		}
	}
	slices.SortFunc(devs, func(a, b deviation) int {
		return cmp.Or(a.extra.compare(b.extra), cmp.Compare(a.index, b.index), cmp.Compare(a.to, b.to))
	})
	alike := make([]int, 2*most+1)
	devs = slices.DeleteFunc(devs, func(d deviation) bool {
		alike[d.members+most]++
		return alike[d.members+most] > 3*most
	})
	slices.SortStableFunc(devs, func(a, b deviation) int { return cmp.Compare(a.index, b.index) })
	return devs
}

// exchangeTable has the least extra for every number of members that the nodes together may differ
// from the fractional choice by.
type exchangeTable struct {
	last  increment
	left  int
	limit price
	// rows are the deviations, one row per node.
	rows [][]deviation
	low  int
	// least is the least extra so far, with negative lost work for none. next is scratch space.
	least, next []price
	// steps are the deviations that led to each entry of least, counted from 1, row by row.
	steps [][]int16
}

func newExchangeTable(last increment, left int, limit price, devs []deviation) *exchangeTable {
	x := &exchangeTable{last: last, left: left, limit: limit}
	for len(devs) > 0 {
		n := 1
		for n < len(devs) && devs[n].index == devs[0].index {
			n++
		}
		x.rows = append(x.rows, devs[:n])
		devs = devs[n:]
	}
	return x
}

// run returns the deviations of a cheaper choice, if there is one. It reports whether the table
// covers all cases.
func (x *exchangeTable) run(effort *int) (best []deviation, complete bool) {
	complete = x.open()
	for i, row := range x.rows {
		if *effort -= len(row) * len(x.least); *effort < 0 {
			x.rows, complete = x.rows[:i], false
			break
		}
		x.add(row)
	}
	members := -1
	for m, p := range x.least {
		over := m + x.low - x.left
		if p.lost < 0 || over < 0 {
			continue
		}
		if total := p.plus(x.last.cost.times(over)); total.compare(x.limit) < 0 {
			members, x.limit = m, total
		}
	}
	if members < 0 {
		return nil, complete
	}
	for i, row := range slices.Backward(x.rows) {
		if s := x.steps[i][members]; s > 0 {
			best = append(best, row[s-1])
			members -= row[s-1].members
		}
	}
	return best, complete
}

// open creates the table without deviations. It reports whether the table is wide enough for all
// relevant cases: 3Δ nodes by at most Δ members.
func (x *exchangeTable) open() bool {
	up, down, widest := 0, 0, 0
	for _, row := range x.rows {
		most, least := 0, 0
		for _, d := range row {
			most, least = max(most, d.members), min(least, d.members)
		}
		up, down, widest = up+most, down-least, max(widest, most, -least)
	}
	up, down = min(up, 3*widest*widest), min(down, 3*widest*widest)
	x.low = -min(down, exchangeMembers)
	x.least = slices.Repeat([]price{{lost: -1}}, min(up, exchangeMembers)-x.low+1)
	x.least[-x.low] = price{}
	return up <= exchangeMembers && down <= exchangeMembers
}

// add extends the table by one more node that may deviate.
func (x *exchangeTable) add(row []deviation) {
	x.next = append(x.next[:0], x.least...)
	steps := make([]int16, len(x.least))
	for m, p := range x.least {
		if p.lost < 0 {
			continue
		}
		for i, d := range row {
			to := m + d.members
			if to < 0 || to >= len(x.next) {
				continue
			}
			extra := p.plus(d.extra)
			if extra.compare(x.limit) < 0 && (x.next[to].lost < 0 || extra.compare(x.next[to]) < 0) {
				x.next[to], steps[to] = extra, int16(i+1)
			}
		}
	}
	x.least, x.next = x.next, x.least
	x.steps = append(x.steps, steps)
}
