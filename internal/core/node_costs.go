package core

import (
	"cmp"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/heap"
)

// nodeCosts frees room for the members of one class at the lowest cost. Each node has an option: a
// set of units to evict there, and the gain, which is the number of additional members that fit.
// The gain counts additional members on all nodes, because the eviction of a group frees room on
// each of its nodes. The search takes the option with the lowest cost per member until all members
// have room.
type nodeCosts struct {
	*counter
	x     *nodeVictims
	level int64
	// touched is a version number for each node. It rises when room on the node changes, so that
	// older options of the node are known to be outdated.
	touched []int32
	chosen  []int32
	options heap.Heap[option]
	// scratch is memory for lists of nodes. stamps marks the nodes that are already in the current
	// list.
	scratch, stamps []int32
	stamp           int32
	base            []int64
	// known caches the gain of sets of units with pods on many nodes, which takes long to compute.
	// It is nil if the gains are fast to compute.
	known *knownGains
	// slab is memory for the lists of units in options.
	slab slab[int32]
}

// option is a set of units on one node whose eviction makes more members fit.
type option struct {
	node  int32
	seen  int32
	gain  int
	score Score
	// broken, lost and cost are the number of broken budgets, the lost work and the sum of
	// priorities. Each is divided by gain.
	broken, lost, cost float64
	units              []int32
}

func newNodeCosts(t *simulation, w want, level int32, draw *budgetDraw) *nodeCosts {
	m := &nodeCosts{
		counter: newCounter(t, w), x: newNodeVictims(t.problem, draw), level: int64(level),
		touched: make([]int32, len(t.s.Nodes)), base: make([]int64, t.dims),
	}
	m.options.Before = func(a, b *option) bool {
		return cmp.Or(dearer(a, b), cmp.Compare(m.c.rank[a.node], m.c.rank[b.node])) < 0
	}
	if m.room() {
		return m
	}
	if m.isWide() {
		m.known = &knownGains{}
	}
	m.lookAtAll()
	return m
}

// lookAtAll computes the options of all nodes.
func (m *nodeCosts) lookAtAll() {
	m.options.Items = make([]option, 0, len(m.c.byName))
	for _, n := range m.c.byName {
		if o, ok := m.option(n); ok {
			m.options.Items = append(m.options.Items, o)
		}
	}
	m.options.Init()
}

// choose takes options until all wanted members have room. It returns false if no option is left
// before that.
func (m *nodeCosts) choose() bool {
	for !m.room() {
		if len(m.options.Items) == 0 {
			return false
		}
		o := m.options.Items[0]
		switch fresh, changed, ok := m.renew(o); {
		case !ok:
			m.options.Pop()
		case changed:
			m.options.Replace(fresh)
		default:
			m.options.Pop()
			m.take(o)
		}
	}
	return true
}

// renew computes an option again if its node or the number of missing members has changed. changed
// is true if the result differs from o.
func (m *nodeCosts) renew(o option) (fresh option, changed, ok bool) {
	if o.seen == m.touched[o.node] && o.gain <= m.need-m.total && m.x.draw == nil {
		return o, false, true
	}
	fresh, ok = m.option(o.node)
	return fresh, ok && (fresh.gain != o.gain || fresh.score != o.score || !slices.Equal(fresh.units, o.units)), ok
}

// take evicts the units of an option. It computes new options for all nodes of these units.
func (m *nodeCosts) take(o option) {
	for _, u := range o.units {
		m.remove(u)
		m.chosen = append(m.chosen, u)
		if m.x.draw != nil {
			m.x.draw.settle(u)
		}
	}
	for _, n := range slices.Clone(m.nodesOf(o.units)) {
		m.touched[n]++
		if fresh, ok := m.option(n); ok {
			m.options.Push(fresh)
		}
	}
}

// giveBack restores the chosen units on node n, except units with pods on other nodes.
func (m *nodeCosts) giveBack(n int32) {
	m.chosen = slices.DeleteFunc(m.chosen, func(u int32) bool {
		if slices.ContainsFunc(m.s.Units[u].Pods, func(p Pod) bool { return int32(p.Node) != n }) {
			return false
		}
		m.restore(u)
		if m.x.draw != nil {
			m.x.draw.unsettle(u)
		}
		return true
	})
}

// nodesOf lists the distinct nodes of the given units. The result is valid until the next call.
func (m *nodeCosts) nodesOf(units []int32) []int32 {
	nodes := m.scratch[:0]
	if m.stamps == nil {
		m.stamps = make([]int32, len(m.s.Nodes))
	}
	m.stamp++
	add := func(n int32) {
		if m.stamps[n] != m.stamp {
			m.stamps[n] = m.stamp
			nodes = append(nodes, n)
		}
	}
	for _, u := range units {
		if _, at, ok := m.c.lone(u); ok {
			add(at.node)
			continue
		}
		pods := m.s.Units[u].Pods
		for i := range pods {
			if n := pods[i].Node; n >= 0 {
				add(int32(n))
			}
		}
	}
	m.scratch = nodes
	return nodes
}

