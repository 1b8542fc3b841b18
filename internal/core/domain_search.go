package core

import (
	"cmp"
	"slices"
	"strings"
)

// domainEffort is the most units and nodes that the searches of all domains may look at together.
// At least leastDomains are searched. Only large clusters with many equal domains reach the bound.
const domainEffort, leastDomains = 20_000_000, 64

// domainOutcome is the result of searching one domain.
type domainOutcome struct {
	domain *domain
	// members is the number of members that fit into the domain with all potential victims evicted,
	// at most the number that the gang needs.
	members int
	// victims are the units to evict, and score is their cost; nil if the search found no set of
	// victims that the policy allows.
	victims []int32
	score   *Score
	// least has the bounds of a domain that was not searched because it cannot be better; nil for
	// other domains.
	least *domainProspect
}

// cheapestDomain searches the domains one by one and returns the cheapest outcome. Among equal
// outcomes, it prefers the fullest domain (compareRoom). It searches domains in the order of their
// lower bounds and stops once no remaining bound is better than the best outcome. The limit on
// searches applies only after one of them has found an outcome.
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

// try searches a domain and keeps its outcome if it is the best so far.
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

// againstBest compares the bounds of a domain with the best outcome so far. The result is positive
// if the domain cannot be better. It is 0 if the domain is at best equal by the leading criteria.
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

// mayBeBetter reports whether a domain that equals the best one by the leading criteria may be
// better by the others.
func (ds *domainSearch) mayBeBetter(pr *domainProspect) bool {
	best, tie := &ds.best.score, ds.bounds.tie(pr)
	return cmp.Or(
		cmp.Compare(tie.broken, best.BrokenGangs), cmp.Compare(best.Surplus, min(tie.surplus, best.Pods)),
		cmp.Compare(tie.repeated, best.Repeated), cmp.Compare(best.EarliestStart, tie.start), pr.compareRoom(ds.of),
	) < 0
}

// compareRoom puts the fullest domain first: the one with the fewest free places. Among equals, the
// domain with the most nodes comes first, then the first by name.
func (pr *domainProspect) compareRoom(o *domainProspect) int {
	return cmp.Or(
		cmp.Compare(pr.places, o.places), cmp.Compare(len(o.domain.nodes), len(pr.domain.nodes)),
		strings.Compare(pr.domain.name, o.domain.name))
}
