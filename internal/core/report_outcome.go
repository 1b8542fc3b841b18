package core

import (
	"cmp"
	"math"
	"slices"
)

// capUnits is the maximum number of units that a list in a Decision names.
const capUnits = 20

// capElsewhere is the maximum number of reprieved units on other nodes that a Decision names.
const capElsewhere = 10

func (sr *search) placed(o Outcome, placements []placement) Decision {
	d := Decision{Outcome: o, Preemptor: *sr.p, Placements: placementsOf(sr.v, placements), Domain: sr.domainOf(placements)}
	d.Message = sentence(&d)
	return d
}

func (sr *search) preempting(f found) Decision {
	if len(f.victims) == 0 {
		// The list of victims is empty: the oracle rejected the placement earlier in the search and
		// accepts it now. So no eviction is needed.
		return sr.placed(Waits, f.placements)
	}
	score := scoreOf(sr.whole.s, f.victims)
	ceiling, lost := score.HighestPriority, sr.reportedLosses()
	d := Decision{
		Outcome:        Preempts,
		Preemptor:      *sr.p,
		Placements:     placementsOf(sr.v, f.placements),
		Victims:        sr.victimsOf(f.victims, lost),
		BrokenGangs:    sr.gangRefs(f.victims, lost),
		Reprieved:      sr.policy.potential() - len(f.victims),
		ReprievedUnits: sr.reprievedUnits(f),
		ElsewhereUnits: sr.elsewhereUnits(f),
		Protected:      sr.protectedCounts(),
		ProtectedUnits: sr.protectedUnits(),
		Ceiling:        &ceiling,
		Score:          &score,
		LostWork:       lost.together(f.victims),
		Cascade:        sr.cascadeOf(&f),
		NodesOut:       sr.nodesRuledOut(),
		Domain:         sr.domainOf(f.placements),
	}
	d.Message = sentence(&d)
	if len(sr.p.Preferred) > 0 {
		sr.whole.cost = sr.costOf(f.victims, score)
	}
	return d
}

// costOf returns the cost of victims for the comparison of levels. score is their score by
// priority. With priority bands, the bands replace the priorities. With queuePolicy, the result is
// score itself: sr.s has ranks in place of priorities, and ranks differ between searches.
func (sr *search) costOf(victims []int32, score Score) Score {
	if _, inQueues := sr.policy.(*queuePolicy); inQueues || len(sr.p.Bands) == 0 {
		return score
	}
	return scoreOf(sr.s, victims)
}

// reprievedUnits lists the reprieved units on the preemptor's nodes, most important first.
func (sr *search) reprievedUnits(f found) []UnitRef {
	victims := make(map[int32]bool, len(f.victims))
	for _, u := range f.victims {
		victims[u] = true
	}
	s := sr.whole.s
	top := topUnits{s: s, sign: 1, most: capUnits}
	seen := make(map[int32]bool)
	for _, st := range f.placements {
		if seen[st.node] {
			continue
		}
		seen[st.node] = true
		for _, u := range slices.Backward(sr.policy.potentialOn(st.node)) {
			if !victims[u] && !top.add(u) {
				break
			}
		}
	}
	refs := make([]UnitRef, 0, len(top.units))
	for _, u := range top.units {
		refs = append(refs, refOf(&s.Units[u]))
	}
	return refs
}

// elsewhereUnits lists potential victims on other nodes, least important first. When the list is
// full, it skips nodes whose units all have higher or equal priorities. So the list may lack a unit
// that has the same priority as its last entry and is less important.
func (sr *search) elsewhereUnits(f found) []ElsewhereUnit {
	chosen := make(map[int32]bool, len(f.placements))
	for _, st := range f.placements {
		chosen[st.node] = true
	}
	s, c := sr.whole.s, sr.whole.v.c
	isElsewhere := func(u int32) bool {
		pods := s.Units[u].Pods
		for i := range pods {
			if chosen[int32(pods[i].Node)] {
				return false
			}
		}
		return !slices.Contains(f.victims, u)
	}
	type site struct{ unit, node int32 }
	top, sites := topUnits{s: s, sign: -1, most: capElsewhere}, make([]site, 0, 2*capElsewhere)
	enough := int64(math.MaxInt64)
	for _, n := range c.byName {
		if int64(c.lowest[n]) >= enough || chosen[n] {
			continue
		}
		for _, u := range sr.policy.potentialOn(n) {
			if !isElsewhere(u) {
				continue
			}
			if !top.add(u) {
				break
			}
			sites = append(sites, site{u, n})
			if len(top.units) == capElsewhere {
				enough = int64(s.Units[top.units[capElsewhere-1]].Priority)
			}
		}
	}
	out := make([]ElsewhereUnit, 0, len(top.units))
	for _, i := range top.units {
		u, at := &s.Units[i], slices.IndexFunc(sites, func(at site) bool { return at.unit == i })
		out = append(out, ElsewhereUnit{UnitRef: refOf(u), Node: s.Nodes[sites[at].node].Name, Pods: len(u.Pods), Start: u.Start})
	}
	return out
}

