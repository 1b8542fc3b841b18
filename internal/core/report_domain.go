package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// capDomains is the maximum number of other domains that a Decision names.
const capDomains = 5

// DomainChoice describes the choice of a domain for a gang that requires one.
type DomainChoice struct {
	// Key is the label.
	Key string `json:"key"`
	// Name is the domain of the placements; "" if the gang is infeasible.
	Name string `json:"name,omitempty"`
	// Domains is the number of domains that the members may use, with or without enough room.
	Domains int `json:"domains"`
	// Obstacle is the reason why no domain was searched; "" if domains were searched.
	Obstacle DomainObstacle `json:"obstacle,omitempty"`
	// Others are the best other domains, up to a maximum number. The cheapest domains come first,
	// then the domains with room for the most members.
	Others []OtherDomain `json:"others,omitempty"`
}

// OtherDomain is a domain that was not chosen.
type OtherDomain struct {
	Name string `json:"name"`
	// Members is the number of members that fit in the domain if all potential victims are evicted.
	// It is at most the number that the gang needs.
	Members int `json:"members"`
	// Now is the number of members that fit in the domain without evictions. It is at most the
	// number that the gang needs.
	Now int `json:"now"`
	// InTheWay counts, by rule, the protected units in the domain. It is set if the domain has too
	// little room.
	InTheWay []RuleCount `json:"inTheWay,omitempty"`
	// Units is the number of units that would be evicted in the domain. It is omitted in three
	// cases: there is too little room, the policy allows no set of units, or the search skipped the
	// domain.
	Units int `json:"units,omitempty"`
	// Score is the cost of the units that Units counts. It is nil in the three cases that the
	// comment of Units lists.
	Score *Score `json:"score,omitempty"`
	// AtLeast is a lower bound of the cost, if the search skipped the domain because it cannot be
	// cheaper; nil for other domains.
	AtLeast *LeastCost `json:"atLeast,omitempty"`
}

// LeastCost is a lower bound of the cost of a domain.
type LeastCost struct {
	// HighestPriority is a lower bound of the highest priority of a victim. It is nil with queues,
	// because the order of victims then does not depend on priorities alone.
	HighestPriority *int32 `json:"highestPriority,omitempty"`
	// Pods is a lower bound of the number of the victims' pods.
	Pods int `json:"pods"`
	// LostWork is a lower bound of [Score.LostWork], in milli-device-seconds; 0 if the search does
	// not compare lost work.
	LostWork int64 `json:"lostWork,omitempty"`
}

// withoutDomain returns an Infeasible Decision for a gang that requires a domain but may use none.
func (sr *search) withoutDomain() (Decision, bool) {
	r := sr.p.Domain
	if r == nil || len(sr.v.c.byName) == 0 {
		return Decision{}, false
	}
	o := r.obstacle(sr.v.domains)
	if o == "" {
		return Decision{}, false
	}
	return Decision{
		Outcome: Infeasible, Preemptor: *sr.p, Message: r.sentence(o),
		Domain: &DomainChoice{Key: r.Key, Domains: len(sr.v.domains), Obstacle: o},
	}, true
}

// domainOf returns the choice of the domain for the placements. It includes the other domains that
// the search compared.
func (sr *search) domainOf(placements []placement) *DomainChoice {
	r := sr.p.Domain
	if r == nil {
		return nil
	}
	c := &DomainChoice{Key: r.Key, Domains: len(sr.whole.v.domains)}
	if len(placements) > 0 {
		c.Name = r.Of[placements[0].node]
	}
	outcomes := slices.Clone(sr.compared)
	slices.SortFunc(outcomes, compareOutcomes)
	for i := range outcomes {
		o := &outcomes[i]
		if len(c.Others) == capDomains {
			break
		}
		if o.domain.name != c.Name {
			c.Others = append(c.Others, sr.otherDomain(o))
		}
	}
	return c
}

// otherDomain converts the outcome of a domain for a Decision. If the search used ranks in place of
// priorities, it omits the ranks, because they mean nothing to users.
func (sr *search) otherDomain(o *domainOutcome) OtherDomain {
	other := OtherDomain{Name: o.domain.name, Members: o.members, Now: sr.whole.membersNow(o.domain)}
	if o.members < max(sr.p.MinCount, 1) {
		other.InTheWay = sr.inTheWay(o.domain)
	}
	if o.score != nil {
		score := scoreOf(sr.whole.s, o.victims)
		other.Units, other.Score = len(o.victims), &score
	}
	if o.least != nil {
		other.AtLeast = &LeastCost{Pods: o.least.pods, LostWork: o.least.lost}
		if sr.s.ranks == nil {
			ceiling := o.least.ceiling
			other.AtLeast.HighestPriority = &ceiling
		}
	}
	return other
}

// inTheWay counts the protected units of a domain, by rule.
func (sr *search) inTheWay(d *domain) []RuleCount {
	if sr.policy == nil {
		return nil
	}
	seen, counts := make(map[int32]bool), make(map[Rule]int)
	for _, n := range d.nodes {
		for _, u := range sr.whole.v.c.nodes[n].units {
			if seen[u] {
				continue
			}
			seen[u] = true
			if v := judge(sr.policy, u); !v.Eligible {
				counts[v.Rule]++
			}
		}
	}
	return ruleCounts(counts)
}

