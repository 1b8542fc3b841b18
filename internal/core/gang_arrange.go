package core

import (
	"cmp"
	"slices"
)

// Limits for members that must share a domain. pricedDomains is the number of domains whose cost is
// computed. The domains with the most room come first. settledDomains is the number of the cheapest
// domains that the search then completes.
const (
	pricedDomains  = 64
	settledDomains = 4
)

// Limits for a gang with several parties. A party is a set of classes that share domains; each
// party has its own domains. partyPrices is the total number of domains whose cost is computed.
// fewDomains is the minimum per party. It is also the maximum number of larger domains around a
// party whose cost is computed (see arrangeInside).
const (
	partyPrices = 256
	fewDomains  = 8
)

// arrangement is a set of placements, with the units that are evicted for them.
type arrangement struct {
	placements []placement
	chosen     []int32
	// back lists the units that must keep running, because a member was placed next to one of their
	// pods. The member's filters may need this pod, for example for affinity.
	back  []int32
	score Score
}

// enter changes the simulation t to the state of the arrangement. It first restores the units of
// the field back, and then removes the chosen victims. This order matters: a unit of back may have
// become a victim for a member that was placed later.
func (a *arrangement) enter(t *simulation) {
	t.restoreAll(a.back)
	t.removeAll(a.chosen)
}

// arranging is a search for placements on nodes where evictions cost little. In the simulation t,
// all units with priorities up to level are removed.
type arranging struct {
	*gang
	t     *simulation
	level int32
	// before is the arrangement that t already contains. Each result includes it.
	before arrangement
	// most is the maximum number of domains whose cost is computed.
	most int
}

// cheapArrangements returns placements of the members on nodes where evictions cost little, the
// cheapest arrangement first. If members must share a domain, each of several domains has its own
// arrangement. The simulation t is unchanged afterwards.
func (g *gang) cheapArrangements(t *simulation, level int32) []arrangement {
	ar := &arranging{gang: g, t: t, level: level, most: pricedDomains}
	return ar.arrange(g.ws)
}

// arrange returns the cheapest arrangements that it finds for the wanted members. Each result
// includes the arrangement of the field before.
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

// arrangeInside arranges a party that needs several domains, all inside one larger domain. It tries
// one larger domain after the other.
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

// arrangeParties arranges one party after the other. Each party gets its cheapest domain next to
// the earlier parties. The party that is hardest to place comes first. If there are few parties, a
// second result has them in reverse order.
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

// undo restores the arrangement before in the simulation t. It removes the placements and evictions
// that were added to it since. The current arrangement must be an extension of before.
func (ar *arranging) undo(before arrangement) {
	ar.t.unplaceAll(ar.before.placements[len(before.placements):])
	ar.t.removeAll(ar.before.back[len(before.back):])
	before.enter(ar.t)
	ar.before = before
}

// cheapest calls try for each confinement, which is a set of allowed domains, and returns the
// cheapest results. The nil confinement is the whole cluster. It comes last and is tried only if
// there is no result yet.
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
// highest number first. The nil confinement stays last.
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

// planned returns a simulation that ignores stateful filters. It starts with the placements of the
// field before, and exactly the chosen units are removed. The returned budgetDraw has settled these
// units.
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

// arrangeCheaply places members on the nodes of a confinement where evictions cost least.
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
