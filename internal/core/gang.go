package core

import (
	"math"
	"slices"
)

// Limits of the number of potential victims for extra searches. Up to these limits, an extra search
// takes no noticeable time.
const (
	// plainUnits is the limit for the plain algorithm of KEP-5710 with a stateful oracle. Each of
	// its steps calls the oracle.
	plainUnits = 2000
	// reverseUnits is the limit for the search that removes all units and then reprieves them.
	reverseUnits = 100_000
)

// wholeCluster chooses the victims for a gang with several methods and returns the cheapest
// outcome. One method is the plain algorithm of KEP-5710, so the result never costs more than the
// outcome of that algorithm.
func (sr *search) wholeCluster() (found, bool) {
	g, ok := sr.competition()
	if !ok {
		return found{}, false
	}
	if !g.optimal {
		g.consider(g.refined(&g.best))
	}
	sortByImportance(sr.s, g.best.victims)
	g.improve()
	g.best.proven = g.optimal
	return g.best, true
}

// competition runs all methods to choose victims. The field best of the result is the cheapest
// outcome.
func (sr *search) competition() (*gang, bool) {
	t := newSimulation(sr.v, sr.v.c.later)
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
		g.consider(g.packed(t, level))
	}
	t.allBack()
	if broken := breakers(sr.s, sr.v.c, &sr.v.victims); len(broken) > 0 {
		safe := sr.v.protecting(broken)
		if lower, ok := safe.ceiling(ws); ok {
			g.compete(safe, lower)
		}
	}
	if g.counts {
		g.compete(sr.v, level)
	}
	if g.any && g.best.score.BrokenBudgets > 0 {
		g.compete(sr.v, int32(sr.v.victims.below-1))
	}
	g.consider(g.plain(level))
	return g, g.any
}

// gang is the search for the victims of a gang, in the whole cluster or in one domain.
type gang struct {
	*search
	ws []want
	// counts is true if the gang has only one class and the oracle is not stateful. Then it is
	// enough to count the members that fit.
	counts bool
	best   found
	any    bool
	// optimal is true if the best outcome is proven to be the cheapest.
	optimal bool
}

// consider keeps an outcome if it is the cheapest so far.
func (g *gang) consider(f found, ok bool) {
	if ok && g.allowed(f.victims) && (!g.any || better(f.score, g.best.score) < 0) {
		g.best, g.any = f, true
	}
}

// compete runs all methods on the victims with priorities up to level, and keeps the cheapest
// outcome.
func (g *gang) compete(v *problem, level int32) {
	if !g.counts {
		t := newSimulation(v, v.c.later)
		defer t.allBack()
		g.consider(g.packed(t, level))
		return
	}
	g.competeByCount(v, level)
}

// outcome returns the outcome for a set of victims and placements. If units have budgets, the
// victims must be sorted, most important first.
func (g *gang) outcome(victims []int32, placements []placement) found {
	sc := scoreOf(g.s, victims)
	return found{ws: g.ws, victims: victims, placements: placements, score: sc, ceiling: sc.HighestPriority}
}

// improve runs a local search that exchanges victims for other units. It does nothing in a large
// case, to bound the running time.
func (g *gang) improve() {
	if g.optimal || len(g.best.victims) == 0 {
		return
	}
	top := g.best.score.HighestPriority
	if g.best.score.BrokenBudgets > 0 {
		top = math.MaxInt32
	}
	if g.v.countUpTo(top) > g.localSearchLimit() {
		return
	}
	pool := g.v.eligible(top)
	sortByImportance(g.s, pool)
	slices.Reverse(pool)
	t := newSimulation(g.v, g.v.c.later)
	t.removeAll(g.best.victims)
	var k roomKeeper = &packer{simulation: t, ws: g.ws}
	if g.counts {
		k = newCounter(t, g.ws[0])
	}
	e := &localSearch{gang: g, t: t, k: k, pool: pool, victims: g.best.victims}
	e.run()
	t.restoreAll(e.victims)
	if better(scoreOf(g.s, e.victims), g.best.score) < 0 && g.allowed(e.victims) {
		g.best = g.outcome(e.victims, nil)
	}
}

// countUpTo returns the number of potential victims with priorities up to top, or an upper bound of
// this number.
func (v *problem) countUpTo(top int32) int {
	if v.within != nil {
		return len(v.eligible(top))
	}
	count := 0
	for priority, n := range v.c.perPriority {
		if priority <= top && int64(priority) < v.victims.below {
			count += n
		}
	}
	return count
}

// localSearchLimit returns the maximum number of units for the local search of improve.
func (g *gang) localSearchLimit() int {
	if g.counts {
		return 64
	}
	return 24
}

// place computes the final placements with the victims evicted. The needed members come first, then
// the surplus members that fit. Each member fits next to the members before it. The result is false
// if the oracle rejects a needed member; f is then unchanged.
func (g *gang) place(f *found) bool {
	t := newSimulation(g.v, g.v.c.later)
	t.removeAll(f.victims)
	defer t.restoreAll(f.victims)
	placements, ok := t.inOrder(f.placements)
	if !ok || len(placements) == 0 {
		if placements, ok = t.pack(g.ws); !ok {
			return false
		}
	}
	extra := t.surplus(placements)
	t.unplaceAll(extra)
	t.unplaceAll(placements)
	f.placements = slices.Concat(placements, extra)
	return true
}

// surplus places as many of the members without a placement as fit.
func (t *simulation) surplus(placements []placement) []placement {
	counts := allMembers(t.p.Classes)
	for _, st := range placements {
		counts[st.class]--
	}
	return t.fill(t.hardestFirst(counts), t.tightest(), nil)
}
