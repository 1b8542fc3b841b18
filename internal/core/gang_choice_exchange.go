package core

import (
	"cmp"
	"slices"
)

const (
	// exchangeMembers is the maximum difference in members between an exchange and the fractional
	// choice, over all nodes together. If a node holds more than 13 members, this maximum may
	// exclude solutions.
	exchangeMembers = 512
	// exchangeEffort is the maximum number of sums that all exchanges of a decision compute. One
	// sum takes about 3 ns.
	exchangeEffort = 20_000_000
)

// deviation is an option of a node other than its base in the fractional choice. members is the
// difference in members to the base; it may be negative. extra is the cost above the price of these
// members. All extras are multiplied by the gain of the last increment, so that they are integers.
type deviation struct {
	index   int32
	to      int
	members int
	extra   price
}

// exchange looks for a cheaper choice than the fractional choice rounded up. Rounding up pays for
// members of the last increment that are not needed. Each deviation from the fractional choice has
// an extra cost above the price per member of the last increment. An exchange is cheaper if its
// extras add up to less than the cost of the unneeded members.
//
// Let Δ be the largest deviation of one node, in members. In at least one optimum, at most 3Δ nodes
// deviate, because among more nodes, some deviations would cancel each other out. So for each
// number of members, the 3Δ cheapest deviations are enough.
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

// widen computes the missing options of nodes. It leaves out a node if every deviation there has an
// extra above limit.
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

// exchangeTable is a table for dynamic programming over the nodes. It has the least extra cost for
// each difference in members to the fractional choice.
type exchangeTable struct {
	last  increment
	left  int
	limit price
	// rows has the deviations of one node per row.
	rows [][]deviation
	low  int
	// least has the least extra cost so far. Index i stands for a difference of i + low members. An
	// entry with negative lost work has no solution. next is memory for the next version of least.
	least, next []price
	// steps has one slice per row, with the same indexes as least. An entry is the deviation of the
	// row that leads to the entry of least, counted from 1; 0 for none.
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

// run returns the deviations of the cheapest exchange; nil if no exchange is cheaper. complete is
// true if the table covered all possible solutions.
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
// possible solutions: 3Δ nodes that deviate by at most Δ members each.
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

// add adds the deviations of one more node to the table.
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
