package core

import (
	"cmp"
	"slices"
)

// Bounds for members that must share a domain. pricedDomains is the number of domains whose cost is
// computed, those with the most room first. settledDomains is the number of the cheapest ones that
// are searched to the end.
const (
	pricedDomains  = 64
	settledDomains = 4
)

// Bounds for a gang with several parties, each with domains of its own. partyPrices is the total
// number of domains whose cost is computed, and fewDomains the minimum for each party. Parties
// inside a larger domain compute costs in at most fewDomains of the larger domains.
const (
	partyPrices = 256
	fewDomains  = 8
)

// arrangement is a set of placements of members, with the units that are evicted for them.
type arrangement struct {
	placements []placement
	chosen     []int32
	// back lists the units that stay because a member needs them: it was placed next to their pods.
	back  []int32
	score Score
}

// enter applies the arrangement's evictions to t. A unit in back may still have been chosen as a
// victim for a later member.
func (a *arrangement) enter(t *simulation) {
	t.restoreAll(a.back)
	t.removeAll(a.chosen)
}

// arranging is a search for placements on nodes that cost little to free. In t, all units with
// priorities up to a level are removed.
type arranging struct {
	*gang
	t     *simulation
	level int32
	// before has the placements that are already applied to t. Each result includes them.
	before arrangement
	// most bounds how many domains are priced.
	most int
}

// cheapArrangements places the members on nodes that cost little to free. If members share a
// domain, it does so in each of several domains. The cheapest arrangements come first. They are not
// applied to t.
func (g *gang) cheapArrangements(t *simulation, level int32) []arrangement {
	ar := &arranging{gang: g, t: t, level: level, most: pricedDomains}
	return ar.arrange(g.ws)
}

// arrange returns the cheapest arrangements found. Each includes the members that are already
// placed.
func (ar *arranging) arrange(ws []want) []arrangement {
	var out []arrangement
	if parties := ar.t.parties(ws); len(parties) > 1 {
		out = ar.arrangeParties(parties)
	} else {
		out = ar.arrangeInside(ws)
	}
	if len(out) > 0 {
		return out
	}
	return ar.cheapest(ws, ar.t.confinements(ws), ar.arrangeCheaply)
}

// arrangeInside arranges a party that needs several domains inside one larger domain. It tries one
// larger domain after another.
func (ar *arranging) arrangeInside(ws []want) []arrangement {
	few := *ar
	few.most = fewDomains
	return few.cheapest(ws, ar.t.enclosures(ws), func(ws []want, within confinement) (arrangement, bool) {
		inside := few
		inside.t = ar.t.inside(within)
		if as := inside.arrange(ws); len(as) > 0 {
			return as[0], true
		}
		return arrangement{}, false
	})
}

// arrangeParties arranges the parties one after the other, each in its cheapest domain given the
// earlier parties. The party that is hardest to place comes first. With few parties, the reverse
// order is tried too.
func (ar *arranging) arrangeParties(parties [][]want) []arrangement {
	parties = ar.t.hardestParties(parties)
	ways := 2
	if len(parties) > settledDomains {
		ways = 1
	}
	var out []arrangement
	for range ways {
		next := *ar
		next.most = min(ar.most, max(partyPrices/len(parties), fewDomains))
		ok := inTurn(parties, func(party []want) bool {
			as := next.arrange(party)
			if len(as) == 0 {
				return false
			}
			as[0].enter(ar.t)
			ar.t.placeAll(as[0].placements[len(next.before.placements):])
			next.before = as[0]
			return true
		}, func() { next.undo(ar.before) })
		if ok {
			out = append(out, next.before)
			next.undo(ar.before)
		}
		slices.Reverse(parties)
	}
	slices.SortStableFunc(out, func(a, b arrangement) int { return better(a.score, b.score) })
	return out
}

// undo returns t to an earlier arrangement, which must be part of the current one.
func (ar *arranging) undo(before arrangement) {
	ar.t.unplaceAll(ar.before.placements[len(before.placements):])
	ar.t.removeAll(ar.before.back[len(before.back):])
	before.enter(ar.t)
	ar.before = before
}

// cheapest tries to place the members within each of several confinements, which are sets of
// allowed domains. It tries the nil confinement, the whole cluster, only if no other one has a
// result.
func (ar *arranging) cheapest(ws []want, ways []confinement, try func([]want, confinement) (arrangement, bool)) []arrangement {
	if len(ways) > ar.most {
		ar.roomiestFirst(ws, ways)
	}
	var out []arrangement
	for i, within := range ways {
		if len(out) > 0 && (i >= ar.most || within == nil) {
			break
		}
		if a, ok := try(ws, within); ok {
			sortByImportance(ar.s, a.chosen)
			a.score = scoreOf(ar.s, a.chosen)
			out = append(out, a)
		}
	}
	slices.SortStableFunc(out, func(a, b arrangement) int { return better(a.score, b.score) })
	return out[:min(len(out), settledDomains)]
}

// roomiestFirst sorts confinements by the number of members that fit without further evictions, the
// highest first. The nil confinement stays last.
func (ar *arranging) roomiestFirst(ws []want, ways []confinement) {
	type candidate struct {
		within confinement
		room   int
	}
	asIs, _ := ar.planned()
	candidates := make([]candidate, len(ways))
	for i, within := range ways {
		c := candidate{within: within}
		if within == nil {
			c.room = -1
		}
		for _, w := range ws {
			if !within.holds(w.class) {
				continue
			}
			for _, n := range asIs.nodesFor(w.class, within) {
				c.room += asIs.roomFor(w.class, n, w.count)
			}
		}
		candidates[i] = c
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(b.room, a.room) })
	for i := range candidates {
		ways[i] = candidates[i].within
	}
}

// planned returns a simulation that regards room only, with exactly the chosen units removed. It
// also returns a budgetDraw that has settled these units.
func (ar *arranging) planned() (*simulation, *budgetDraw) {
	plan, draw := newSimulation(ar.t.arithmetic(), ar.t.c.later), ar.t.newBudgetDraw()
	plan.removeAll(ar.before.chosen)
	plan.placeAll(ar.before.placements)
	if draw != nil {
		for _, u := range ar.before.chosen {
			draw.settle(u)
		}
	}
	return plan, draw
}

// arrangeCheaply places members on the nodes of a confinement that cost least to free.
func (ar *arranging) arrangeCheaply(ws []want, within confinement) (arrangement, bool) {
	plan, draw := ar.planned()
	var placements []placement
	var chosen, back []int32
	left := slices.Clone(ws)
	stuck := false
	for len(placements) < total(ws) && !stuck {
		before := len(placements)
		for i := range left {
			if left[i].count == 0 {
				continue
			}
			c := newCheapLanes(ar.t, plan, draw, left[i], ar.level, within)
			got := c.fill()
			left[i].count -= len(got)
			placements = append(placements, got...)
			chosen = append(chosen, c.takeInto(plan, got)...)
			back = append(back, c.back...)
		}
		stuck = len(placements) == before
	}
	ar.t.unplaceAll(placements)
	ar.t.removeAll(back)
	ar.before.enter(ar.t)
	return arrangement{
		placements: slices.Concat(ar.before.placements, placements),
		chosen:     slices.Concat(ar.before.chosen, chosen),
		back:       slices.Concat(ar.before.back, back),
	}, !stuck
}
