package fairshare

import (
	"math"
	"math/bits"
	"slices"
)

// Pool is a set of nodes that the same classes of work can use.
type Pool struct {
	// Capacity is the capacity of the nodes, minus the usage of pods in no queue.
	Capacity Amounts
	// Used is the usage in the pool, by leaf queue. Leaf queues without usage may be omitted.
	Used map[int32]Amounts
}

// Class is the work that can use the same pools.
type Class struct {
	// Reach is a set of pools that the work can use. Bit i stands for the pool with index i.
	Reach uint64
	// Running is the sum of the requests of running work, by leaf queue. Waiting is the sum of the
	// requests of work that waits for a node.
	Running, Waiting map[int32]Amounts
}

// MostPools is the maximum number of pools.
const MostPools = 64

// Field has the pools of nodes to divide among queues, and the classes of work that can use them.
type Field struct {
	Pools   []Pool
	Classes []Class
	// Allocated is the usage of each queue on all nodes, including the queues below it.
	Allocated []Amounts
}

// Market is a set of pools whose capacity of one resource is divided among the queues separately.
// Only work that can use these pools raises a queue's share of the market.
type Market struct {
	// Pools has bit i set if pool i belongs to the market.
	Pools uint64
	// Shares has each queue's share of the market, by its index in the tree.
	Shares []int64
	// classes are the indexes of the classes whose demand counts in the market.
	classes []int
}

// Counts reports whether the demand of a class counts in the market.
func (m *Market) Counts(class int) bool { return slices.Contains(m.classes, class) }

// Markets divides the pools into markets. The result has the markets of each resource. If all work
// can use all pools, there is one market with the shares of [Tree.FairShares].
//
// The division has three steps:
//
//  1. If some pools have enough capacity for all work that can use them, these pools become one
//     market.
//  2. The remaining pools are grouped: pools that some class of work can use together are in one
//     market.
//  3. If the work of some queues can use only pools that are too small for their fair shares, these
//     pools become a market.
//
// The shares depend on the demand and on the pools that work can use. They do not depend on the
// place where the work runs within its market.
func (t *Tree) Markets(f *Field, carried Bundles) [][]Market {
	out := make([][]Market, t.dims)
	quotas := t.quotas(carried)
	for r := range out {
		s := &sharing{
			t: t, f: f, resource: r, carried: quotas, shares: t.Rows(), wanted: make([]int64, len(t.nodes)*t.dims),
		}
		for i := range f.Classes {
			s.asks = append(s.asks, s.asksOf(i))
		}
		out[r] = s.markets()
	}
	return out
}

// sharing is the division of one resource.
type sharing struct {
	t        *Tree
	f        *Field
	resource int
	// carried has the quotas of all queues, including the carried amounts.
	carried []Amounts
	// asks has the demand of each class of work, by leaf queue.
	asks []map[int32]int64
	// shares and wanted are memory for the method share.
	shares []Amounts
	wanted []int64
}

// in returns the amount of the resource that is being divided, from a vector.
func (s *sharing) in(a Amounts) int64 {
	if s.resource >= len(a) {
		return 0
	}
	return Used(a[s.resource])
}

// capacity returns the capacity of a set of pools, given as bits.
func (s *sharing) capacity(pools uint64) (sum int64) {
	for ; pools != 0; pools &= pools - 1 {
		sum = Add(sum, max(s.in(s.f.Pools[bits.TrailingZeros64(pools)].Capacity), 0))
	}
	return min(sum, MaxAmount)
}

// asksOf returns the demand of a class of work, by leaf queue: running and waiting.
func (s *sharing) asksOf(class int) map[int32]int64 {
	c, out := &s.f.Classes[class], make(map[int32]int64, len(s.f.Classes[class].Waiting))
	for _, part := range [...]map[int32]Amounts{c.Running, c.Waiting} {
		for leaf, a := range part {
			if v := s.in(a); v > 0 {
				out[leaf] = min(Add(out[leaf], v), MaxAmount)
			}
		}
	}
	return out
}

// markets divides all pools into markets.
func (s *sharing) markets() []Market {
	all := Market{Pools: math.MaxUint64 >> (MostPools - len(s.f.Pools))}
	for i := range s.f.Classes {
		// Work that can use none of the pools counts only as usage.
		if s.f.Classes[i].Reach != 0 && len(s.asks[i]) > 0 {
			all.classes = append(all.classes, i)
		}
	}
	var out []Market
	scarce, plenty := s.cut(all, s.byDemand(&all))
	for _, m := range s.components(scarce) {
		out = append(out, s.refine(m)...)
	}
	if plenty.Pools != 0 {
		s.share(&plenty)
		out = append(out, plenty)
	}
	return out
}

