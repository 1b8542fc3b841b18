package core

import (
	"math"
	"slices"
)

// Cases up to these sizes are worth a second look at no noticeable cost; larger ones make do without.
const (
	// plainUnits bounds the plain algorithm as a competitor where every step asks the oracle.
	plainUnits = 2000
	// reverseUnits bounds the search from above.
	reverseUnits = 100_000
)

// wholeCluster is the search for a gang. Several ways to choose victims compete by the order of outcomes;
// the plain algorithm of the document is one of them, so the result is never worse.
func (sr *search) wholeCluster() (found, bool) {
	g, ok := sr.competition()
	if !ok {
		return found{}, false
	}
	sortByImportance(sr.s, g.best.victims)
	g.polish()
	return g.best, true
}

// competition runs all ways to choose victims and keeps the cheapest outcome.
func (sr *search) competition() (*gang, bool) {
	t := newTrial(sr.v, sr.v.c.later)
	defer t.allBack()
	ws, ok := sr.insist(t)
	if !ok {
		return nil, false
	}
	g := &gang{search: sr, ws: ws, counts: len(ws) == 1 && !sr.v.anyStateful}
	level, ok := t.lowestCeiling(ws, true)
	if !ok {
		return nil, false
	}
	if !g.counts {
		g.consider(g.seated(t, level))
	}
	t.allBack()
	if broken := breakers(sr.s, sr.v.c, &sr.v.sus); len(broken) > 0 {
		safe := sr.v.sparing(broken)
		if lower, ok := safe.ceiling(ws); ok {
			g.compete(safe, lower)
		}
	}
	if g.counts {
		g.compete(sr.v, level)
	}
	if g.any && g.best.score.BrokenBudgets > 0 {
		g.compete(sr.v, int32(sr.v.sus.below-1))
	}
	g.consider(g.plain(level))
	return g, g.any
}

// gang is a search over the whole cluster.
type gang struct {
	*search
	ws []want
	// counts is true where counting settles everything: one class, and only room matters.
	counts bool
	best   found
	any    bool
}

// consider keeps the cheapest outcome.
func (g *gang) consider(f found, ok bool) {
	if ok && g.allowed(f.victims) && (!g.any || better(f.score, g.best.score) < 0) {
		g.best, g.any = f, true
	}
}

// compete tries the ways to choose victims up to a priority.
func (g *gang) compete(v *view, level int32) {
	if !g.counts {
		t := newTrial(v, v.c.later)
		defer t.allBack()
		g.consider(g.seated(t, level))
		return
	}
	g.consider(g.cheapestPlacement(v, level))
	if v.c.spanning && v.sus.count <= reverseUnits {
		t := newTrial(v, v.c.later)
		pool := v.eligible(level)
		t.removeAll(pool)
		g.consider(g.counted(t, pool))
	}
}

// cheapestPlacement frees the nodes where it costs least, and brings back what turns out not to be needed.
func (g *gang) cheapestPlacement(v *view, level int32) (found, bool) {
	m := newMarket(newTrial(v, v.c.later), g.ws[0], level)
	if !m.buy() {
		return found{}, false
	}
	return g.counted(m.trial, m.sunk)
}

// counted reprieves units that are out of t, and places the members.
func (g *gang) counted(t *trial, out []int32) (found, bool) {
	c := newCounter(t, g.ws[0])
	if !c.room() {
		return found{}, false
	}
	return g.outcome(reprieveCounted(c, out), nil), true
}

// outcome makes a result of victims, most important first where there are budgets to draw on.
func (g *gang) outcome(victims []int32, seats []seat) found {
	sc := scoreOf(g.s, victims)
	return found{ws: g.ws, victims: victims, seats: seats, score: sc, ceiling: sc.HighestPriority}
}

// polish tries small exchanges on a small case: units that stay go instead of others. The room for it is
// bounded, and a large case is left as it is.
func (g *gang) polish() {
	if len(g.best.victims) == 0 {
		return
	}
	top := g.best.score.HighestPriority
	if g.best.score.BrokenBudgets > 0 {
		top = math.MaxInt32
	}
	count := 0
	for priority, n := range g.v.c.perPriority {
		if priority <= top && int64(priority) < g.v.sus.below {
			count += n
		}
	}
	if count > g.polishLimit() {
		return
	}
	pool := g.v.eligible(top)
	sortByImportance(g.s, pool)
	slices.Reverse(pool)
	t := newTrial(g.v, g.v.c.later)
	t.removeAll(g.best.victims)
	var k roomKeeper = &packer{trial: t, ws: g.ws}
	if g.counts {
		k = newCounter(t, g.ws[0])
	}
	e := &exchange{gang: g, t: t, k: k, pool: pool, victims: g.best.victims}
	e.run()
	t.restoreAll(e.victims)
	if better(scoreOf(g.s, e.victims), g.best.score) < 0 && g.allowed(e.victims) {
		g.best = g.outcome(e.victims, nil)
	}
}

// polishLimit is how many units a case may have to be polished.
func (g *gang) polishLimit() int {
	if g.counts {
		return 64
	}
	return 24
}

// place seats the members for good, with the victims gone: first everything wanted, then as much of the
// surplus as there is room for. It reports false where other pods refuse, in which case nothing is changed.
func (g *gang) place(f *found) bool {
	t := newTrial(g.v, g.v.c.later)
	t.removeAll(f.victims)
	defer t.restoreAll(f.victims)
	seats, ok := f.seats, f.seats != nil
	if ok {
		t.placeAll(seats)
	} else if seats, ok = t.seatAll(g.ws); !ok {
		return false
	}
	extra := t.surplus(seats)
	t.unplaceAll(extra)
	t.unplaceAll(seats)
	f.seats = slices.Concat(seats, extra)
	return true
}

// surplus seats as many of the members that have no seat yet as there is room for.
func (t *trial) surplus(seats []seat) []seat {
	counts := allMembers(t.p.Classes)
	for _, st := range seats {
		counts[st.class]--
	}
	return t.fill(t.hardestFirst(counts), fullestFirst)
}
