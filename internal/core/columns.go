package core

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// columns hold the data of a Snapshot in the form that a search reads. They have flat vectors of
// free room by node. For each node they have its units by importance, with running sums of their
// requests. A [Cluster] keeps columns between decisions. A Snapshot without a Cluster builds them
// for each decision.
type columns struct {
	dims int
	// free is the room of each node now, and later its room after the terminating pods are gone.
	// Both have dims values for each node.
	free, later []int64
	// all is the sum of the requests of each node's units, and top is the highest priority among
	// them. They repeat data of the nodeColumn, because most questions about a node need only these
	// two.
	all []int64
	top []int64
	// widest is, for each node and resource, the most room that a single one of its units would
	// free. It bounds how few units must be evicted. lowest is the lowest priority among the units.
	widest []int64
	lowest []int32
	// sound marks the nodes whose quantities are all within range. The search ignores all other
	// nodes.
	sound []bool
	nodes []nodeColumn
	// sites has the node and position of each unit with one pod; see lone.
	sites []site
	// byName lists the existing nodes by name. rank is the position of each node in that list and
	// breaks ties between nodes.
	byName, rank []int32
	// perPriority counts the units of each priority.
	perPriority map[int32]int
	// budgeted is true if any unit has a disruption budget, spanning if any unit has more than one
	// pod.
	budgeted, spanning bool
	// having has the units of each trait.
	having traitIndex
	// minRuntimes counts the units by their profile's min-runtimes.
	minRuntimes minRuntimeIndex
	// index has the units' leaf queues; nil without an index.
	index *leafIndex
	// groups lists the units of each PodGroup by its UID; nil without an index.
	groups map[string][]int32
	// losses has the parts of lost work that are the same at any time. It is nil in the columns of
	// a search over some units only.
	losses *lossTables
	// lent is memory for restricted views.
	lent *sync.Pool
}

// nodeColumn holds the units with pods on one node, the least important first.
type nodeColumn struct {
	units      []int32
	priorities []int32
	// starts are the start times of the units. A unit that has not started has the latest possible
	// time.
	starts []int64
	// sums has dims values for each number of units, from 0 on. They are the room that the eviction
	// of the first units in the column, that many, frees.
	sums []int64
	// surplus counts the surplus pods of the units.
	surplus int
	// alone is true if each unit has only one pod. The nodeColumn then has all facts about its
	// units, except surplus.
	alone bool
}

// site is the place of a unit in the columns: the index of its node, and its position on that node.
type site struct{ node, pos int32 }

// set rebuilds the nodeColumn of node n. The free room of the node must be up to date.
func (c *columns) set(n int32, b *columnBuilder, entries []entry) {
	at := int(n) * c.dims
	c.nodes[n], c.sound[n] = b.column(entries, c.later[at:at+c.dims], c.widest[at:at+c.dims])
	c.sumUp(n)
	c.locate(n)
	for _, e := range entries {
		// A node with quantities out of range gets a nodeColumn without units.
		c.losses.forget(e.unit)
	}
	c.losses.touch(n)
}

// sumUp copies the sum of requests and the priorities from a node's nodeColumn into all, top and
// lowest.
func (c *columns) sumUp(n int32) {
	col := &c.nodes[n]
	copy(c.all[int(n)*c.dims:][:c.dims], col.sum(len(col.units), c.dims))
	c.lowest[n], c.top[n] = math.MaxInt32, math.MinInt64
	if l := len(col.priorities); l > 0 {
		c.lowest[n], c.top[n] = col.priorities[0], int64(col.priorities[l-1])
	}
}

// locate records the positions of a node's units.
func (c *columns) locate(n int32) {
	for i, u := range c.nodes[n].units {
		c.sites[u] = site{node: n, pos: int32(i)}
	}
}

// lone returns the nodeColumn that has all facts about a unit, and the unit's position in it. It
// returns false if the unit has several pods, or another unit of the node does. The caller must
// then read the Unit itself.
func (c *columns) lone(unit int32) (col *nodeColumn, at site, ok bool) {
	at = c.sites[unit]
	if int(at.node) >= len(c.nodes) {
		return nil, at, false
	}
	col = &c.nodes[at.node]
	return col, at, col.alone && int(at.pos) < len(col.units) && col.units[at.pos] == unit
}

// entry is the part of a unit on one node, while the nodeColumn is built.
type entry struct {
	unit int32
	row  int32
}

// columnBuilder builds a nodeColumn. It reuses its memory for one node after the other.
type columnBuilder struct {
	s    *Snapshot
	dims int
	rows []int64
}

// add adds a pod of a unit to the entries of the node that is being built.
func (b *columnBuilder) add(entries []entry, unit int32, request Amounts) []entry {
	if l := len(entries); l == 0 || entries[l-1].unit != unit {
		entries = append(entries, entry{unit: unit, row: int32(len(b.rows) / max(b.dims, 1))})
		b.rows = append(b.rows, make([]int64, b.dims)...)
	}
	row := b.rows[int(entries[len(entries)-1].row)*b.dims:][:b.dims]
	for r, v := range request {
		row[r] = fairshare.Add(row[r], fairshare.Used(v))
	}
	return entries
}

