package core

import (
	"cmp"
	"slices"
)

// For members that share a domain, pricedDomains bounds how many domains are priced, those with the
// most room first. settledDomains bounds how many of the cheapest ones are searched to the end.
const (
	pricedDomains  = 64
	settledDomains = 4
)

// Each of several parties prices its own domains. partyPrices bounds their total, fewDomains is a
// minimum per party. Parties inside a larger domain price domains in at most fewDomains of these.
const (
	partyPrices = 256
	fewDomains  = 8
)

// arrangement is a way to place members, with the units evicted for it.
type arrangement struct {
	placements []placement
	chosen     []int32
	// back are units that some member depends on and that stay: it was placed with them in place.
	back  []int32
	score Score
}

// enter applies the arrangement's units to t. A unit that was put back beside a member may have
// been chosen for a later one.
func (a *arrangement) enter(t *simulation) {
	t.restoreAll(a.back)
	t.removeAll(a.chosen)
}

// arranging is a search for placements that cost little to free. In t, all units up to a level are
// removed.
type arranging struct {
	*gang
	t     *simulation
	level int32
	// before is already placed in t, and part of each result.
	before arrangement
	// most bounds how many domains are priced.
	most int
}

// cheapArrangements places the members where freeing room costs little, in each of several domains
// if they share one. The returned arrangements are not applied; the cheapest come first.
func (g *gang) cheapArrangements(t *simulation, level int32) []arrangement {
	ar := &arranging{gang: g, t: t, level: level, most: pricedDomains}
	return ar.arrange(g.ws)
}

// arrange lists the cheapest arrangements found, in addition to the members already placed.
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

// arrangeInside arranges a party that needs several places inside a larger domain. It tries one
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
// earlier ones. The hardest party comes first. A few parties are also tried in reverse order.
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

// undo restores an earlier arrangement, which is part of this one.
func (ar *arranging) undo(before arrangement) {
	ar.t.unplaceAll(ar.before.placements[len(before.placements):])
	ar.t.removeAll(ar.before.back[len(before.back):])
	before.enter(ar.t)
	ar.before = before
}

// cheapest tries ways to confine members to domains. It tries the nil confinement only if nothing
// else has been found.
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

// roomiestFirst sorts confinements by the number of members that fit without further evictions. The
// nil confinement stays last.
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

// planned returns a simulation of room only, where exactly the chosen units are removed, and a draw
// with these settled.
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

// arrangeCheaply places members on nodes that are cheap to free.
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
