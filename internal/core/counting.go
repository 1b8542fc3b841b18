package core

import "slices"

// counter keeps count of how many members of one class there is room for while units go and come back. For
// a gang of one class to which only room matters, that number settles everything: no member is ever placed
// before the victims are known.
type counter struct {
	*trial
	class int
	need  int
	caps  []int32
	total int
	// limits are what the oracle lets a node hold where that is less than its room.
	limits map[int32]int
}

func newCounter(t *trial, w want) *counter {
	c := &counter{trial: t, class: w.class, need: w.count, caps: make([]int32, len(t.s.Nodes))}
	for _, n := range t.c.byName {
		c.caps[n] = int32(t.roomFor(w.class, n, w.count))
		c.total += int(c.caps[n])
	}
	return c
}

// recount brings the number for one node up to date.
func (c *counter) recount(n int32) {
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
	c.trial.remove(unit)
	c.recountUnit(unit)
}

func (c *counter) restore(unit int32) {
	c.trial.restore(unit)
	c.recountUnit(unit)
}

// room reports whether there is room for all members.
func (c *counter) room() bool { return c.total >= c.need }

// packer is the counterpart of counter where classes compete or other pods matter: it places everything
// wanted to see whether there is room.
type packer struct {
	*trial
	ws []want
}

func (p *packer) room() bool { return p.feasible(p.ws) }

// roomKeeper is what reprieve and polish need to know of a search in progress.
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

// reprieveCounted reprieves units that are out, and returns the cheaper outcome of two orders: the one of
// the document (those that would break a budget first, then by importance), and by what each would cost. What it
// returns is in no particular order where there are no budgets.
func reprieveCounted(c *counter, units []int32) []int32 {
	sunk, open := c.apart(units)
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
	victims, second = slices.Concat(sunk, victims), slices.Concat(sunk, second)
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
func (c *counter) apart(units []int32) (sunk, open []int32) {
	if c.c.budgeted || c.c.spanning {
		return nil, units
	}
	for _, u := range units {
		c.restore(u)
		if c.room() {
			open = append(open, u)
		} else {
			sunk = append(sunk, u)
		}
		c.remove(u)
	}
	return sunk, open
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
