package core

import (
	"cmp"
	"slices"
)

// counter counts the members of one class that fit, while a search removes and restores units. If
// the gang has one class and depends only on room, this count is enough to check a set of victims.
// The members are placed after the victims are chosen.
type counter struct {
	*simulation
	class int
	need  int
	caps  []int32
	total int
	// changes is the number of times that caps has changed.
	changes int
	// limits has a maximum number of members for some nodes. The oracle rejects more members there,
	// although the node has room for them.
	limits map[int32]int
}

func newCounter(t *simulation, w want) *counter {
	c := &counter{simulation: t, class: w.class, need: w.count, caps: make([]int32, len(t.s.Nodes))}
	for _, n := range t.c.byName {
		c.caps[n] = int32(t.roomFor(w.class, n, w.count))
		c.total += int(c.caps[n])
	}
	return c
}

// recount updates the number of members that fit on node n.
func (c *counter) recount(n int32) {
	c.changes++
	c.total -= int(c.caps[n])
	c.caps[n] = int32(c.roomAt(n))
	c.total += int(c.caps[n])
}

// roomAt returns the number of members that node n can hold now.
func (c *counter) roomAt(n int32) int {
	room := c.roomFor(c.class, n, c.need)
	if limit, ok := c.limits[n]; ok {
		room = min(room, limit)
	}
	return room
}

// limit sets the maximum number of members for node n.
func (c *counter) limit(n int32, members int) {
	if c.limits == nil {
		c.limits = make(map[int32]int)
	}
	c.limits[n] = members
	c.recount(n)
}

// unlimit removes the limit of a node.
func (c *counter) unlimit(n int32) {
	delete(c.limits, n)
	c.recount(n)
}

func (c *counter) recountUnit(unit int32) {
	if _, at, ok := c.c.lone(unit); ok {
		c.recount(at.node)
		return
	}
	pods := c.s.Units[unit].Pods
	last := -1
	for i := range pods {
		if n := pods[i].Node; n >= 0 && n != last {
			c.recount(int32(n))
			last = n
		}
	}
}

func (c *counter) remove(unit int32) {
	c.simulation.remove(unit)
	c.recountUnit(unit)
}

func (c *counter) restore(unit int32) {
	c.simulation.restore(unit)
	c.recountUnit(unit)
}

// room reports whether the nodes can hold all members.
func (c *counter) room() bool { return c.total >= c.need }

// packer is the roomKeeper for gangs with several classes or with a stateful class. For such gangs,
// a count of members is not enough, so packer tries to place all wanted members.
type packer struct {
	*simulation
	ws []want
}

func (p *packer) room() bool { return p.feasible(p.ws) }

// roomKeeper reports whether the members fit while units are removed and restored.
type roomKeeper interface {
	remove(unit int32)
	restore(unit int32)
	room() bool
}

// bringBack restores units in the given order. A unit stays restored if the preemptor still fits.
// The result lists the units that must stay removed.
func bringBack(k roomKeeper, units []int32) []int32 {
	var out []int32
	for _, u := range units {
		k.restore(u)
		if !k.room() {
			k.remove(u)
			out = append(out, u)
		}
	}
	return out
}

// competeByCount does the work of compete for a gang with counts set: it only counts the members
// that fit.
func (g *gang) competeByCount(v *problem, level int32) {
	if g.optimal {
		return
	}
	g.choose(v, level)
	if g.optimal || g.any && !v.c.spanning && !v.c.budgeted {
		return
	}
	g.consider(g.cheapestPlacement(v, level))
	if v.c.spanning && v.victims.count <= reverseUnits {
		t := newSimulation(v, v.c.later)
		pool := v.eligible(level)
		t.removeAll(pool)
		g.consider(g.counted(t, pool))
	}
}

// choose adds the outcome of choice: the cheapest victims among the units with one pod, regardless
// of budgets. If no unit has several pods and no budget is broken, the outcome is optimal.
func (g *gang) choose(v *problem, level int32) {
	ch := newChoice(newSimulation(v, v.c.later), g.ws[0], level)
	units, ok := ch.run()
	if !ok {
		return
	}
	if v.c.budgeted {
		sortByImportance(g.s, units)
	}
	f := g.outcome(units, nil)
	g.consider(f, true)
	g.optimal = ch.proven && !v.c.spanning && f.score.BrokenBudgets == 0 && g.addsUp() && g.allowed(units)
}

// cheapestPlacement selects nodes for the members where evictions cost least. Then it reprieves the
// units whose eviction is not needed.
func (g *gang) cheapestPlacement(v *problem, level int32) (found, bool) {
	m := newNodeCosts(newSimulation(v, v.c.later), g.ws[0], level, v.newBudgetDraw())
	if !m.choose() {
		return found{}, false
	}
	return g.counted(m.simulation, m.chosen)
}

// counted reprieves units of the list out, and returns the outcome. Before the call, all these
// units are removed from t.
func (g *gang) counted(t *simulation, out []int32) (found, bool) {
	c := newCounter(t, g.ws[0])
	if !c.room() {
		return found{}, false
	}
	return g.outcome(reprieveCounted(c, out), nil), true
}

// reprieveCounted reprieves units in two orders and returns the victims of the cheaper result. The
// first order is KEP-5710's: units that would break a budget, then units by importance. The second
// order is by cost. If no unit has a budget, the result is not sorted.
func reprieveCounted(c *counter, units []int32) []int32 {
	chosen, open := c.apart(units)
	if len(open) == 0 {
		return units
	}
	sortByImportance(c.s, open)
	breaking, others := splitByBudgets(c.s, open)
	victims := bringBack(c, slices.Concat(breaking, others))
	if len(victims) == len(open) {
		return units
	}
	for _, u := range open {
		c.remove(u)
	}
	second := bringBack(c, dearestFirst(c.s, open))
	for _, u := range second {
		c.restore(u)
	}
	victims, second = slices.Concat(chosen, victims), slices.Concat(chosen, second)
	if c.c.budgeted {
		sortByImportance(c.s, victims)
		sortByImportance(c.s, second)
	}
	if better(scoreOf(c.s, second), scoreOf(c.s, victims)) < 0 {
		victims = second
	}
	return victims
}

// apart splits units into certain victims and open cases. A unit is a certain victim if the members
// do not fit when only this unit is restored. If this check would take long, or if units have
// budgets, apart returns all units as open.
func (c *counter) apart(units []int32) (chosen, open []int32) {
	if c.c.budgeted || c.c.spanning {
		return nil, units
	}
	for _, u := range units {
		c.restore(u)
		if c.room() {
			open = append(open, u)
		} else {
			chosen = append(chosen, u)
		}
		c.remove(u)
	}
	return chosen, open
}

// dearestFirst sorts units from the most to the least expensive. Units that break a budget come
// first. The units must be in the order of importance.
func dearestFirst(s *Snapshot, units []int32) []int32 {
	breaking, others := splitByBudgets(s, units)
	byWeight := func(a, b int32) int {
		return cmp.Or(
			cmp.Compare(s.losses.charge(b), s.losses.charge(a)), cmp.Compare(unitWeight(s, b), unitWeight(s, a)), compareUnits(s, a, b),
		)
	}
	others = slices.Clone(others)
	slices.SortFunc(others, byWeight)
	return slices.Concat(breaking, others)
}
