package core

import (
	"cmp"
	"slices"
)

// Where members have to share a domain, so many domains are priced at most, those with the most room first, and so many of the
// cheapest are searched to the end.
const (
	pricedDomains  = 64
	settledDomains = 4
)

// packed is the search where classes compete for nodes, or other pods matter. Arithmetic proposes nodes by what it costs
// to free them; the members are placed there one by one, with the oracle's consent where it has a say; then units come
// back around them. In t nothing is placed, before and afterwards.
func (g *gang) packed(t *simulation, level int32) (best found, ok bool) {
	t.outUpTo(int64(level))
	pool := slices.Clone(t.pool[:t.gone])
	slices.Reverse(pool)
	consider := func(placements []placement, chosen []int32) {
		f := g.settle(t, placements, pool, chosen)
		if !ok || better(f.score, best.score) < 0 {
			best, ok = f, true
		}
		t.removeAll(pool)
	}
	for _, a := range g.cheapArrangements(t, pool, level) {
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
// victims are still out of the simulation.
func (g *gang) settle(t *simulation, placements []placement, pool, chosen []int32) found {
	order, ok := t.reordered(placements)
	if !ok {
		// A group that came back for the sake of one node may be in the way on another.
		t.removeAll(pool)
		order = placements
	}
	r := &reprieving{simulation: t, ws: g.ws, placements: order}
	victims := r.run(pool, chosen)
	t.unplaceAll(r.placements)
	return g.outcome(victims, slices.Clone(r.placements))
}

// arrangement is a way to place all members, and what has been let go for it.
type arrangement struct {
	placements []placement
	chosen     []int32
	score      Score
}

// cheapArrangements places the members where it costs little, in one domain or another where they have to share it. What
// it returns is placed nowhere; the most promising come first. All of the pool is out of t, before and afterwards.
func (g *gang) cheapArrangements(t *simulation, pool []int32, level int32) []arrangement {
	domains := t.confinements(g.ws)
	if len(domains) > pricedDomains {
		g.roomiestFirst(domains[:len(domains)-1])
	}
	var out []arrangement
	for i, within := range domains {
		if len(out) > 0 && (i >= pricedDomains || within == nil) {
			break
		}
		a, ok := g.arrangeCheaply(t, level, within)
		if !ok {
			t.removeAll(pool)
			continue
		}
		t.unplaceAll(a.placements)
		// What came back for one arrangement is in the way of the next.
		t.removeAll(pool)
		if within == nil {
			return append(out, a)
		}
		sortByImportance(g.s, a.chosen)
		a.score = scoreOf(g.s, a.chosen)
		out = append(out, a)
	}
	slices.SortStableFunc(out, func(a, b arrangement) int { return better(a.score, b.score) })
	return out[:min(len(out), settledDomains)]
}

// roomiestFirst sorts confinements by the members that there is room for without any unit gone.
func (g *gang) roomiestFirst(domains []confinement) {
	type candidate struct {
		within confinement
		room   int
	}
	asIs := newSimulation(g.v.arithmetic(), g.v.c.later)
	candidates := make([]candidate, 0, len(domains))
	for _, within := range domains {
		c := candidate{within: within}
		for _, w := range g.ws {
			for _, n := range asIs.nodesFor(w.class, within) {
				c.room += asIs.roomFor(w.class, n, w.count)
			}
		}
		candidates = append(candidates, c)
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(b.room, a.room) })
	for i := range candidates {
		domains[i] = candidates[i].within
	}
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

// arrangeCheaply puts all members on nodes that are cheap to free. All of the pool is out of t. On success the members
// are placed in t; otherwise t is unchanged but for units that have come back.
func (g *gang) arrangeCheaply(t *simulation, level int32, within confinement) (a arrangement, ok bool) {
	// plan knows only room, and has everything in place that has not been chosen.
	plan, draw := newSimulation(t.arithmetic(), t.c.later), t.newBudgetDraw()
	left := slices.Clone(g.ws)
	for len(a.placements) < total(g.ws) {
		before := len(a.placements)
		for i := range left {
			if left[i].count == 0 {
				continue
			}
			c := newCheapLanes(t, plan, draw, left[i], level, within)
			got := c.fill()
			left[i].count -= len(got)
			a.placements = append(a.placements, got...)
			a.chosen = append(a.chosen, c.takeInto(plan, got)...)
		}
		if len(a.placements) == before {
			t.unplaceAll(a.placements)
			return arrangement{}, false
		}
	}
	return a, true
}