// compareOutcomes sorts domains. Domains with an outcome come first, by cost. Then come domains
// that were not searched, by lower bound. The rest follows, by the number of members that fit.
func compareOutcomes(a, b domainOutcome) int {
	kind := func(o *domainOutcome) int {
		switch {
		case o.score != nil:
			return 0
		case o.least != nil:
			return 1
		default:
			return 2
		}
	}
	c := cmp.Compare(kind(&a), kind(&b))
	switch {
	case c == 0 && a.score != nil:
		c = better(*a.score, *b.score)
	case c == 0 && a.least != nil:
		c = a.least.compare(b.least)
	}
	return cmp.Or(c, cmp.Compare(b.members, a.members), strings.Compare(a.domain.name, b.domain.name))
}

// roomiest returns the domain where the most members fit in the current state of the simulation t.
// Of several such domains, it returns the first by name. It sets sr.compared to the number of
// members for each domain. If exact numbers need a placement, sr.compared has only the domains with
// the highest bounds.
func (sr *search) roomiest(t *simulation, need int) *domain {
	compared := make([]domainOutcome, len(sr.v.domains))
	for i := range sr.v.domains {
		d := &sr.v.domains[i]
		fit, _ := t.placesIn(d, t.free)
		compared[i] = domainOutcome{domain: d, members: fit}
	}
	// The domains are sorted by name, so the first of equals by name stays first.
	slices.SortStableFunc(compared, func(a, b domainOutcome) int { return cmp.Compare(b.members, a.members) })
	if sr.v.placesAreBounds() {
		compared = compared[:min(len(compared), capDomains)]
		for i := range compared {
			compared[i].members = min(compared[i].members, sr.roomIn(t, compared[i].domain))
		}
		slices.SortStableFunc(compared, func(a, b domainOutcome) int { return cmp.Compare(b.members, a.members) })
	}
	var best *domain
	if len(compared) > 0 {
		best = compared[0].domain
	}
	for i := range compared {
		compared[i].members = min(compared[i].members, need)
	}
	sr.compared = compared
	return best
}

// placesAreBounds reports whether placesIn may return more members than fit together. Members of
// several classes may compete for the same room, and filters may depend on other members.
func (v *problem) placesAreBounds() bool { return v.anyStateful || len(v.wanted) > 1 }

// roomIn returns the number of needed members that fit together in a domain. The current state of t
// has the free room.
func (sr *search) roomIn(t *simulation, d *domain) int {
	u := *t
	u.problem = t.inNodesOf(d)
	return sr.roomOn(&u)
}

// roomOn returns the number of needed members that fit together on the nodes of t.
func (sr *search) roomOn(t *simulation) int {
	wanted := t.hardestFirst(allMembers(sr.p.Classes))
	if sr.p.MinCount == 0 {
		placements := t.most(wanted)
		t.unplaceAll(placements)
		return min(len(placements), 1)
	}
	placements := t.most(sr.p.upTo(wanted, sr.p.neededOfRoles()))
	t.unplaceAll(placements)
	_, lacking := sr.p.firstOfRoles(placements, sr.p.neededOfRoles())
	return sr.p.MinCount - lacking
}

// whereIn returns a phrase that names the domain, for a message.
func (c *DomainChoice) whereIn() string {
	if c == nil || c.Name == "" {
		return ""
	}
	return fmt.Sprintf(" with %s=%s", c.Key, c.Name)
}

// nextBest returns a phrase about the cheapest other domain, for a message; "" if there is none.
func (c *DomainChoice) nextBest() string {
	if c == nil || len(c.Others) == 0 {
		return ""
	}
	switch next := &c.Others[0]; {
	case next.Score != nil:
		return fmt.Sprintf("; in %s it would be %s, of priorities up to %d", next.Name, plural(next.Score.Pods, "pod"), next.Score.HighestPriority)
	case next.AtLeast != nil && next.AtLeast.HighestPriority != nil:
		return fmt.Sprintf("; in %s it would be at least %s, one of priority %d or more", next.Name, plural(next.AtLeast.Pods, "pod"), *next.AtLeast.HighestPriority)
	case next.AtLeast != nil:
		return fmt.Sprintf("; in %s it would be at least %s", next.Name, plural(next.AtLeast.Pods, "pod"))
	default:
		return fmt.Sprintf("; %s has room for %d of them", next.Name, next.Members)
	}
}

// roomiestPhrase returns a phrase that names the domain with the most room. The message continues
// with the missing room.
func (l *TopologyLevel) roomiestPhrase(c *DomainChoice, d *domain) string {
	switch {
	case len(l.Homes) > 0:
		return fmt.Sprintf("in %s=%s, where the other members are, it ", l.Key, d.name)
	case c.Domains == 1:
		return fmt.Sprintf("in %s=%s, the only domain, it ", l.Key, d.name)
	}
	return fmt.Sprintf("no domain of %s has room for the gang; in %s, the one of %d with the most, it ", l.Key, d.name, c.Domains)
}
