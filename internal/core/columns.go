package core

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// columns hold the data of a Snapshot that a search reads. They have flat vectors of room by node,
// and each node's units by importance, with running sums of their requests. A [Cluster] keeps them
// between decisions. For a Snapshot without a Cluster, they are built for each decision.
type columns struct {
	dims int
	// free is each node's room now; later is its room once the terminating pods are gone. Each node
	// has dims values.
	free, later []int64
	// all is the sum of each node's units, and top the highest priority among them. Both follow
	// from the column, but most questions about a node need only these two.
	all []int64
	top []int64
	// widest is the most room that a single unit of each node would free, by resource. It bounds
	// the cost of the node. lowest is the lowest priority among its units.
	widest []int64
	lowest []int32
	// sound marks the nodes whose quantities are all within range. Other nodes are left out of the
	// search.
	sound []bool
	nodes []nodeColumn
	// sites has the place of units with one pod; see lone.
	sites []site
	// byName lists the live nodes by name. rank is the inverse and breaks ties between nodes.
	byName, rank []int32
	// perPriority counts the units of each priority.
	perPriority map[int32]int
	// budgeted is true if some unit draws on a budget, spanning if some unit has more than one pod.
	budgeted, spanning bool
	// having has the units of each trait.
	having traitIndex
	// minRuntimes counts the units by their profile's min-runtimes.
	minRuntimes minRuntimeIndex
	// index has the units' leaf queues; nil without an index.
	index *leafIndex
	// groups lists the units of each PodGroup by its UID; nil without an index.
	groups map[string][]int32
	// losses has the parts of lost work that do not depend on the decision. A restricted view has
	// none.
	losses *lossTables
	// lent is memory for restricted views.
	lent *sync.Pool
}

// nodeColumn holds the units with pods on one node, least important first.
type nodeColumn struct {
	units      []int32
	priorities []int32
	// starts are the units' start times; a unit that has not started counts as the latest.
	starts []int64
	// sums has dims values for every prefix of units, the empty one included: the room that
	// evicting the prefix frees.
	sums []int64
	// surplus is how many pods of the units are surplus.
	surplus int
	// alone is true if every unit has only one pod. The column then has all facts about its units,
	// except surplus.
	alone bool
}

// site is a unit's place in the columns: a node, and a position in its column.
type site struct{ node, pos int32 }

// set rebuilds the column of a node. The node's room must be up to date.
func (c *columns) set(n int32, b *columnBuilder, entries []entry) {
	at := int(n) * c.dims
	c.nodes[n], c.sound[n] = b.column(entries, c.later[at:at+c.dims], c.widest[at:at+c.dims])
	c.sumUp(n)
	c.locate(n)
	for _, e := range entries {
		// The column of a node with quantities out of range has no units.
		c.losses.forget(e.unit)
	}
	c.losses.touch(n)
}

// sumUp copies the sums and priorities that most questions need from a node's column.
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

// lone returns the column that has all facts about a unit, and the unit's position. It returns
// false for a unit with several pods, and if the column has any such unit. The caller must then
// read the unit itself.
func (c *columns) lone(unit int32) (col *nodeColumn, at site, ok bool) {
	at = c.sites[unit]
	if int(at.node) >= len(c.nodes) {
		return nil, at, false
	}
	col = &c.nodes[at.node]
	return col, at, col.alone && int(at.pos) < len(col.units) && col.units[at.pos] == unit
}

// entry is one unit's part of a node while a column is built.
type entry struct {
	unit int32
	row  int32
}

// columnBuilder builds node columns. It reuses its scratch space between nodes.
type columnBuilder struct {
	s    *Snapshot
	dims int
	rows []int64
}

// add adds a pod of a unit to the entries of its node.
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

// column sorts the entries of a node into its column and reports whether all sums are within range
// of the node's room. It sets widest to the most that one unit would free.
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

// fill builds the columns of all nodes. The nodes' room must be up to date.
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

// count returns how many units of the column have a priority below the given one.
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

// sum returns the room that evicting the first k units of the column frees.
func (col *nodeColumn) sum(k, dims int) []int64 { return col.sums[k*dims:][:dims] }
