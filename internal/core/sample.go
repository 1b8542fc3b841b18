package core

import (
	"cmp"
	"math"
	"slices"
)

// sampled says where the units of a search among some candidates come from.
type sampled struct {
	root       *search
	contest    *contest
	candidates *candidates
	// refused is the first outcome that went beyond a bound.
	refused *refusal
}

// refusal is a set of victims that goes beyond a bound.
type refusal struct {
	victims []int32
	bound   bound
}

// everything is the level up to which all candidates are in a sample.
const everything = levelSafe - 1

// sample is the same search among the candidates up to a level, but for some to do without: only they are in the
// columns, and levels stand for priorities. It shares everything else with the snapshot that was asked about.
func (sr *search) sample(cs *candidates, upTo int32, without map[int32]bool) *search {
	s, v := *sr.s, *sr.v
	s.levels, s.orders = cs.levels, cs.orders
	if len(without) > 0 {
		s.levels = slices.Clone(cs.levels)
		for u := range without {
			s.levels[u] = levelSafe
		}
	}
	b := &sampler{cs: cs, c: cs.c.c, mem: cs.mem, levels: s.levels, upTo: upTo, without: without}
	s.columns = b.columns(len(s.Units))
	v.s, v.c = &s, s.columns
	v.suspect(suspects{below: levelSafe, count: b.count})
	return &search{
		s: &s, p: sr.p, v: &v, roomy: sr.roomy, sampled: &sampled{root: sr, contest: cs.c, candidates: cs},
	}
}

// sampler makes the columns of a sample from those of the snapshot.
type sampler struct {
	cs      *candidates
	c       *columns
	mem     *scratch
	levels  []int32
	upTo    int32
	without map[int32]bool
	// count is how many units are in the sample, open how many of them are in open leaves, by rank.
	count int
	open  []int

	picked []pick
}

// pick is a unit of the sample on one node.
type pick struct {
	unit, level, pos int32
	order            int64
}

func (b *sampler) columns(units int) *columns {
	c := b.c
	d := b.mem.blank(c, units)
	b.open = make([]int, b.cs.ranks())
	here, highest := b.listed(d), b.highestOpen()
	for _, n := range c.byName {
		if here[n] || int64(c.lowest[int(n)*lowestKept]) <= highest {
			b.node(d, n)
		}
	}
	for rank, units := range b.open {
		if units > 0 {
			d.perPriority[b.cs.level(nearest, int32(rank))] += units
			b.count += units
		}
	}
	return d
}

// listed counts the candidates that have been judged one by one, and finds the nodes that they are on.
func (b *sampler) listed(d *columns) (nodes []bool) {
	nodes = make([]bool, len(d.nodes))
	for _, u := range b.cs.listed {
		if b.levels[u] > b.upTo {
			continue
		}
		d.perPriority[b.levels[u]]++
		b.count++
		if _, at, ok := b.c.lone(u); ok {
			nodes[at.node] = true
			continue
		}
		for i := range b.cs.c.s.Units[u].Pods {
			if n := b.cs.c.s.Units[u].Pods[i].Node; n >= 0 {
				nodes[n] = true
			}
		}
	}
	return nodes
}

// highestOpen is the highest priority that units of open leaves have in the sample.
func (b *sampler) highestOpen() int64 {
	rank := int64(b.upTo) - int64(b.cs.level(nearest, 0))
	if rank = min(rank, int64(len(b.cs.priorities))); rank <= 0 {
		return math.MinInt64
	}
	return int64(b.cs.priorities[rank-1])
}

// node makes the column of one node.
func (b *sampler) node(d *columns, n int32) {
	col := &b.c.nodes[n]
	b.gather(n, col)
	if len(b.picked) == 0 {
		return
	}
	byLevel := func(x, y pick) int { return cmp.Or(cmp.Compare(x.level, y.level), cmp.Compare(x.order, y.order)) }
	if !slices.IsSortedFunc(b.picked, byLevel) {
		slices.SortStableFunc(b.picked, byLevel)
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
		out.units[i], out.priorities[i], out.starts[i] = at.unit, at.level, col.starts[at.pos]
		out.alone = out.alone && (col.alone || len(b.cs.c.s.Units[at.unit].Pods) == 1)
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

// whole makes the column of a node that has all of its units in the sample, in the same order as ever.
func (b *sampler) whole(d *columns, n int32) {
	dims, out := d.dims, b.c.nodes[n]
	out.priorities = b.mem.numbers.take(len(b.picked))
	for i, at := range b.picked {
		out.priorities[i] = at.level
		d.sites[at.unit] = site{node: n, pos: int32(i)}
	}
	copy(d.widest[int(n)*dims:][:dims], b.c.widest[int(n)*dims:])
	d.nodes[n] = out
	d.sumUp(n)
}

// gather picks the units of a node that are in the sample, and gives those of open leaves their level.
func (b *sampler) gather(n int32, col *nodeColumn) {
	cs := b.cs
	b.picked = b.picked[:0]
	rank := 0
	for i, u := range col.units {
		leaf := cs.c.leafOf[u]
		switch cs.kinds[leaf+1] {
		case leafMixed:
			if level := b.levels[u]; level <= b.upTo {
				b.picked = append(b.picked, pick{unit: u, level: level, pos: int32(i), order: cs.orders[u]})
			}
		case leafOpen:
			for cs.priorities[rank] < col.priorities[i] {
				rank++
			}
			level := cs.level(nearest, int32(rank)+1)
			if level > b.upTo || len(b.without) > 0 && b.without[u] {
				continue
			}
			b.levels[u], cs.orders[u] = level, cs.order(leaf, col.priorities[i])
			b.picked = append(b.picked, pick{unit: u, level: level, pos: int32(i), order: cs.orders[u]})
			if col.alone || cs.c.s.Units[u].firstNode() == n {
				b.open[rank+1]++
			}
		case leafBarred, leafUnseen:
		}
	}
}

// firstNode is the first node that a unit has a pod on; -1 for none.
func (u *Unit) firstNode() int32 {
	for i := range u.Pods {
		if n := u.Pods[i].Node; n >= 0 {
			return int32(n)
		}
	}
	return -1
}
