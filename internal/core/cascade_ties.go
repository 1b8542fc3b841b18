package core

import (
	"cmp"
	"slices"
)

// cascadeNodes is the maximum number of nodes whose outcomes are compared by the evictions of the
// victims' replacements. cascadeDomains is the same maximum for domains.
const cascadeNodes, cascadeDomains = 64, 16

// tied returns the outcomes on other nodes, or in other required domains, whose cost equals the
// cost of f by all criteria before the cascade. They are sorted by the later criteria, the lowest
// cost first. For a gang without a required domain, the result is empty.
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

// tiedNodes returns the tied outcomes of a single pod, at most one per node: the cheapest set of
// victims there.
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

// tiedDomains returns the tied outcomes of a gang with a required domain, at most one per domain:
// the result of a search in that domain.
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
