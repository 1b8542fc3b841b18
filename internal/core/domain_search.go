package core

import (
	"cmp"
	"slices"
	"strings"
)

// domainEffort is the maximum number of units and nodes that the searches of all domains may look
// at together. At least leastDomains domains are searched. Only large clusters with many equal
// domains reach the maximum.
const domainEffort, leastDomains = 20_000_000, 64

// domainOutcome is the result of the search in one domain.
type domainOutcome struct {
	domain *domain
	// members is the number of members that fit in the domain if all potential victims are evicted.
	// It is at most the number that the gang needs.
	members int
	// victims are the units to evict; nil if the policy allows no set of victims in the domain.
	victims []int32
	// score is the cost of the victims; nil if the policy allows no set of victims in the domain.
	score *Score
	// least has the lower bounds of a domain that the search skipped because it cannot be better;
	// nil for other domains.
	least *domainProspect
}

// cheapestDomain searches one domain at a time with the function one, and returns the cheapest
// outcome. Among equal outcomes, it prefers the fullest domain (compareRoom). It starts with the
// domain with the lowest bounds, and skips domains that cannot be better than the best outcome. The
// maximum effort (domainEffort) applies only after a search has found an outcome.
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

// domainSearch is the state of cheapestDomain.
type domainSearch struct {
	*search
	bounds *domainBounds
	// prospects are the domains where the gang fits if all potential victims are evicted. They are
	// sorted by their lower bounds.
	prospects []domainProspect
	outcomes  []domainOutcome
	best      found
	// of is the prospect of the best outcome.
	of  *domainProspect
	any bool
}

// list computes the prospects. Other domains get an outcome without victims.
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

// try searches a domain with the function one, and keeps the outcome if it is the best so far.
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

// againstBest compares the lower bounds of a domain with the best outcome so far. The result is
// positive if the domain cannot be better. It is 0 if the domain's bounds equal the best outcome by
// the leading criteria.
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

// mayBeBetter reports whether a domain may be better than the best outcome by the later criteria,
// if its leading criteria are equal.
func (ds *domainSearch) mayBeBetter(pr *domainProspect) bool {
	best, tie := &ds.best.score, ds.bounds.tie(pr)
	return cmp.Or(
		cmp.Compare(tie.broken, best.BrokenGangs), cmp.Compare(best.Surplus, min(tie.surplus, best.Pods)),
		cmp.Compare(tie.repeated, best.Repeated), cmp.Compare(best.EarliestStart, tie.start), pr.compareRoom(ds.of),
	) < 0
}

// compareRoom compares domains by the number of free places; the fullest domain, with the fewest
// places, comes first. Ties are broken by more nodes, then by name.
func (pr *domainProspect) compareRoom(o *domainProspect) int {
	return cmp.Or(
		cmp.Compare(pr.places, o.places), cmp.Compare(len(o.domain.nodes), len(pr.domain.nodes)),
		strings.Compare(pr.domain.name, o.domain.name))
}
