package core

import (
	"cmp"
	"slices"
	"strings"
)

// domainEffort bounds how many units and nodes the searches of domains may look at together. At
// least leastDomains are searched. Only large clusters with many equal domains reach the bound.
const domainEffort, leastDomains = 20_000_000, 64

// domainOutcome is the result of searching one domain.
type domainOutcome struct {
	domain *domain
	// members is how many members the domain has room for with all potential victims evicted, at
	// most the number that is needed.
	members int
	// victims are the units to evict, and score is their cost; nil if no allowed set was found.
	victims []int32
	score   *Score
	// least has the bounds of a domain that was not searched because it cannot be better; nil for
	// other domains.
	least *domainProspect
}

// cheapestDomain searches the domains one by one and returns the cheapest outcome. Among equals, it
// chooses the fullest domain (compareRoom). Domains are searched in the order of their lower
// bounds, until the best outcome beats every remaining bound. The number of searches is limited
// only once one has found an outcome.
func (sr *search) cheapestDomain(one func(sub *search) (found, bool)) (found, bool) {
	ds := &domainSearch{search: sr, bounds: sr.newDomainBounds()}
	ds.list()
	left := max(domainEffort/max(len(sr.s.Units)+len(sr.s.Nodes), 1), leastDomains)
	for i := range ds.prospects {
		pr := &ds.prospects[i]
		c := ds.againstBest(pr)
		if (left > 0 || !ds.any) && (c < 0 || c == 0 && ds.mayBeBetter(pr)) {
			left--
			ds.try(pr, one)
		} else {
			ds.outcomes = append(ds.outcomes, domainOutcome{domain: pr.domain, members: ds.bounds.need, least: pr})
		}
	}
	ds.best.compared = ds.outcomes
	return ds.best, ds.any
}

// domainSearch is the comparison of domains.
type domainSearch struct {
	*search
	bounds *domainBounds
	// prospects are the domains that have room with all potential victims evicted, those with the
	// lowest bounds first.
	prospects []domainProspect
	outcomes  []domainOutcome
	best      found
	// of is the prospect of the best outcome.
	of  *domainProspect
	any bool
}

// list finds the prospects.
func (ds *domainSearch) list() {
	for i := range ds.v.domains {
		d := &ds.v.domains[i]
		members := ds.bounds.membersUpTo(d, ds.bounds.top())
		if members < ds.bounds.need {
			ds.outcomes = append(ds.outcomes, domainOutcome{domain: d, members: members})
			continue
		}
		ds.prospects = append(ds.prospects, ds.bounds.prospect(d))
	}
	slices.SortFunc(ds.prospects, func(a, b domainProspect) int { return a.compare(&b) })
}

// compare orders prospects by their bounds.
func (pr *domainProspect) compare(o *domainProspect) int {
	return cmp.Or(
		cmp.Compare(pr.ceiling, o.ceiling), cmp.Compare(pr.lost, o.lost), cmp.Compare(pr.sum, o.sum), cmp.Compare(pr.pods, o.pods),
		pr.compareRoom(o),
	)
}

// try searches a domain and keeps the outcome if it is the best so far.
func (ds *domainSearch) try(pr *domainProspect, one func(sub *search) (found, bool)) {
	sub := ds.within(pr.domain)
	f, ok := one(sub)
	ds.refused = cmp.Or(ds.refused, sub.refused)
	out := domainOutcome{domain: pr.domain, members: ds.bounds.need}
	if ok {
		score := f.score
		out.score, out.victims = &score, f.victims
	}
	ds.outcomes = append(ds.outcomes, out)
	if !ok || ds.any && cmp.Or(better(f.score, ds.best.score), pr.compareRoom(ds.of)) >= 0 {
		return
	}
	f.domain = pr.domain
	ds.best, ds.of, ds.any = f, pr, true
}

// againstBest compares the bounds of a domain with the best outcome so far. It is positive if the
// domain cannot be better, and 0 if the domain is no better by the leading criteria.
func (ds *domainSearch) againstBest(pr *domainProspect) int {
	best := &ds.best.score
	if !ds.any || best.BrokenBudgets > 0 {
		return -1
	}
	return cmp.Or(
		cmp.Compare(pr.ceiling, best.HighestPriority), cmp.Compare(pr.lost, best.LostWork),
		cmp.Compare(pr.sum, best.PrioritySum), cmp.Compare(pr.pods, best.Pods),
	)
}

// mayBeBetter reports whether a domain with the same cost as the best one by the leading criteria
// may still be better.
func (ds *domainSearch) mayBeBetter(pr *domainProspect) bool {
	best, tie := &ds.best.score, ds.bounds.tie(pr)
	return cmp.Or(
		cmp.Compare(tie.broken, best.BrokenGangs), cmp.Compare(best.Surplus, min(tie.surplus, best.Pods)),
		cmp.Compare(best.EarliestStart, tie.start), pr.compareRoom(ds.of),
	) < 0
}

// compareRoom puts the fullest domain first: it has the fewest free places, and of equals the most
// nodes. The last criterion is the name.
func (pr *domainProspect) compareRoom(o *domainProspect) int {
	return cmp.Or(
		cmp.Compare(pr.places, o.places), cmp.Compare(len(o.domain.nodes), len(pr.domain.nodes)),
		strings.Compare(pr.domain.name, o.domain.name))
}
