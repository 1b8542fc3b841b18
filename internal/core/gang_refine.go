package core

import "slices"

// refined repeats the choice among the victims with one pod and without budgets, if only room
// matters. All other victims stay evicted. The result is the cheapest choice that is possible with
// these other victims. With several classes, the members also stay on their nodes.
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
	if len(fixed) == 0 && g.counts && !g.v.c.budgeted {
		// choose has already searched among all units with one pod. So only reprieve units here.
		t.removeAll(f.victims)
		return g.counted(t, slices.Clone(f.victims))
	}
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

// around returns the cheapest victims if the members are on the given nodes.
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
