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
// free room by node, and a nodeColumn for each node. A [Cluster] keeps columns between decisions.
// For a Snapshot without a Cluster, each decision builds new columns.
type columns struct {
	dims int
	// free is the room of each node now, with dims values per node. later is the room after the
	// terminating pods are gone, in the same layout.
	free, later []int64
	// all is the sum of the requests of each node's units, with dims values per node. The
	// nodeColumn has this sum too, but most questions about a node need only all and top.
	all []int64
	// top is the highest priority of each node's units.
	top []int64
	// widest is the most room that the eviction of a single unit can free, with dims values per
	// node. It gives a lower bound of the number of victims.
	widest []int64
	// lowest is the lowest priority of each node's units.
	lowest []int32
	// sound is true for the nodes with all quantities in range. The search ignores the other nodes.
	sound []bool
	nodes []nodeColumn
	// sites locates each unit with one pod: its node, and its position in the node's nodeColumn.
	// See the method lone.
	sites []site
	// byName lists the indexes of the existing nodes, sorted by name. rank is the position of each
	// node in byName; it breaks ties between nodes.
	byName, rank []int32
	// perPriority maps a priority to its number of units.
	perPriority map[int32]int
	// budgeted is true if any unit has a disruption budget. spanning is true if any unit has more
	// than one pod.
	budgeted, spanning bool
	// having lists the units with each trait.
	having traitIndex
	// minRuntimes counts the units by their profile's min-runtimes.
	minRuntimes minRuntimeIndex
	// index has the units' leaf queues; nil without a Cluster or without queues.
	index *leafIndex
	// groups lists the units of each PodGroup by its UID; nil without a Cluster.
	groups map[string][]int32
	// losses has the parts of lost work that do not depend on the current time. It is nil for a
	// search over only some units.
	losses *lossTables
	// lent is a pool of memory for searches over only some units.
	lent *sync.Pool
}

// nodeColumn holds the units with pods on one node, the least important first.
type nodeColumn struct {
	units      []int32
	priorities []int32
	// starts are the start times of the units. A unit that has not started has the latest possible
	// time.
	starts []int64
	// sums has the room that the eviction of the first k units frees, for each k from 0 to the
	// number of units. There are dims values for each k.
	sums []int64
	// surplus is the number of surplus pods of all units.
	surplus int
	// alone is true if each unit has only one pod. The nodeColumn then has all data of its units
	// that a search needs, except surplus.
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
		// Read the units from entries: if a quantity is out of range, the nodeColumn lists no
		// units.
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

// locate records the positions of the units of node n in sites.
func (c *columns) locate(n int32) {
	for i, u := range c.nodes[n].units {
		c.sites[u] = site{node: n, pos: int32(i)}
	}
}

// lone returns the nodeColumn with the unit's node, and the unit's position in it. The nodeColumn
// then has all properties of the unit. It returns false if the node has a unit with several pods.
// The caller must then read the Unit itself.
func (c *columns) lone(unit int32) (col *nodeColumn, at site, ok bool) {
	at = c.sites[unit]
	if int(at.node) >= len(c.nodes) {
		return nil, at, false
	}
	col = &c.nodes[at.node]
	return col, at, col.alone && int(at.pos) < len(col.units) && col.units[at.pos] == unit
}

// entry is the part of a unit on the node of a columnBuilder. row is its position in
// columnBuilder.rows.
type entry struct {
	unit int32
	row  int32
}

// columnBuilder builds one nodeColumn at a time. It reuses its memory for the next node.
type columnBuilder struct {
	s    *Snapshot
	dims int
	rows []int64
}

// add adds a pod of a unit to the entries of the current node.
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

// column sorts entries into a nodeColumn. It sets widest to the most room that the eviction of a
// single unit frees. It returns false if any sum is out of range.
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

// grow allocates entries for additional nodes.
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

// sortNodes sorts the existing nodes by name. Nodes with equal names keep their order.
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

// count returns the number of units on the node with a priority lower than below.
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

// sum returns the room that the eviction of the first k units in the column frees.
func (col *nodeColumn) sum(k, dims int) []int64 { return col.sums[k*dims:][:dims] }
