package core

import (
	"cmp"
	"slices"
)

// cheapLanes places members of one class on nodes where evictions cost little. A lane is a group of
// nodes in the same domains of the class's topology spread constraints. Each lane gets the number
// of members of an even spread, and selects its own nodes.
type cheapLanes struct {
	t     *simulation
	w     want
	lanes *lanes
	cheap []cheapLane
	// on has the number of placed members by node.
	on []int
	// back lists the units that must keep running because members were placed next to them.
	back []int32
}

// cheapLane is a lane that selects its nodes by the cost of evictions.
type cheapLane struct {
	costs  *nodeCosts
	placed int
	// ready are the nodes with room for more members. putOff are nodes that rejected a member. They
	// are tried again when all other nodes are full.
	ready, putOff []int32
	// since is the number of members placed since the nodes in putOff were last tried. If
	// lastResort is true, the lane also uses nodes where the members' filters pass only after
	// further evictions.
	since      int
	lastResort bool
}

// newCheapLanes prepares the lanes of a class. In t, all potential victims must be removed. In
// plan, only the chosen victims must be removed, and draw must have settled them.
func newCheapLanes(t, plan *simulation, draw *budgetDraw, w want, level int32, within confinement) *cheapLanes {
	c := &cheapLanes{t: t, w: w, lanes: t.lanesOf(w.class, t.nodesFor(w.class, within)), on: make([]int, len(t.s.Nodes))}
	shares := c.evenly()
	for i := range c.lanes.lanes {
		l := &c.lanes.lanes[i]
		lane := newSimulation(plan.on(l.nodes), plan.free)
		copy(lane.out, plan.out)
		c.cheap = append(c.cheap, cheapLane{costs: newNodeCosts(lane, want{class: w.class, count: shares[i]}, level, draw)})
	}
	return c
}

