package core

import "slices"

// packed is the search if classes compete for nodes, or other pods matter. Arithmetic proposes
// nodes by the cost of freeing them. The members are placed there one by one, with the oracle's
// consent if it is stateful. Then units are put back around them. No members are placed in t before
// and after the call.
func (g *gang) packed(t *simulation, level int32) (best found, ok bool) {
	t.outUpTo(int64(level))
	pool := slices.Clone(t.pool[:t.gone])
	slices.Reverse(pool)
	consider := func(placements []placement, chosen []int32) {
		if f, stands := g.settle(t, placements, pool, chosen); stands && (!ok || better(f.score, best.score) < 0) {
			best, ok = f, true
		}
		t.removeAll(pool)
	}
	for _, a := range g.cheapArrangements(t, level) {
		a.enter(t)
		t.placeAll(a.placements)
		consider(a.placements, a.chosen)
	}
	if !ok {
		if placements, fits := t.pack(g.ws); fits {
			consider(placements, nil)
		}
	}
	t.restoreAll(pool)
	t.gone = 0
	return best, ok
}

// settle reprieves all units that can come back around placed members and unplaces the members. The
// victims stay removed from the simulation. It returns false if the members do not fit.
func (g *gang) settle(t *simulation, placements []placement, pool, chosen []int32) (found, bool) {
	order, ok := t.reordered(placements)
	if !ok {
		// A group restored for one node may be in the way on another.
		t.removeAll(pool)
		if order, ok = t.reordered(placements); !ok {
			// A pod that the members need beside them has been removed.
			t.unplaceAll(placements)
			return found{}, false
		}
	}
	r := &reprieving{simulation: t, ws: g.ws, placements: order}
	victims := r.run(pool, chosen)
	t.unplaceAll(r.placements)
	return g.outcome(victims, slices.Clone(r.placements)), true
}

// arithmetic returns the view without the oracle's answers about other pods. Changes to it do not
// affect v.
func (v *problem) arithmetic() *problem {
	w := *v
	w.stateful, w.anyStateful = make([]bool, len(v.stateful)), false
	return &w
}

// on returns the view restricted to some nodes.
func (v *problem) on(nodes []int32) *problem {
	if len(nodes) == len(v.c.byName) {
		return v
	}
	w, c := *v, *v.c
	c.byName, c.sound = nodes, make([]bool, len(v.c.sound))
	for _, n := range nodes {
		c.sound[n] = v.c.sound[n]
	}
	w.c = &c
	return &w
}