// column sorts entries into the nodeColumn of a node, and sets widest to the most room that one
// unit would free. It reports whether all sums are within range.
func (b *columnBuilder) column(entries []entry, free, widest []int64) (nodeColumn, bool) {
	n := len(entries)
	slices.SortFunc(entries, func(x, y entry) int { return -compareUnits(b.s, x.unit, y.unit) })
	numbers := make([]int32, 2*n)
	amounts := make([]int64, n+(n+1)*b.dims)
	starts := amounts[:n:n]
	amounts = amounts[n:]
	col := nodeColumn{
		units: numbers[:n:n], priorities: numbers[n:], starts: starts,
		sums: amounts, alone: true,
	}
	clear(widest)
	for i, e := range entries {
		u := &b.s.Units[e.unit]
		col.alone = col.alone && len(u.Pods) == 1
		col.surplus += u.surplusPods()
		col.units[i], col.priorities[i], starts[i] = e.unit, u.Priority, startOrLast(u.Start)
		row := b.rows[int(e.row)*b.dims:][:b.dims]
		before, after := col.sums[i*b.dims:][:b.dims], col.sums[(i+1)*b.dims:][:b.dims]
		for r, v := range row {
			after[r] = fairshare.Add(before[r], v)
			widest[r] = max(widest[r], v)
		}
	}
	for r, v := range col.sums[n*b.dims:] {
		if v > maxAmount || free[r] > maxAmount || free[r] < -maxAmount {
			return nodeColumn{sums: make([]int64, b.dims)}, false
		}
	}
	return col, true
}

// grow allocates the columns of more nodes.
func (c *columns) grow(nodes int) {
	c.nodes = append(c.nodes, make([]nodeColumn, nodes)...)
	c.sound = append(c.sound, make([]bool, nodes)...)
	c.all = append(c.all, make([]int64, nodes*c.dims)...)
	c.top = append(c.top, make([]int64, nodes)...)
	c.widest = append(c.widest, make([]int64, nodes*c.dims)...)
	c.lowest = append(c.lowest, make([]int32, nodes)...)
}

// newColumns builds the columns of a Snapshot.
func newColumns(s *Snapshot) *columns {
	dims, n := len(s.Resources), len(s.Nodes)
	c := &columns{
		lent: &sync.Pool{},
		dims: dims, free: make([]int64, n*dims), later: make([]int64, n*dims),
		perPriority: make(map[int32]int), having: newTraitIndex(), minRuntimes: make(minRuntimeIndex),
		sites: make([]site, len(s.Units)), losses: newLossTables(),
	}
	c.grow(n)
	for i := range s.Nodes {
		for r, v := range s.Nodes[i].Free {
			c.free[i*dims+r], c.later[i*dims+r] = roomAmount(v), roomAmount(v)
		}
	}
	for i := range s.Leaving {
		if p := &s.Leaving[i]; p.Node >= 0 {
			addTo(c.later[p.Node*dims:][:dims], p.Request)
		}
	}
	c.fill(s)
	c.sortNodes(s)
	return c
}

// fill builds the nodeColumn of every node. The nodes' free room must be up to date.
func (c *columns) fill(s *Snapshot) {
	b := &columnBuilder{s: s, dims: c.dims}
	entries := make([][]entry, len(s.Nodes))
	for u := range s.Units {
		unit := &s.Units[u]
		c.perPriority[unit.Priority]++
		c.spanning = c.spanning || len(unit.Pods) > 1
		c.having.note(int32(u), unit)
		c.minRuntimes.add(unit.MinRuntime)
		for i := range unit.Pods {
			p := &unit.Pods[i]
			c.budgeted = c.budgeted || len(p.Budgets) > 0
			if p.Node >= 0 {
				entries[p.Node] = b.add(entries[p.Node], int32(u), p.Request)
			}
		}
	}
	for i := range s.Nodes {
		c.set(int32(i), b, entries[i])
	}
}

func addTo(room []int64, request Amounts) {
	for r, v := range request {
		room[r] = fairshare.Add(room[r], fairshare.Used(v))
	}
}

// sortNodes orders the live nodes by name, and by position where names are equal.
func (c *columns) sortNodes(s *Snapshot) {
	c.byName = make([]int32, 0, len(s.Nodes))
	for i := range s.Nodes {
		if !s.Nodes[i].gone {
			c.byName = append(c.byName, int32(i))
		}
	}
	byName := func(a, b int32) int {
		return cmp.Or(strings.Compare(s.Nodes[a].Name, s.Nodes[b].Name), cmp.Compare(a, b))
	}
	if !slices.IsSortedFunc(c.byName, byName) {
		slices.SortFunc(c.byName, byName)
	}
	c.rank = make([]int32, len(s.Nodes))
	for i, n := range c.byName {
		c.rank[n] = int32(i)
	}
}

// count returns the number of units on the node with a priority below the given one.
func (col *nodeColumn) count(below int64) int {
	lo, hi := 0, len(col.priorities)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if int64(col.priorities[mid]) < below {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// sum returns the room that the eviction of the first k units of the node frees.
func (col *nodeColumn) sum(k, dims int) []int64 { return col.sums[k*dims:][:dims] }