// evenly returns the number of members for each lane, such that the spread over the domains is as
// even as the room allows.
func (c *cheapLanes) evenly() []int {
	ls := c.lanes.lanes
	shares := make([]int, len(ls))
	if len(ls) == 1 {
		shares[0] = c.w.count
		return shares
	}
	room := make([]int, len(ls))
	for i := range ls {
		for _, n := range ls[i].nodes {
			room[i] += c.t.roomFor(c.w.class, n, c.w.count)
		}
	}
	// more has, for each spread rule, a map from the domain to the number of members assigned so
	// far.
	more := make([]map[int32]int, len(c.lanes.rules))
	for r := range more {
		more[r] = make(map[int32]int)
	}
	emptier := func(a, b int) bool {
		for r, rule := range c.lanes.rules {
			x, y := ls[a].domains[r], ls[b].domains[r]
			if m, n := rule.Spread.Count(x)+more[r][x], rule.Spread.Count(y)+more[r][y]; m != n {
				return m < n
			}
		}
		return false
	}
	for range c.w.count {
		best := -1
		for i := range ls {
			if shares[i] < room[i] && (best < 0 || emptier(i, best)) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		shares[best]++
		for r := range c.lanes.rules {
			more[r][ls[best].domains[r]]++
		}
	}
	return shares
}

// fill places members one by one until no lane accepts another member.
func (c *cheapLanes) fill() []placement {
	var placements []placement
	for len(placements) < c.w.count {
		i, n, ok := c.next()
		if !ok {
			break
		}
		l := &c.cheap[i]
		if !c.undisturbed(l, n) || !c.t.accepts(c.w.class, n) {
			l.refuse(n, c.on[n])
			continue
		}
		st := placement{class: c.w.class, node: n}
		c.t.place(st)
		placements = append(placements, st)
		c.on[n]++
		l.placed++
		l.since++
	}
	return placements
}

// next returns a node for the next member. It chooses the lane whose domains have the fewest pods,
// so that the spread stays even.
func (c *cheapLanes) next() (lane int, node int32, ok bool) {
	for {
		l := c.lanes.next()
		if l == nil {
			return 0, 0, false
		}
		i := l.index
		if n, ok := c.node(&c.cheap[i]); ok {
			return i, n, true
		}
		l.at = len(l.nodes)
	}
}

// node returns a node for the next member of a lane. It returns false if the lane has all its
// members, or if its nodes have no room even after evictions.
func (c *cheapLanes) node(l *cheapLane) (int32, bool) {
	m := l.costs
	for l.placed < m.need {
		for len(l.ready) > 0 {
			if n := l.ready[0]; c.on[n] < int(m.caps[n]) {
				return n, true
			}
			l.ready = l.ready[1:]
		}
		if m.choose() {
			l.ready = m.fullest(c.on)
			if l.lastResort {
				c.leastDisturbed(l)
			}
			continue
		}
		if len(l.putOff) == 0 || l.lastResort && l.since == 0 {
			return 0, false
		}
		for _, n := range l.putOff {
			m.unlimit(n)
			m.reconsider(n)
		}
		l.putOff, l.lastResort, l.since = nil, true, 0
	}
	return 0, false
}

// leastDisturbed sorts the ready nodes by the cost of further victims, divided by the number of
// members that fit on the node. Further victims are potential victims that are not chosen yet and
// that affect the members' filters. Nodes of equal cost keep their order.
func (c *cheapLanes) leastDisturbed(l *cheapLane) {
	type disturbance struct{ broken, lost, weight float64 }
	by := make(map[int32]disturbance, len(l.ready))
	for _, n := range l.ready {
		var units []int32
		for _, u := range c.t.column(n).units {
			if c.t.out[u] && !l.costs.out[u] && c.t.touches(u) {
				units = append(units, u)
			}
		}
		if len(units) > 0 {
			score, room := scoreOf(c.t.s, units), float64(min(int(l.costs.caps[n])-c.on[n], l.costs.need-l.placed))
			by[n] = disturbance{float64(score.BrokenBudgets) / room, float64(score.LostWork) / room, float64(score.PrioritySum) / room}
		}
	}
	slices.SortStableFunc(l.ready, func(a, b int32) int {
		x, y := by[a], by[b]
		return cmp.Or(cmp.Compare(x.broken, y.broken), cmp.Compare(x.lost, y.lost), cmp.Compare(x.weight, y.weight))
	})
}

// refuse limits node n to the given number of members until all other nodes are full. Units that
// were chosen for these members stay chosen, because the members use the room of these units.
func (l *cheapLane) refuse(n int32, members int) {
	l.putOff = append(l.putOff, n)
	if members == 0 {
		l.costs.giveBack(n)
	}
	l.costs.limit(n, members)
	// The known cost of room on the node is outdated now.
	l.costs.touched[n]++
}

// undisturbed restores the units of node n that are not chosen as victims, if they affect the
// members' filters. It reports whether the node still accepts a member. If it does not, the units
// are removed again. If lastResort is set, the result is true and no unit is restored.
func (c *cheapLanes) undisturbed(l *cheapLane, n int32) bool {
	for _, u := range c.t.column(n).units {
		if l.costs.out[u] {
			// Remove a chosen victim again. It may have been restored for a member of another class
			// before it was chosen.
			c.t.remove(u)
		}
	}
	if l.lastResort || !c.t.stateful[c.w.class] {
		return true
	}
	var back []int32
	minds := false
	for _, u := range c.t.column(n).units {
		if c.t.out[u] && !l.costs.out[u] {
			back = append(back, u)
			minds = minds || c.t.touches(u)
		}
	}
	if !minds {
		return true
	}
	c.t.restoreAll(back)
	if c.t.accepts(c.w.class, n) {
		c.back = append(c.back, back...)
		return true
	}
	c.t.removeAll(back)
	return false
}

// takeInto adds the placements and the victims of the lanes to plan, and returns the victims.
func (c *cheapLanes) takeInto(plan *simulation, placements []placement) []int32 {
	var chosen []int32
	for i := range c.cheap {
		for _, u := range c.cheap[i].costs.chosen {
			if !plan.out[u] {
				plan.remove(u)
				chosen = append(chosen, u)
			}
		}
	}
	for _, st := range placements {
		plan.place(st)
	}
	return chosen
}

// reconsider computes the cost of room on node n again.
func (m *nodeCosts) reconsider(n int32) {
	m.touched[n]++
	if o, ok := m.option(n); ok {
		m.options.Push(o)
	}
}

// fullest lists the nodes with room for another member, sorted by the number of members that they
// can hold, the lowest number first.
func (m *nodeCosts) fullest(on []int) []int32 {
	var nodes []int32
	for _, n := range m.c.byName {
		if int(m.caps[n]) > on[n] {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(a, b int32) int { return int(m.caps[a]) - int(m.caps[b]) })
	return nodes
}
