package core

import (
	"cmp"
	"slices"
)

// capUnits is how many units a Decision names where it counts them all.
const capUnits = 20

func (sr *search) placed(o Outcome, seats []seat) Decision {
	d := Decision{Outcome: o, Preemptor: *sr.p, Placements: placementsOf(sr.v, seats)}
	d.Message = sentence(&d)
	return d
}

func (sr *search) preempting(f found) Decision {
	if len(f.victims) == 0 {
		// The oracle refused before and does not now: then there is nothing to take.
		return sr.placed(Waits, f.seats)
	}
	score := sr.score(f)
	ceiling := score.HighestPriority
	d := Decision{
		Outcome:        Preempts,
		Preemptor:      *sr.p,
		Placements:     placementsOf(sr.v, f.seats),
		Victims:        sr.victimsOf(f.victims),
		Reprieved:      sr.mayGo() - len(f.victims),
		ReprievedUnits: sr.reprievedUnits(f),
		Protected:      sr.protectedCounts(),
		ProtectedUnits: sr.protectedUnits(),
		Ceiling:        &ceiling,
		Score:          &score,
		NodesOut:       sr.nodesRuledOut(),
	}
	d.Message = sentence(&d)
	return d
}

// mayGo counts the potential victims.
func (sr *search) mayGo() int {
	if sr.sampled != nil {
		return sr.sampled.candidates.count
	}
	return sr.v.sus.count
}

// reprievedUnits names potential victims that stay on the nodes that the preemptor gets, the most important
// ones first.
func (sr *search) reprievedUnits(f found) []UnitRef {
	victims := make(map[int32]bool, len(f.victims))
	for _, u := range f.victims {
		victims[u] = true
	}
	root := sr.root()
	top := topUnits{s: root.s, sign: 1}
	seen := make(map[int32]bool)
	for _, st := range f.seats {
		if seen[st.node] {
			continue
		}
		seen[st.node] = true
		units := root.v.column(st.node).units
		if sr.sampled == nil {
			units = units[:root.v.column(st.node).count(sr.v.sus.below)]
		}
		for _, u := range slices.Backward(units) {
			if !victims[u] && sr.mayTake(u) && !top.offer(u) {
				break
			}
		}
	}
	refs := make([]UnitRef, 0, len(top.units))
	for _, u := range top.units {
		refs = append(refs, refOf(&root.s.Units[u]))
	}
	return refs
}

// mayTake reports whether a unit is a potential victim.
func (sr *search) mayTake(u int32) bool {
	if sr.sampled != nil {
		return sr.sampled.candidates.has(u)
	}
	return sr.v.mayTake(u)
}

// protectedUnits names units that the policy protects: those that a rule spares in spite of their priority,
// then the ones closest to the preemptor's priority.
func (sr *search) protectedUnits() []ProtectedUnit {
	if from := sr.sampled; from != nil {
		from.candidates.showBarred()
		return from.root.protectedRefs(from.contest.shown.units, from.contest.judge)
	}
	v := sr.v
	judge := func(u int32) Verdict { return Judge(sr.p, &sr.s.Units[u]) }
	top := topUnits{s: sr.s, sign: -1}
	for u := range v.sus.spared {
		top.offer(u)
	}
	if v.sus.protected[RuleNotLowerPriority] == 0 {
		return sr.protectedRefs(top.units, judge)
	}
	for _, n := range v.c.byName {
		col := &v.c.nodes[n]
		if l := len(col.priorities); l == 0 || int64(col.priorities[l-1]) < v.sus.below {
			continue
		}
		for _, u := range col.units[col.count(v.sus.below):] {
			if !top.offer(u) {
				break
			}
		}
	}
	return sr.protectedRefs(top.units, judge)
}

func (sr *search) protectedRefs(top []int32, judge func(u int32) Verdict) []ProtectedUnit {
	units := make([]ProtectedUnit, 0, len(top))
	for _, u := range top {
		verdict := judge(u)
		units = append(units, ProtectedUnit{
			UnitRef: refOf(&sr.s.Units[u]), Rule: verdict.Rule, Until: verdict.Until, Queue: verdict.Queue,
		})
	}
	return units
}

// topUnits keeps the first few units by importance (sign 1) or from the other end (sign -1).
type topUnits struct {
	s     *Snapshot
	sign  int
	units []int32
}

// offer takes a unit in if it belongs there, and reports false where it comes after a full list, so that
// nothing after it needs to be offered either.
func (t *topUnits) offer(u int32) bool {
	compare := func(a, b int32) int { return t.sign * compareUnits(t.s, a, b) }
	if len(t.units) == capUnits && compare(u, t.units[capUnits-1]) > 0 {
		return false
	}
	at, found := slices.BinarySearchFunc(t.units, u, compare)
	if !found {
		t.units = slices.Insert(t.units, at, u)
		t.units = t.units[:min(len(t.units), capUnits)]
	}
	return true
}

// protections counts the units that are protected, by rule.
func (sr *search) protections() map[Rule]int {
	if sr.sampled != nil {
		return sr.sampled.contest.protected
	}
	return sr.v.sus.protected
}

// protectedCounts counts the protected units by rule.
func (sr *search) protectedCounts() []RuleCount {
	var rows []RuleCount
	for rule, n := range sr.protections() {
		rows = append(rows, RuleCount{Rule: rule, Units: n})
	}
	slices.SortFunc(rows, func(a, b RuleCount) int { return cmp.Compare(a.Rule, b.Rule) })
	return rows
}

// infeasible says what is missing. Where preemption was an option, all potential victims count as gone.
func (sr *search) infeasible(tried bool) Decision {
	d := Decision{Outcome: Infeasible, Preemptor: *sr.p}
	t := newTrial(sr.v, sr.v.c.later)
	after := tried && sr.v.sus.count > 0
	if tried {
		d.RetryAt = sr.retryAt()
		d.Reprieved = sr.mayGo()
		d.Protected, d.ProtectedUnits = sr.protectedCounts(), sr.protectedUnits()
		if t.anyStateful {
			pool := t.eligible(int32(t.sus.below - 1))
			t.removeAll(pool)
			defer t.restoreAll(pool)
		} else {
			t.clearBelow(t.sus.below)
		}
	}
	every := t.hardestFirst(allMembers(sr.p.Classes))
	d.NodesOut = sr.nodesOut(t, every)
	seats := t.fill(every, fullestFirst)
	t.unplaceAll(seats)
	m := need{
		members: max(sr.p.MinCount, 1), seated: len(seats), after: after, nodes: len(sr.v.c.byName),
	}
	m.seated = min(m.seated, m.members)
	if len(every) == 1 && m.seated < m.members {
		sr.scarcest(t, every[0].class, &m)
	}
	if from := sr.sampled; from != nil && from.refused != nil {
		m.but = from.refused.bound.sentence(from.contest)
	}
	d.Message = m.sentence(&d)
	if tried {
		d.Message = sr.withProtection(d.RetryAt, d.Message)
	}
	return d
}

// scarcest finds the resource of which there is the least for a class, if any falls short by itself.
func (sr *search) scarcest(t *trial, class int, m *need) {
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
		m.seated = min(m.seated, fewest)
	}
}
