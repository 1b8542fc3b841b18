package core

import (
	"cmp"
	"math"
	"slices"
)

// A gathering is a set of classes whose members must share a domain. A party is a set of classes
// that gatherings connect, such as one job of a JobSet whose jobs each need one rack. Parties
// choose their domains one after the other, in the room that earlier parties leave.

// partyStarts is the maximum number of attempts to place all parties. Each attempt starts with
// another party.
const partyStarts = 4

// parties splits the wanted classes into parties. Classes in connected gatherings are one party.
// The classes in no gathering are the last party. If all gatherings can use one choice of domains,
// the result is a single party.
func (v *problem) parties(ws []want) [][]want {
	gs := v.gatherings(ws)
	if !scattered(gs) {
		return [][]want{ws}
	}
	var tied [][]int
	for i := range gs {
		tied = joined(tied, slices.Clone(gs[i].classes))
	}
	parties := make([][]want, len(tied)+1)
	for _, w := range ws {
		at := slices.IndexFunc(tied, func(set []int) bool { return slices.Contains(set, w.class) })
		if at < 0 {
			at = len(tied)
		}
		parties[at] = append(parties[at], w)
	}
	if len(parties[len(tied)]) == 0 {
		return parties[:len(tied)]
	}
	return parties
}

// scattered reports whether gatherings may use separate domains. This is so if some gathering g has
// no class in common with any gathering of smaller domains. The domain of g need not contain these
// smaller domains.
func scattered(gs []gathering) bool {
	for i := range gs {
		if i > 0 && !slices.ContainsFunc(gs[:i], func(o gathering) bool { return meet(o.classes, gs[i].classes) }) {
			return true
		}
	}
	return false
}

// enclosures returns one confinement for each of the largest domains that a party may use, if the
// party needs several smaller domains inside. An example is a set of jobs in one zone, where each
// job needs a rack. If the party needs only one domain, the result is empty.
func (t *simulation) enclosures(ws []want) []confinement {
	gs := t.gatherings(ws)
	if !scattered(gs) {
		return nil
	}
	// A gathering that shares a class with gatherings of larger domains is inside their domains. So
	// one of the largest domains contains all gatherings.
	around := gathering{domains: gs[len(gs)-1].domains, count: gs[len(gs)-1].count}
	for _, w := range ws {
		around.classes = append(around.classes, w.class)
	}
	nodes := t.byDomain(&around)
	var out []confinement
	for _, d := range t.roomyDomains(&around, nodes, ws) {
		c := make(confinement, len(ws))
		for i, w := range ws {
			c[i] = held{w.class, nodes[d]}
		}
		out = append(out, c)
	}
	return out
}

// inside returns the simulation restricted to the nodes of a confinement.
func (t *simulation) inside(enclosure confinement) *simulation {
	u := *t
	u.problem = t.on(enclosure[0].nodes)
	return &u
}

// packApart places each party with packInTurn, in the party's own domains. If there is only one
// party, it tries one enclosure after the other.
func (t *simulation) packApart(ws []want) ([]placement, bool) {
	parties := t.parties(ws)
	if len(parties) == 1 {
		for _, within := range t.enclosures(ws) {
			if placements, ok := t.inside(within).packInTurn(ws); ok {
				return placements, true
			}
		}
		return nil, false
	}
	var all []placement
	ok := inTurn(t.hardestParties(parties), func(party []want) bool {
		placements, ok := t.packInTurn(party)
		all = append(all, placements...)
		return ok
	}, func() {
		t.unplaceAll(all)
		all = nil
	})
	return all, ok
}

// inTurn places parties one after the other. If a party finds no room, it is the first party in the
// next attempt. If the party was already the first in an earlier attempt, inTurn returns false,
// because the parties block each other in any order.
func inTurn(parties [][]want, place func(party []want) bool, undo func()) bool {
	parties = slices.Clone(parties)
	for first := range partyStarts {
		at := slices.IndexFunc(parties, func(party []want) bool { return !place(party) })
		if at < 0 {
			return true
		}
		undo()
		if at == 0 || at < first {
			return false
		}
		hard := parties[at]
		parties = slices.Insert(slices.Delete(parties, at, at+1), 0, hard)
	}
	return false
}

// hardestParties sorts parties by the number of domains where they fit, the fewest first, then by
// the number of places per member. The party without a shared domain comes last.
func (t *simulation) hardestParties(parties [][]want) [][]want {
	type candidate struct {
		party   []want
		domains int
		places  float64
	}
	candidates := make([]candidate, len(parties))
	for i, party := range parties {
		c := candidate{party: party, domains: math.MaxInt, places: math.Inf(1)}
		if gs := t.gatherings(party); len(gs) > 0 {
			g := &gs[0]
			if scattered(gs) {
				g = &gs[len(gs)-1]
			}
			c.domains = len(t.roomyDomains(g, t.byDomain(g), party))
		}
		for _, w := range party {
			c.places = min(c.places, t.placesFor(w, total(party)))
		}
		candidates[i] = c
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.domains, b.domains), cmp.Compare(a.places, b.places))
	})
	hardest := make([][]want, len(parties))
	for i := range candidates {
		hardest[i] = candidates[i].party
	}
	return hardest
}