// option returns the option of node n with the lowest cost per member. It considers each number of
// members up to the maximum for the node.
func (m *nodeCosts) option(n int32) (option, bool) {
	now := int(m.caps[n])
	missing := m.need - m.total
	if now >= m.need || missing <= 0 || !m.c.sound[n] {
		return option{}, false
	}
	col, free := m.column(n), m.freeOf(n)
	potential := m.x.potential[:0]
	copy(m.base, free)
	for i := range col.count(min(m.level+1, m.victims.below)) {
		if m.out[col.units[i]] {
			continue
		}
		potential = append(potential, int32(i))
		before, after := col.sum(i, m.dims), col.sum(i+1, m.dims)
		for r := range m.base {
			m.base[r] += after[r] - before[r]
		}
	}
	m.x.potential = potential
	most := howMany(m.wanted[m.class], m.base, now+missing)
	if limit, ok := m.limits[n]; ok {
		most = min(most, limit)
	}
	if most <= now || !m.admitsNode(m.class, n) {
		return option{}, false
	}
	return m.cheapestOption(n, now+1, most, potential)
}

// cheapestOption returns the option with the lowest cost per member, for numbers of members between
// from and to. If a set contains units with pods on several nodes, it tries only the numbers from
// and to, because the gain takes long to compute.
func (m *nodeCosts) cheapestOption(n int32, from, to int, potential []int32) (best option, ok bool) {
	col := m.column(n)
	exact := m.x.load(col, potential, m.wanted[m.class], m.level)
	single := func(pos int32) bool { return m.x.podsAt(col, pos) == 1 }
	every := col.alone || slices.ContainsFunc(potential, single)
	for count := from; count <= to; count++ {
		inner := from < count && count < to
		if inner && !every {
			continue
		}
		set, score, found := m.victimsFor(n, count, potential, exact)
		if !found || inner && !col.alone && slices.ContainsFunc(set, func(pos int32) bool { return !single(pos) }) {
			continue
		}
		if o, more := m.optionOf(n, set, score); more && (!ok || dearer(&best, &o) > 0) {
			best, ok = o, true
		}
	}
	return best, ok
}

// victimsFor returns the cheapest set of units to evict so that node n holds count members.
func (m *nodeCosts) victimsFor(n int32, count int, potential []int32, exact bool) ([]int32, Score, bool) {
	for r, v := range m.wanted[m.class] {
		m.base[r] = v * int64(count)
	}
	if exact {
		return m.x.covering(m.freeOf(n), m.base)
	}
	return m.x.solve(m.column(n), m.freeOf(n), m.base, potential)
}

// optionOf returns the option that evicts the units at the positions in set on node n.
func (m *nodeCosts) optionOf(n int32, set []int32, score Score) (option, bool) {
	col := m.column(n)
	o := option{node: n, seen: m.touched[n], score: score, units: m.keep(col, set)}
	switch {
	case col.alone:
		o.gain = m.gainHere(n, col, set)
	case m.known == nil:
		o.gain = m.gain(o.units)
	default:
		var known bool
		if o.gain, known = m.knownGain(o.units); !known {
			o.gain = m.gainHere(n, col, set)
		}
	}
	o.gain = min(o.gain, m.need-m.total)
	if o.gain <= 0 {
		return option{}, false
	}
	gain := float64(o.gain)
	o.broken, o.lost, o.cost = float64(score.BrokenBudgets)/gain, float64(score.LostWork)/gain, float64(score.PrioritySum)/gain
	return o, true
}

// keep returns the units at the given positions. The result is valid until the end of the search.
func (m *nodeCosts) keep(col *nodeColumn, set []int32) []int32 {
	units := m.slab.take(len(set))
	for i, pos := range set {
		units[i] = col.units[pos]
	}
	return units
}

// gainHere is like gain, but counts additional members only on node n. If units have pods on other
// nodes, the result is a lower bound.
func (m *nodeCosts) gainHere(n int32, col *nodeColumn, set []int32) int {
	free := m.freeOf(n)
	move := func(sign int64) {
		for _, pos := range set {
			before, after := col.sum(int(pos), m.dims), col.sum(int(pos)+1, m.dims)
			for r := range free {
				free[r] += sign * (after[r] - before[r])
			}
		}
	}
	move(1)
	gain := m.roomAt(n) - int(m.caps[n])
	move(-1)
	return gain
}

// gain returns the number of additional members that fit, on all nodes together, if the given units
// are evicted.
func (m *nodeCosts) gain(units []int32) int {
	for _, u := range units {
		m.shift(u, 1)
	}
	gain := 0
	for _, n := range m.nodesOf(units) {
		gain += m.roomAt(n) - int(m.caps[n])
	}
	for _, u := range units {
		m.shift(u, -1)
	}
	return gain
}

// dearer compares options by their cost per additional member. It does not compare the highest
// priorities of victims, because the ceiling already bounds the priority of every victim.
func dearer(a, b *option) int {
	return cmp.Or(
		cmp.Compare(a.broken, b.broken),
		cmp.Compare(a.lost, b.lost),
		cmp.Compare(a.cost, b.cost),
		cmp.Compare(b.score.Surplus*a.gain, a.score.Surplus*b.gain),
		cmp.Compare(a.score.Repeated*b.gain, b.score.Repeated*a.gain),
		cmp.Compare(a.score.HighestPriority, b.score.HighestPriority),
		cmp.Compare(b.score.EarliestStart, a.score.EarliestStart),
		cmp.Compare(b.gain, a.gain),
	)
}
