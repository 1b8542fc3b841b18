package core

import (
	"cmp"
	"slices"
)

// overBound is a set of victims and the bound that it exceeds.
type overBound struct {
	victims []int32
	bound   bound
}

// among returns the search restricted to the potential victims, except the units in without. Its
// nodeColumns have only these units, with ranks in place of priorities. It shares all other data
// with the original snapshot.
func (sr *search) among(vo *victimOrder, without map[int32]bool) *search {
	s, v := *sr.s, *sr.v
	s.ranks, s.orders, s.bands = vo.ranks, vo.orders, sr.p.Bands
	if len(without) > 0 {
		s.ranks = slices.Clone(vo.ranks)
		for u := range without {
			s.ranks[u] = rankSafe
		}
	}
	b := &restriction{vo: vo, c: vo.c.c, mem: vo.mem, ranks: s.ranks, without: without}
	s.columns = b.columns(len(s.Units))
	v.s, v.c = &s, s.columns
	v.narrowTo(potentialVictims{below: rankSafe, count: b.count})
	return &search{
		s: &s, p: sr.p, v: &v, policy: vo.c, whole: sr.whole, nodes: vo.mem.used, roomy: sr.roomy,
	}
}

// restriction builds the columns of a restricted search from the columns of the snapshot.
type restriction struct {
	vo      *victimOrder
	c       *columns
	mem     *scratch
	ranks   []int32
	without map[int32]bool
	// count is the number of units in the restricted search. open is the number of these units in
	// leafOpen queues, by step; see victimOrder.priorities.
	count int
	open  []int

	picked []pick
}

// pick is a unit of the restricted search on the current node.
type pick struct {
	unit, rank, pos int32
	order           int64
}

func (b *restriction) columns(units int) *columns {
	c := b.c
	d := b.mem.blank(c, units)
	b.open = make([]int, b.vo.steps())
	listed, open := b.listed(d), slices.Contains(b.vo.kinds, leafOpen)
	for _, n := range c.byName {
		if listed[n] || open {
			b.node(d, n)
		}
	}
	for step, units := range b.open {
		if units > 0 {
			d.perPriority[b.vo.rank(nearest, int32(step))] += units
			b.count += units
		}
	}
	return d
}

// listed counts the units that were judged one by one. The result is true for the nodes with a pod
// of such a unit.
func (b *restriction) listed(d *columns) (nodes []bool) {
	nodes = make([]bool, len(d.nodes))
	for _, u := range b.vo.listed {
		if b.ranks[u] == rankSafe {
			continue
		}
		d.perPriority[b.ranks[u]]++
		b.count++
		if _, at, ok := b.c.lone(u); ok {
			nodes[at.node] = true
			continue
		}
		for i := range b.vo.c.s.Units[u].Pods {
			if n := b.vo.c.s.Units[u].Pods[i].Node; n >= 0 {
				nodes[n] = true
			}
		}
	}
	return nodes
}

// node builds the nodeColumn of one node.
func (b *restriction) node(d *columns, n int32) {
	col := &b.c.nodes[n]
	b.gather(n, col)
	if len(b.picked) == 0 {
		return
	}
	byOrder := func(x, y pick) int {
		c := cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(x.order, y.order))
		if c == 0 && len(b.vo.c.line.bands) > 0 {
			return -compareUnits(b.vo.c.line, x.unit, y.unit)
		}
		return c
	}
	if !slices.IsSortedFunc(b.picked, byOrder) {
		slices.SortStableFunc(b.picked, byOrder)
	}
	count, dims := len(b.picked), d.dims
	b.mem.used = append(b.mem.used, n)
	if count == len(col.units) && slices.IsSortedFunc(b.picked, func(x, y pick) int { return cmp.Compare(x.pos, y.pos) }) {
		b.whole(d, n)
		return
	}
	out := nodeColumn{
		units: b.mem.numbers.take(count), priorities: b.mem.numbers.take(count),
		starts: b.mem.amounts.take(count), sums: b.mem.amounts.take((count + 1) * dims), alone: true,
	}
	widest := d.widest[int(n)*dims:][:dims]
	clear(out.sums[:dims])
	for i, at := range b.picked {
		out.units[i], out.priorities[i], out.starts[i] = at.unit, at.rank, col.starts[at.pos]
		out.alone = out.alone && (col.alone || len(b.vo.c.s.Units[at.unit].Pods) == 1)
		if col.surplus > 0 {
			out.surplus += b.vo.c.s.Units[at.unit].surplusPods()
		}
		before, after := col.sum(int(at.pos), dims), col.sum(int(at.pos)+1, dims)
		last, next := out.sum(i, dims), out.sum(i+1, dims)
		for r := range next {
			more := after[r] - before[r]
			next[r], widest[r] = last[r]+more, max(widest[r], more)
		}
		d.sites[at.unit] = site{node: n, pos: int32(i)}
	}
	d.nodes[n] = out
	d.sumUp(n)
}

// whole builds the nodeColumn of a node whose units are all in the restricted search, in the order
// of the original.
func (b *restriction) whole(d *columns, n int32) {
	dims, out := d.dims, b.c.nodes[n]
	out.priorities = b.mem.numbers.take(len(b.picked))
	for i, at := range b.picked {
		out.priorities[i] = at.rank
		d.sites[at.unit] = site{node: n, pos: int32(i)}
	}
	copy(d.widest[int(n)*dims:][:dims], b.c.widest[int(n)*dims:])
	d.nodes[n] = out
	d.sumUp(n)
}

// gather sets picked to the units of a node that are in the restricted search. It also sets the
// ranks of units in leafOpen queues.
func (b *restriction) gather(n int32, col *nodeColumn) {
	vo := b.vo
	b.picked = b.picked[:0]
	step := 0
	for i, u := range col.units {
		leaf := vo.c.leafOf[u]
		switch vo.kinds[leaf+1] {
		case leafMixed:
			if rank := b.ranks[u]; rank < rankSafe {
				b.picked = append(b.picked, pick{unit: u, rank: rank, pos: int32(i), order: vo.orders[u]})
			}
		case leafOpen:
			priority := vo.countsAs(col.priorities[i])
			for vo.priorities[step] < priority {
				step++
			}
			if b.without[u] {
				continue
			}
			rank := vo.rank(nearest, int32(step)+1)
			b.ranks[u], vo.orders[u] = rank, vo.order(leaf, priority)
			b.picked = append(b.picked, pick{unit: u, rank: rank, pos: int32(i), order: vo.orders[u]})
			if col.alone || vo.c.s.Units[u].firstNode() == n {
				b.open[step+1]++
			}
		case leafBarred, leafUnseen:
		}
	}
}

// firstNode returns the node of the unit's first pod with a node; -1 if there is none.
func (u *Unit) firstNode() int32 {
	for i := range u.Pods {
		if n := u.Pods[i].Node; n >= 0 {
			return int32(n)
		}
	}
	return -1
}
