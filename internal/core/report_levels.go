package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// LevelChoice describes the choice of a domain at one preferred level of a gang.
type LevelChoice struct {
	// Key is the label.
	Key string `json:"key"`
	// Together is true if all members share the domain Name.
	Together bool `json:"together,omitempty"`
	// Name is the domain that the members share. If they are in several domains, it is the cheapest
	// domain of the level; "" if there is none.
	Name string `json:"name,omitempty"`
	// Domains is the number of domains that the members may use.
	Domains int `json:"domains"`
	// Obstacle is the reason why the level cannot be used; "" for none.
	Obstacle DomainObstacle `json:"obstacle,omitempty"`
	// Outcome is the outcome in the cheapest domain. It is "" if the level was not searched. The
	// search skips a level if the chosen level is better regardless of the outcome.
	Outcome Outcome `json:"outcome,omitempty"`
	// Groups is the number of whole PodGroups among the victims in the cheapest domain.
	Groups int `json:"groups,omitempty"`
	// Pods is the number of pods of all victims in the cheapest domain.
	Pods int `json:"pods,omitempty"`
	// Score is the cost of the victims in the cheapest domain; nil without victims.
	Score *Score `json:"score,omitempty"`
	// LostWork is the work that the victims in the cheapest domain would lose, in
	// milli-device-seconds. It is the real loss, as in [Decision.LostWork].
	LostWork int64 `json:"lostWork,omitempty"`
	// Cascade counts the evictions by the replacements of the victims in the cheapest domain; nil
	// if the preemptor does not request the count.
	Cascade *Cascade `json:"cascade,omitempty"`
	// Others are the best other domains of the level, up to a maximum number, sorted like
	// DomainChoice.Others. If the level was not searched, the domains with room for the most
	// members come first.
	Others []OtherDomain `json:"others,omitempty"`
}

// report returns the Decision of the chosen level, with the choices at all preferred levels.
func (ls *levelSearch) report(chosen *level) Decision {
	d, last := *chosen.decision, ls.last()
	d.Preemptor = *last.p
	nodes := last.nodesOf(d.Placements)
	if chosen != last {
		d.Domain = last.domainOfNodes(nodes)
	}
	need := max(last.p.MinCount, 1)
	for i, l := range ls.levels[:len(ls.levels)-1] {
		d.Levels = append(d.Levels, l.choice(&last.p.Preferred[i], nodes))
	}
	if d.Outcome == Infeasible {
		return d
	}
	for i := range d.Levels {
		// Describe the nearest level without a shared domain. If members already run in several
		// domains, the chosen level itself may have no shared domain. Skip the chosen level,
		// because there is no difference to describe.
		if !d.Levels[i].Together && ls.levels[i] != chosen {
			d.Message += d.Levels[i].sentence(&d, need)
			break
		}
	}
	return d
}

