package core

import (
	"cmp"
	"slices"
)

// cascadeNodes and cascadeDomains are the most nodes and domains whose outcomes are compared by
// further evictions.
const cascadeNodes, cascadeDomains = 64, 16

// tied returns outcomes on other nodes, or in other required domains, with the same cost as f by
// all criteria before the cascade. Outcomes with a lower cost by the later criteria come first. A
// gang without a required domain has only one outcome.
func (sr *search) tied(f *found) []found {
	switch {
	case !sr.p.Gang:
		return sr.tiedNodes(f)
	case sr.v.domains != nil:
		return sr.tiedDomains(f)
	default:
		return nil
	}
}

// tiedNodes returns the tied outcomes of a single pod. Each node has one outcome: its cheapest set
// of victims.
func (sr *search) tiedNodes(f *found) []found {
	n := sr.newNodeSearch()
	n.best, n.any = *f, true
	for _, node := range n.searched() {
		if node == f.placements[0].node {
			continue
		}
		if pr, ok := n.prospect(node, int64(f.score.HighestPriority)+1); ok && n.againstBest(pr) <= 0 {
			n.prospects = append(n.prospects, pr)
		}
	}
	rank := sr.v.c.rank
	slices.SortFunc(n.prospects, func(a, b prospect) int {
		return cmp.Or(
			cmp.Compare(n.leastRepeated(a), n.leastRepeated(b)), cmp.Compare(n.latestStart(b), n.latestStart(a)), cmp.Compare(rank[a.node], rank[b.node]),
		)
	})
	var out []found
	tries := cascadeNodes
	for _, pr := range n.prospects {
		if tries == 0 {
			break
		}
		if !sr.v.admitsNode(n.class, pr.node) {
			continue
		}
		tries--
		if set, score, ok := n.workOut(pr); ok && score.compareBeforeCascade(f.score) == 0 {
			out = append(out, n.outcome(pr.node, set, score))
		}
	}
	slices.SortFunc(out, func(a, b found) int {
		return cmp.Or(better(a.score, b.score), cmp.Compare(rank[a.placements[0].node], rank[b.placements[0].node]))
	})
	return out
}

// tiedDomains returns the tied outcomes of a gang with a required domain. Each domain has the
// outcome of its own search.
func (sr *search) tiedDomains(f *found) []found {
	ds := &domainSearch{search: sr, bounds: sr.newDomainBounds(), best: *f, any: true}
	ds.list()
	var out []found
	places, tries := make(map[*domain]*domainProspect), cascadeDomains
	for i := range ds.prospects {
		pr := &ds.prospects[i]
		if pr.domain == f.domain || ds.againstBest(pr) > 0 || tries == 0 {
			continue
		}
		tries--
		g, ok := sr.within(pr.domain).wholeCluster()
		if !ok || g.score.compareBeforeCascade(f.score) != 0 || !sr.placeIn(pr.domain, g.ws, &g) {
			continue
		}
		g.domain, places[pr.domain] = pr.domain, pr
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b found) int {
		return cmp.Or(better(a.score, b.score), places[a.domain].compareRoom(places[b.domain]))
	})
	return out
}
