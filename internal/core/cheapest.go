package core

import (
	"cmp"
	"slices"
)

// market finds room for the members of one class where it costs least. Every node makes an offer: which
// units would have to go for how many members more, in total, since a group that goes makes room on all its
// nodes. The best offer per member is taken until there is room for all.
type market struct {
	*counter
	x     *clearing
	level int64
	// touched counts the changes around a node, so that outdated offers are noticed.
	touched []int32
	sunk    []int32
	offers  heap[offer]
	scratch []int32
	base    []int64
	// slab is where offers keep their units.
	slab slab[int32]
	// lastResort is set when members may also stand where other potential victims are in their way.
	lastResort bool
}

// offer is what it costs to make room for more members on one node.
type offer struct {
	node  int32
	seen  int32
	gain  int
	score Score
	// broken and cost are what each member gained costs, in budgets and in priorities.
	broken, cost float64
	units        []int32
}

func newMarket(t *trial, w want, level int32) *market {
	m := &market{
		counter: newCounter(t, w), x: newClearing(t.view), level: int64(level),
		touched: make([]int32, len(t.s.Nodes)), base: make([]int64, t.dims),
	}
	m.offers.before = func(a, b *offer) bool {
		return cmp.Or(dearer(a, b), cmp.Compare(m.c.rank[a.node], m.c.rank[b.node])) < 0
	}
	if m.room() {
		return m
	}
	m.offers.items = make([]offer, 0, len(t.c.byName))
	for _, n := range t.c.byName {
		if o, ok := m.offer(n); ok {
			m.offers.items = append(m.offers.items, o)
		}
	}
	m.offers.init()
	return m
}

// buy takes offers until there is room for everything wanted. It reports false where there is none.
func (m *market) buy() bool {
	for !m.room() {
		if len(m.offers.items) == 0 {
			return false
		}
		o := m.offers.items[0]
		switch fresh, changed, ok := m.renew(o); {
		case !ok:
			m.offers.pop()
		case changed:
			m.offers.replace(fresh)
		default:
			m.offers.pop()
			m.take(o)
		}
	}
	return true
}

// renew makes an offer again if anything around its node, or the number still needed, has changed.
func (m *market) renew(o offer) (fresh offer, changed, ok bool) {
	if o.seen == m.touched[o.node] && o.gain <= m.need-m.total && m.x.draw == nil {
		return o, false, true
	}
	fresh, ok = m.offer(o.node)
	return fresh, ok && (fresh.gain != o.gain || fresh.score != o.score || !slices.Equal(fresh.units, o.units)), ok
}

// take lets the units of an offer go. The nodes that this makes cheaper make their offers anew.
func (m *market) take(o offer) {
	for _, u := range o.units {
		m.remove(u)
		m.sunk = append(m.sunk, u)
		if m.x.draw != nil {
			m.x.draw.evict(u)
		}
	}
	for _, n := range slices.Clone(m.nodesOf(o.units)) {
		m.touched[n]++
		if fresh, ok := m.offer(n); ok {
			m.offers.push(fresh)
		}
	}
}

// nodesOf lists the nodes that some units stand on, each once, in scratch space that the next call overwrites.
func (m *market) nodesOf(units []int32) []int32 {
	nodes := m.scratch[:0]
	for _, u := range units {
		if _, at, ok := m.c.lone(u); ok {
			nodes = append(nodes, at.node)
			continue
		}
		pods := m.s.Units[u].Pods
		for i := range pods {
			if n := pods[i].Node; n >= 0 {
				nodes = append(nodes, int32(n))
			}
		}
	}
	if len(nodes) > 1 {
		slices.Sort(nodes)
		nodes = slices.Compact(nodes)
	}
	m.scratch = nodes
	return nodes
}

// offer works out what a node can do: room for one more member, or for as many more as it could ever hold,
// whichever costs less per member.
func (m *market) offer(n int32) (offer, bool) {
	now := int(m.caps[n])
	missing := m.need - m.total
	if now >= m.need || missing <= 0 || !m.c.sound[n] {
		return offer{}, false
	}
	col, free := m.column(n), m.freeOf(n)
	candidates := m.x.candidates[:0]
	copy(m.base, free)
	for i := range col.count(min(m.level+1, m.sus.below)) {
		if m.out[col.units[i]] {
			continue
		}
		candidates = append(candidates, int32(i))
		before, after := col.sum(i, m.dims), col.sum(i+1, m.dims)
		for r := range m.base {
			m.base[r] += after[r] - before[r]
		}
	}
	m.x.candidates = candidates
	most := howMany(m.wanted[m.class], m.base, now+missing)
	if limit, ok := m.limits[n]; ok {
		most = min(most, limit)
	}
	if most <= now || !m.admitsNode(m.class, n) {
		return offer{}, false
	}
	best, ok := m.offerFor(n, now+1, candidates)
	if most > now+1 {
		if all, okAll := m.offerFor(n, most, candidates); okAll && (!ok || dearer(&best, &all) > 0) {
			best, ok = all, true
		}
	}
	return best, ok
}

// offerFor is the cheapest offer of a node with which it holds count members.
func (m *market) offerFor(n int32, count int, candidates []int32) (offer, bool) {
	for r, v := range m.wanted[m.class] {
		m.base[r] = v * int64(count)
	}
	col := m.column(n)
	set, score, ok := m.x.solve(col, m.freeOf(n), m.base, candidates)
	if !ok {
		return offer{}, false
	}
	o := offer{node: n, seen: m.touched[n], score: score, units: m.keep(col, set)}
	if col.alone {
		o.gain = m.gainHere(n, col, set)
	} else {
		o.gain = m.gain(o.units)
	}
	o.gain = min(o.gain, m.need-m.total)
	if o.gain <= 0 {
		return offer{}, false
	}
	o.broken, o.cost = float64(score.BrokenBudgets)/float64(o.gain), float64(score.PrioritySum)/float64(o.gain)
	return o, true
}

// keep lists the units at some positions of a column, for as long as the market goes on.
func (m *market) keep(col *nodeColumn, set []int32) []int32 {
	units := m.slab.take(len(set))
	for i, pos := range set {
		units[i] = col.units[pos]
	}
	return units
}

// gainHere is gain for units that stand nowhere but on one node.
func (m *market) gainHere(n int32, col *nodeColumn, set []int32) int {
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

// gain is how many members more there is room for, over all nodes, once some units are gone.
func (m *market) gain(units []int32) int {
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

// dearer orders offers by what they cost per member gained. The ceiling has settled the highest priority for
// the whole preemption already.
func dearer(a, b *offer) int {
	return cmp.Or(
		cmp.Compare(a.broken, b.broken),
		cmp.Compare(a.cost, b.cost),
		cmp.Compare(a.score.HighestPriority, b.score.HighestPriority),
		cmp.Compare(b.score.EarliestStart, a.score.EarliestStart),
		cmp.Compare(b.gain, a.gain),
	)
}