// protectedUnits lists the protected units that would be evicted first without protection.
func (sr *search) protectedUnits() []ProtectedUnit {
	named := sr.policy.named()
	units := make([]ProtectedUnit, 0, len(named))
	for _, u := range named {
		verdict := judge(sr.policy, u)
		units = append(units, ProtectedUnit{
			UnitRef: refOf(&sr.s.Units[u]), Rule: verdict.Rule, Until: verdict.Until, Queue: verdict.Queue,
		})
	}
	return units
}

// topUnits collects the most important units if sign is 1, or the least important units if sign is
// -1.
type topUnits struct {
	s    *Snapshot
	sign int
	// most is the maximum number of units in the list.
	most  int
	units []int32
}

// add inserts a unit in order. It returns false if the list is full and the unit comes after its
// last entry. The caller can then skip all units that come after this unit.
func (t *topUnits) add(u int32) bool {
	compare := func(a, b int32) int { return t.sign * compareUnits(t.s, a, b) }
	if len(t.units) == t.most && compare(u, t.units[t.most-1]) > 0 {
		return false
	}
	at, found := slices.BinarySearchFunc(t.units, u, compare)
	if !found {
		t.units = slices.Insert(t.units, at, u)
		t.units = t.units[:min(len(t.units), t.most)]
	}
	return true
}

func (sr *search) protectedCounts() []RuleCount {
	return ruleCounts(sr.policy.protected())
}

// ruleCounts converts counts to a list, sorted by rule.
func ruleCounts(units map[Rule]int) []RuleCount {
	var rows []RuleCount
	for rule, n := range units {
		rows = append(rows, RuleCount{Rule: rule, Units: n})
	}
	slices.SortFunc(rows, func(a, b RuleCount) int { return cmp.Compare(a.Rule, b.Rule) })
	return rows
}

// infeasible returns the Decision for a preemptor without room. Its message describes the room that
// is missing if all potential victims are evicted.
func (sr *search) infeasible() Decision {
	if sr.outcomeOnly {
		return Decision{Outcome: Infeasible}
	}
	d := Decision{
		Outcome: Infeasible, Preemptor: *sr.p, RetryAt: sr.retryAt(), Reprieved: sr.policy.potential(),
		Protected: sr.protectedCounts(), ProtectedUnits: sr.protectedUnits(),
	}
	t := newSimulation(sr.v, sr.v.c.later)
	if t.anyStateful {
		pool := t.eligible(int32(t.victims.below - 1))
		t.removeAll(pool)
		defer t.restoreAll(pool)
	} else {
		t.clearBelow(t.victims.below)
	}
	when := asThingsAre
	if sr.v.victims.count > 0 {
		when = afterPreemption
	}
	sr.missing(&d, t, when)
	d.Message = sr.withProtection(d.RetryAt, d.Message)
	return d
}

// infeasibleAsIs returns the Decision for a preemptor that must not evict any unit. Its message
// describes the room that is missing now.
func (sr *search) infeasibleAsIs() Decision {
	d := Decision{Outcome: Infeasible, Preemptor: *sr.p}
	if sr.outcomeOnly {
		return d
	}
	sr.missing(&d, newSimulation(sr.v, sr.v.c.later), asThingsAre)
	return d
}

// Phrases in messages about missing room. With asThingsAre, no unit counts as evicted. With
// afterPreemption, all potential victims count as evicted.
const asThingsAre, afterPreemption = "as things are", "after preemption"

// missing sets the message and NodesOut, for the current state of t. For a gang that requires a
// domain, the message describes the domain with the most room.
func (sr *search) missing(d *Decision, t *simulation, when string) {
	every := t.hardestFirst(allMembers(sr.p.Classes))
	d.NodesOut = sr.nodesOut(t, every)
	unplaceable := t.unplaceable(every)
	where := ""
	if roomiest := sr.roomiest(t, max(sr.p.MinCount, 1)); roomiest != nil {
		d.Domain = sr.domainOf(nil)
		where = sr.p.Domain.roomiestPhrase(d.Domain, roomiest)
		u := *t
		u.problem = t.inNodesOf(roomiest)
		t = &u
	}
	m := need{where: where, members: max(sr.p.MinCount, 1), placed: sr.roomOn(t), when: when, nodes: len(sr.v.c.byName), unplaceable: unplaceable}
	if len(every) == 1 && m.placed < m.members {
		sr.scarcest(t, every[0].class, &m)
	}
	if sr.refused != nil {
		m.but = sr.refused.bound.sentence()
	}
	d.Message = m.sentence(d)
}

// scarcest finds the resource that allows the fewest members of a class if only this resource is
// considered. It sets the resource in m if fewer than m.members fit.
func (sr *search) scarcest(t *simulation, class int, m *need) {
	fewest := m.members
	for r, wanted := range t.wanted[class] {
		if wanted <= 0 {
			continue
		}
		members, perNode := 0, true
		for _, n := range t.c.byName {
			if t.c.sound[n] && t.admitsNode(class, n) {
				members += howMany(t.wanted[class][r:r+1], t.freeOf(n)[r:r+1], m.members)
			}
			all := sr.s.Nodes[n].Allocatable[r]
			perNode = perNode && wanted > all/2
		}
		if members < fewest {
			fewest, m.resource, m.amount, m.perNode = members, sr.s.Resources[r], sr.p.Classes[class].Request[r], perNode
		}
	}
	if m.resource != "" {
		m.placed = min(m.placed, fewest)
	}
}