// cut divides a market into two. The market scarce has the pools in the set short, and the classes
// that can use only these pools of the market. The market rest has the other pools and classes.
func (s *sharing) cut(m Market, short uint64) (scarce, rest Market) {
	scarce.Pools, rest.Pools = short, m.Pools&^short
	for _, i := range m.classes {
		if reach := s.f.Classes[i].Reach & m.Pools; reach&^short == 0 {
			scarce.classes = append(scarce.classes, i)
		} else {
			rest.classes = append(rest.classes, i)
		}
	}
	return scarce, rest
}

// byDemand returns the pools of a market that are too small for the work that can use only these
// pools.
func (s *sharing) byDemand(m *Market) uint64 {
	n := newNetwork(len(m.classes) + MostPools)
	for at, i := range m.classes {
		sum := int64(0)
		for _, v := range s.asks[i] {
			sum = min(Add(sum, v), MaxAmount)
		}
		n.join(source, firstInner+at, sum)
	}
	return s.short(n, m)
}

// byShares returns the pools of a market that are too small for the shares of queues whose work can
// use only these pools.
func (s *sharing) byShares(m *Market) uint64 {
	leaves := s.t.Len()
	n := newNetwork(len(m.classes) + MostPools + leaves)
	for leaf := range int32(leaves) {
		if s.t.Leaf(leaf) && m.Shares[leaf] > 0 {
			n.join(source, firstInner+len(m.classes)+MostPools+int(leaf), m.Shares[leaf])
		}
	}
	for at, i := range m.classes {
		for leaf, v := range s.asks[i] {
			n.join(firstInner+len(m.classes)+MostPools+int(leaf), firstInner+at, v)
		}
	}
	return s.short(n, m)
}

// short adds edges from the classes of a market to their pools, and from the pools to the sink. It
// returns the pools whose capacity limits the maximum flow.
func (s *sharing) short(n *network, m *Market) (short uint64) {
	pools := firstInner + len(m.classes)
	for at, i := range m.classes {
		for reach := s.f.Classes[i].Reach & m.Pools; reach != 0; reach &= reach - 1 {
			n.join(firstInner+at, pools+bits.TrailingZeros64(reach), math.MaxInt64/2)
		}
	}
	for left := m.Pools; left != 0; left &= left - 1 {
		pool := bits.TrailingZeros64(left)
		n.join(pools+pool, sink, s.capacity(1<<pool))
	}
	n.maximize()
	for left := m.Pools; left != 0; left &= left - 1 {
		if pool := bits.TrailingZeros64(left); n.short(pools + pool) {
			short |= 1 << pool
		}
	}
	return short
}

// components divides a market into parts. Two pools are in the same part if a class of work can use
// both.
func (s *sharing) components(m Market) (out []Market) {
	for left := m.Pools; left != 0; {
		pools := left & -left
		for grown := uint64(0); grown != pools; {
			grown = pools
			for _, i := range m.classes {
				if reach := s.f.Classes[i].Reach & m.Pools; reach&pools != 0 {
					pools |= reach
				}
			}
		}
		one, _ := s.cut(Market{Pools: m.Pools, classes: m.classes}, pools)
		out = append(out, one)
		left &^= pools
	}
	return out
}

// refine divides a market further, while the work of some queue cannot use enough pools to reach
// the queue's share.
func (s *sharing) refine(m Market) []Market {
	s.share(&m)
	if bits.OnesCount64(m.Pools) < 2 || len(m.classes) < 2 {
		return []Market{m}
	}
	short := s.byShares(&m)
	if short == 0 || short == m.Pools {
		return []Market{m}
	}
	scarce, rest := s.cut(m, short)
	return append(s.refine(scarce), s.refine(rest)...)
}

// share divides the capacity of a market among the queues. The demand is the waiting work that
// counts in the market, plus all usage in its pools. Usage in other pools already uses a part of
// the queue's quota, so it is subtracted from the quota.
func (s *sharing) share(m *Market) {
	queues := s.t.Len()
	demand, used := make([]int64, queues), make([]int64, queues)
	for pools := m.Pools; pools != 0; pools &= pools - 1 {
		for leaf, a := range s.f.Pools[bits.TrailingZeros64(pools)].Used {
			used[leaf] = Add(used[leaf], s.in(a))
		}
	}
	copy(demand, used)
	for _, i := range m.classes {
		for leaf, a := range s.f.Classes[i].Waiting {
			demand[leaf] = min(Add(demand[leaf], s.in(a)), MaxAmount)
		}
	}
	for q := queues - 1; q >= 0; q-- {
		if p := s.t.nodes[q].parent; p >= 0 {
			used[p] = Add(used[p], used[q])
		}
		s.shares[q][s.resource] = 0
	}
	d := &division{
		t: s.t, resource: s.resource, wanted: s.t.wantedOf(s.resource, demand, s.wanted), quotas: s.carried, shares: s.shares,
		elsewhere: func(q int32) int64 { return max(s.in(s.f.Allocated[q])-used[q], 0) },
	}
	d.all(s.capacity(m.Pools))
	m.Shares = make([]int64, queues)
	for q := range m.Shares {
		m.Shares[q] = s.shares[q][s.resource]
	}
}
