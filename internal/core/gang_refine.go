package core

// refined chooses anew what goes of the units that are a matter of one node, where only room matters: exactly, given what
// goes of groups and of units with budgets, and where the members are if there are several classes.
func (g *gang) refined(f *found) (found, bool) {
	if g.v.anyStateful || !g.counts && f.placements == nil {
		return found{}, false
	}
	var fixed []int32
	for _, u := range f.victims {
		if unit := &g.s.Units[u]; len(unit.Pods) > 1 || draws(unit) {
			fixed = append(fixed, u)
		}
	}
	if len(fixed) == len(f.victims) {
		return found{}, false
	}
	t := newSimulation(g.v, g.v.c.later)
	t.removeAll(fixed)
	ch := newChoice(t, g.ws[0], f.score.HighestPriority)
	ch.unguarded = true
	if !g.counts {
		units, ok := ch.around(f.placements)
		units = append(units, fixed...)
		sortByImportance(g.s, units)
		return g.outcome(units, f.placements), ok
	}
	units, ok := ch.run()
	if !ok {
		return found{}, false
	}
	t.removeAll(units)
	return g.counted(t, append(units, fixed...))
}

// around finds the cheapest units that have to go for members that have their nodes already.
func (ch *choice) around(placements []placement) (units []int32, ok bool) {
	ch.placeAll(placements)
	defer ch.unplaceAll(placements)
	for _, n := range ch.c.byName {
		if ch.holdsAt(n) {
			continue
		}
		wanted := ch.x.wantedBy(ch.placed, n)
		for r, v := range ch.freeOf(n) {
			if ch.room[r] = 0; wanted[r] > 0 {
				ch.room[r] = -v
			}
		}
		ch.load(n, wanted)
		set, _, _, ok := ch.x.cover.solve(ch.room)
		if !ok {
			return nil, false
		}
		for _, pos := range set {
			units = append(units, ch.column(n).units[pos])
		}
	}
	return units, true
}
