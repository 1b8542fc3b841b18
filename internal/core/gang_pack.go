package core

import "slices"

// packed is the search where classes compete for nodes, or other pods matter. Arithmetic proposes nodes by what it costs
// to free them; the members are placed there one by one, with the oracle's consent where it has a say; then units come
// back around them. In t nothing is placed, before and afterwards.
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

// settle reprieves all that can come back around placed members, and takes the members off again. The
// victims are still out of the simulation. It reports false where the members do not stand.
func (g *gang) settle(t *simulation, placements []placement, pool, chosen []int32) (found, bool) {
	order, ok := t.reordered(placements)
	if !ok {
		// A group that came back for the sake of one node may be in the way on another.
		t.removeAll(pool)
		if order, ok = t.reordered(placements); !ok {
			// What they have to have beside them has gone.
			t.unplaceAll(placements)
			return found{}, false
		}
	}
	r := &reprieving{simulation: t, ws: g.ws, placements: order}
	victims := r.run(pool, chosen)
	t.unplaceAll(r.placements)
	return g.outcome(victims, slices.Clone(r.placements)), true
}

// arithmetic is the view without the oracle's view of other pods. What it learns of nodes stays apart.
func (v *view) arithmetic() *view {
	w := *v
	w.stateful, w.anyStateful = make([]bool, len(v.stateful)), false
	return &w
}

// on is the view of some nodes only.
func (v *view) on(nodes []int32) *view {
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