// nodesOf returns the distinct nodes of the placements.
func (sr *search) nodesOf(placements []Placement) []int32 {
	used := make(map[string]bool, len(placements))
	for _, p := range placements {
		used[p.Node] = true
	}
	var nodes []int32
	for _, n := range sr.v.c.byName {
		if used[sr.s.Nodes[n].Name] {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// domainOfNodes returns the choice of the required domain, if the search of a preferred level
// placed members on the given nodes. It returns nil for a gang that requires no domain.
func (sr *search) domainOfNodes(nodes []int32) *DomainChoice {
	r := sr.p.Domain
	if r == nil {
		return nil
	}
	c := &DomainChoice{Key: r.Key, Domains: len(sr.v.domains)}
	if len(nodes) > 0 {
		c.Name = r.Of[nodes[0]]
	}
	return c
}

// choice returns the choice at a preferred level, for members on the given nodes.
func (l *level) choice(of *TopologyLevel, nodes []int32) LevelChoice {
	c := LevelChoice{Key: of.Key, Domains: len(l.v.domains)}
	if d := l.decision; d != nil {
		c.Outcome, c.Score, c.Groups, c.Pods, c.Cascade = d.Outcome, d.Score, victimGroups(d), victimPods(d), d.Cascade
		c.LostWork = d.LostWork
		if d.Domain != nil {
			c.Name, c.Others = d.Domain.Name, d.Domain.Others
		}
	} else {
		c.Others = l.roomNow()
	}
	if name, ok := sharedBy(nodes, l.domains.Of); ok && len(of.Homes) <= 1 {
		c.Together, c.Name = true, name
	}
	return c
}

// sharedBy returns the domain that contains all the given nodes. It returns false if there is none.
func sharedBy(nodes []int32, of []string) (string, bool) {
	if len(nodes) == 0 || of[nodes[0]] == "" {
		return "", false
	}
	name := of[nodes[0]]
	return name, !slices.ContainsFunc(nodes, func(n int32) bool { return of[n] != name })
}

// roomNow returns the domains where the most members fit without evictions, up to a maximum number.
func (l *level) roomNow() []OtherDomain {
	domains := make([]*domain, len(l.v.domains))
	most := make(map[*domain]int, len(domains))
	for i := range l.v.domains {
		d := &l.v.domains[i]
		domains[i] = d
		most[d], _ = l.v.placesIn(d, l.v.c.free)
	}
	need := max(l.p.MinCount, 1)
	slices.SortFunc(domains, func(a, b *domain) int {
		return cmp.Or(cmp.Compare(min(most[b], need), min(most[a], need)), strings.Compare(a.name, b.name))
	})
	var out []OtherDomain
	for _, d := range domains[:min(len(domains), capDomains)] {
		room := l.membersNow(d)
		out = append(out, OtherDomain{Name: d.name, Now: room, Members: room})
	}
	slices.SortStableFunc(out, func(a, b OtherDomain) int { return cmp.Compare(b.Now, a.Now) })
	return out
}

// membersNow returns the number of members that fit together in a domain without evictions, at most
// the number that the gang needs.
func (sr *search) membersNow(d *domain) int {
	fit, _ := sr.v.placesIn(d, sr.v.c.free)
	if fit > 0 && sr.v.placesAreBounds() {
		fit = min(fit, sr.roomIn(newSimulation(sr.v, sr.v.c.free), d))
	}
	return min(fit, max(sr.p.MinCount, 1))
}

func victimGroups(d *Decision) (groups int) {
	for i := range d.Victims {
		if d.Victims[i].Group {
			groups++
		}
	}
	return groups
}

func victimPods(d *Decision) (pods int) {
	for i := range d.Victims {
		pods += len(d.Victims[i].Pods)
	}
	return pods
}

// sentence returns the end of a message for a gang whose members are in several domains of the
// level. It describes the cheapest domain.
func (c *LevelChoice) sentence(d *Decision, need int) string {
	switch {
	case c.Score != nil && c.Outcome == Preempts:
		return fmt.Sprintf("; %s %s would have cost %s", c.Key, c.Name, c.difference(d))
	case len(c.Others) == 0:
		return ""
	case c.Outcome == "":
		return fmt.Sprintf("; %s %s has room for %d of %d now, the most of its level", c.Key, c.Others[0].Name, c.Others[0].Members, need)
	default:
		return fmt.Sprintf("; %s %s has room for %d of %d after preemption, the most of its level", c.Key, c.Others[0].Name, c.Others[0].Members, need)
	}
}

// difference returns a phrase for the additional cost of the cheapest domain of the level, compared
// with the decision. It names the first criterion that differs. The comparison counts lost work in
// steps and with a cost for each pod, but the phrase has the real device-hours. If these are not
// higher, it names a later criterion that explains the cost.
func (c *LevelChoice) difference(d *Decision) string {
	less := noVictims()
	if d.Score != nil {
		less = *d.Score
	}
	switch groups, pods := c.Groups-victimGroups(d), c.Pods-victimPods(d); {
	case c.Score.BrokenBudgets > less.BrokenBudgets:
		return verb(c.Score.BrokenBudgets-less.BrokenBudgets, "broken disruption budget more", "broken disruption budgets more")
	case c.Score.HighestPriority > less.HighestPriority:
		return fmt.Sprintf("%s, of priorities up to %d", plural(c.Pods, "pod"), c.Score.HighestPriority)
	case c.Score.LostWork > less.LostWork && c.LostWork > d.LostWork:
		return hoursPhrase(c.LostWork-d.LostWork) + " more"
	case groups > 0:
		return verb(groups, "group more", "groups more")
	case pods > 0:
		return verb(pods, "pod more", "pods more")
	case c.Score.LostWork > less.LostWork:
		return fmt.Sprintf("%s, whose lost work counts more in whole steps", plural(c.Pods, "pod"))
	case c.Score.PrioritySum > less.PrioritySum:
		return fmt.Sprintf("%s of higher priorities", plural(c.Pods, "pod"))
	case c.Score.BrokenGangs > less.BrokenGangs:
		return verb(c.Score.BrokenGangs-less.BrokenGangs, "gang below minCount more", "gangs below minCount more")
	case c.Score.Surplus < less.Surplus:
		return verb(less.Surplus-c.Score.Surplus, "pod more that its gang needs", "pods more that their gangs need")
	case c.Cascade != nil && d.Cascade != nil && c.Score.compareBeforeCascade(less) == 0 && c.Cascade.Evictions > d.Cascade.Evictions:
		return verb(c.Cascade.Evictions-d.Cascade.Evictions, "eviction by replacements more", "evictions by replacements more")
	default:
		// With queues, victims with another rule or queue cannot be compared by cost.
		return fmt.Sprintf("%s of another rule, queue or start", plural(c.Pods, "pod"))
	}
}
