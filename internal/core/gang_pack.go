package core

import "slices"

// packed is the search for gangs with several classes or with a stateful class. It selects nodes
// where evictions cost little and places the members there one by one. Then it restores units
// around the members. Before and after the call, t contains no members.
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

// settle restores all units that fit next to the placed members, then removes the members again.
// The victims stay removed from t. It returns false if the members do not fit.
func (g *gang) settle(t *simulation, placements []placement, pool, chosen []int32) (found, bool) {
	order, ok := t.reordered(placements)
	if !ok {
		// Remove all units again. A group with pods on several nodes was restored because a member
		// needs it on one node. On another node, its pods may occupy the room of a member.
		t.removeAll(pool)
		if order, ok = t.reordered(placements); !ok {
			// The members do not fit, because a filter requires a pod of a removed unit next to
			// them.
			t.unplaceAll(placements)
			return found{}, false
		}
	}
	r := &reprieving{simulation: t, ws: g.ws, placements: order}
	victims := r.run(pool, chosen)
	t.unplaceAll(r.placements)
	return g.outcome(victims, slices.Clone(r.placements)), true
}

// arithmetic returns a copy of the problem that considers only room: no class is stateful. Changes
// of the copy do not affect v.
func (v *problem) arithmetic() *problem {
	w := *v
	w.stateful, w.anyStateful = make([]bool, len(v.stateful)), false
	return &w
}

// on returns the problem restricted to the given nodes.
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
