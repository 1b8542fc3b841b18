package core

import (
	"cmp"
	"math"
	"slices"
)

// Classes that no rule ties to each other, such as the jobs of a set that each have to be in one rack, are parties: they
// choose their domains one after the other, in the room that those before them have left.

// partyStarts is how often parties begin at most, as long as there is no room left for one of them.
const partyStarts = 4

// parties parts the classes that are wanted by the gatherings that tie them; those in none are the last party. There is a
// single one, of all that is wanted, where everything that has to be together is held to its domains at once.
func (v *view) parties(ws []want) [][]want {
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

// scattered reports whether what has to be together may be in several places: some gathering has no class in common with
// those of smaller domains, and need not be around them.
func scattered(gs []gathering) bool {
	for i := range gs {
		if i > 0 && !slices.ContainsFunc(gs[:i], func(o gathering) bool { return meet(o.classes, gs[i].classes) }) {
			return true
		}
	}
	return false
}

// enclosures are the ways to hold a party to one of the largest domains that it has to share, where several places are to
// be found in it: the jobs of a set that each have to be in one rack, and all of them in one zone. Elsewhere there are none.
func (t *simulation) enclosures(ws []want) []confinement {
	gs := t.gatherings(ws)
	if !scattered(gs) {
		return nil
	}
	// What shares a class with something in a domain is in the domains around it, so one of the largest holds all.
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

// inside is the same simulation for those who see the nodes of an enclosure only.
func (t *simulation) inside(enclosure confinement) *simulation {
	u := *t
	u.view = t.on(enclosure[0].nodes)
	return &u
}

// packApart is packInTurn for parties, each of which is held to domains by itself.
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

// inTurn has parties placed one after the other. One that those before it have left no room for goes first the next time, as
// long as it has not done so before: then the parties before it are in its way in any order.
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

// hardestParties has the parties choose first that the fewest domains have room for, and of others those with the fewest
// places for each member, which are the largest. The party that has to share no domain comes last.
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
