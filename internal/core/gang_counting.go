package core

import "slices"

// counter keeps count of how many members of one class there is room for while units go and come back. For
// a gang of one class to which only room matters, that number settles everything: no member is ever placed
// before the victims are known.
type counter struct {
	*simulation
	class int
	need  int
	caps  []int32
	total int
	// changes counts those of any of that.
	changes int
	// limits are what the oracle lets a node hold where that is less than its room.
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

// recount brings the number for one node up to date.
func (c *counter) recount(n int32) {
	c.changes++
	c.total -= int(c.caps[n])
	c.caps[n] = int32(c.roomAt(n))
	c.total += int(c.caps[n])
}

// roomAt is how many members a node holds now.
func (c *counter) roomAt(n int32) int {
	room := c.roomFor(c.class, n, c.need)
	if limit, ok := c.limits[n]; ok {
		room = min(room, limit)
	}
	return room
}

// limit takes note that a node holds no more members than that.
func (c *counter) limit(n int32, members int) {
	if c.limits == nil {
		c.limits = make(map[int32]int)
	}
	c.limits[n] = members
	c.recount(n)
}

// unlimit takes that back.
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

// room reports whether there is room for all members.
func (c *counter) room() bool { return c.total >= c.need }

// packer is the counterpart of counter where classes compete or other pods matter: it places everything
// wanted to see whether there is room.
type packer struct {
	*simulation
	ws []want
}

func (p *packer) room() bool { return p.feasible(p.ws) }

// roomKeeper is what reprieve and improve need to know of a search in progress.
type roomKeeper interface {
	remove(unit int32)
	restore(unit int32)
	room() bool
}

// bringBack restores units, first come first, wherever there is room left for the preemptor afterwards, and
// returns those that have to stay out.
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

// competeByCount is compete where counting settles everything.
func (g *gang) competeByCount(v *view, level int32) {
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

// choose considers the cheapest units that stand alone, whatever they draw on budgets. Where there are no others, and no
// budget is broken, nothing can be cheaper.
func (g *gang) choose(v *view, level int32) {
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
	g.optimal = ch.proven && !v.c.spanning && f.score.BrokenBudgets == 0 && g.allowed(units)
}

// cheapestPlacement frees the nodes where it costs least, and brings back what turns out not to be needed.
func (g *gang) cheapestPlacement(v *view, level int32) (found, bool) {
	m := newNodeCosts(newSimulation(v, v.c.later), g.ws[0], level, v.newBudgetDraw())
	if !m.choose() {
		return found{}, false
	}
	return g.counted(m.simulation, m.chosen)
}

// counted reprieves units that are out of t, and places the members.
func (g *gang) counted(t *simulation, out []int32) (found, bool) {
	c := newCounter(t, g.ws[0])
	if !c.room() {
		return found{}, false
	}
	return g.outcome(reprieveCounted(c, out), nil), true
}

// reprieveCounted reprieves units that are out, and returns the cheaper outcome of two orders: the one of
// the document (those that would break a budget first, then by importance), and by what each would cost. What it
// returns is in no particular order where there are no budgets.
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

// apart separates units that are out for good, because there is no room with any one of them alone back in place,
// from the others. Where that takes long to tell, or what the others draw on budgets matters, it does not try.
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

// dearestFirst orders units, given by importance, so that those that break a budget, and then those that
// weigh most, come first.
func dearestFirst(s *Snapshot, units []int32) []int32 {
	breaking, others := splitByBudgets(s, units)
	byWeight := func(a, b int32) int {
		switch wa, wb := unitWeight(s, a), unitWeight(s, b); {
		case wa > wb:
			return -1
		case wa < wb:
			return 1
		default:
			return compareUnits(s, a, b)
		}
	}
	others = slices.Clone(others)
	slices.SortFunc(others, byWeight)
	return slices.Concat(breaking, others)
}
