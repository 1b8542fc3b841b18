package core

import (
	"math"
	"sync"
)

// scratch is memory for a restricted search. Later decisions use it again.
type scratch struct {
	ranks  []int32
	orders []int64
	// sheet has the columns of the restricted search. used has the nodes that have units in sheet.
	sheet *columns
	used  []int32
	// nothing is the vector of sums for a node without units.
	nothing []int64
	numbers slab[int32]
	amounts slab[int64]
}

// borrow returns memory for one restricted search. No other search uses the memory before handBack
// is called.
func (c *columns) borrow() *scratch {
	if m, ok := c.lent.Get().(*scratch); ok {
		return m
	}
	return &scratch{}
}

func (c *columns) handBack(m *scratch) { c.lent.Put(m) }

// grades returns slices for the ranks and orders of units. Each rank starts as rankSafe, so no unit
// is a potential victim.
func (m *scratch) grades(units int) ([]int32, []int64) {
	if cap(m.ranks) < units {
		m.ranks, m.orders = make([]int32, units), make([]int64, units)
	}
	m.ranks, m.orders = m.ranks[:units], m.orders[:units]
	for i := range m.ranks {
		m.ranks[i] = rankSafe
	}
	return m.ranks, m.orders
}

// blank returns columns with the same nodes as beside, but without units.
func (m *scratch) blank(beside *columns, units int) *columns {
	nodes, dims := len(beside.nodes), beside.dims
	d := m.sheet
	if d == nil || len(d.nodes) != nodes || d.dims != dims {
		d = &columns{lent: &sync.Pool{}, dims: dims, perPriority: make(map[int32]int)}
		d.grow(nodes)
		m.sheet, m.nothing, m.used = d, make([]int64, dims), m.used[:0]
		for n := range d.nodes {
			m.empty(d, int32(n))
		}
	}
	for _, n := range m.used {
		m.empty(d, n)
	}
	m.used = m.used[:0]
	m.numbers.reset()
	m.amounts.reset()
	clear(d.perPriority)
	if cap(d.sites) < units {
		d.sites = make([]site, units)
	}
	d.sites = d.sites[:units]
	d.free, d.later, d.byName, d.rank, d.sound = beside.free, beside.later, beside.byName, beside.rank, beside.sound
	d.budgeted, d.spanning = beside.budgeted, beside.spanning
	return d
}

func (m *scratch) empty(d *columns, n int32) {
	at := int(n) * d.dims
	d.nodes[n], d.lowest[n], d.top[n] = nodeColumn{sums: m.nothing}, math.MaxInt32, math.MinInt64
	clear(d.all[at : at+d.dims])
	clear(d.widest[at : at+d.dims])
}

// slab allocates memory in large blocks and returns pieces of the blocks.
type slab[T any] struct {
	chunks [][]T
	next   int
	left   []T
}

// slabSize is the number of elements that a slab allocates at once.
const slabSize = 1 << 14

// take returns a slice with n elements. The elements have undefined values.
func (s *slab[T]) take(n int) []T {
	if len(s.left) < n {
		if s.next == len(s.chunks) {
			s.chunks = append(s.chunks, nil)
		}
		if len(s.chunks[s.next]) < n {
			s.chunks[s.next] = make([]T, max(n, slabSize))
		}
		s.left = s.chunks[s.next]
		s.next++
	}
	out := s.left[:n:n]
	s.left = s.left[n:]
	return out
}

// reset makes the memory of all pieces available again.
func (s *slab[T]) reset() { s.next, s.left = 0, nil }
