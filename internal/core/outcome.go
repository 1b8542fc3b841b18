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
	ceiling := f.ceiling
	d := Decision{
		Outcome:        Preempts,
		Preemptor:      *sr.p,
		Placements:     placementsOf(sr.v, f.seats),
		Victims:        victimsOf(sr.s, sr.p, f.victims),
		Reprieved:      sr.v.sus.count - len(f.victims),
		ReprievedUnits: sr.reprievedUnits(f),
		Protected:      sr.protectedCounts(),
		ProtectedUnits: sr.protectedUnits(),
		Ceiling:        &ceiling,
		Score:          &f.score,
	}
	d.Message = sentence(&d)
	return d
}

// reprievedUnits names potential victims that stay on the nodes that the preemptor gets, the most important
// ones first.
func (sr *search) reprievedUnits(f found) []UnitRef {
	victims := make(map[int32]bool, len(f.victims))
	for _, u := range f.victims {
		victims[u] = true
	}
	top := topUnits{s: sr.s, sign: 1}
	seen := make(map[int32]bool)
	for _, st := range f.seats {
		if seen[st.node] {
			continue
		}
		seen[st.node] = true
		col := sr.v.column(st.node)
		for _, u := range slices.Backward(col.units[:col.count(sr.v.sus.below)]) {
			if !victims[u] && !top.offer(u) {
				break
			}
		}
	}
	refs := make([]UnitRef, 0, len(top.units))
	for _, u := range top.units {
		refs = append(refs, refOf(&sr.s.Units[u]))
	}
	return refs
}

// protectedUnits names units that the policy protects: those that a rule spares in spite of their priority,
// then the ones closest to the preemptor's priority.
func (sr *search) protectedUnits() []ProtectedUnit {
	v := sr.v
	top := topUnits{s: sr.s, sign: -1}
	for u := range v.sus.spared {
		top.offer(u)
	}
	if v.sus.protected[RuleNotLowerPriority] == 0 {
		return sr.protectedRefs(top.units)
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
	return sr.protectedRefs(top.units)
}

func (sr *search) protectedRefs(top []int32) []ProtectedUnit {
	units := make([]ProtectedUnit, 0, len(top))
	for _, u := range top {
		verdict := Judge(sr.p, &sr.s.Units[u])
		units = append(units, ProtectedUnit{UnitRef: refOf(&sr.s.Units[u]), Rule: verdict.Rule, Until: verdict.Until})
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

// protectedCounts counts the protected units by rule.
func (sr *search) protectedCounts() []RuleCount {
	var rows []RuleCount
	for rule, n := range sr.v.sus.protected {
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
		d.Reprieved = sr.v.sus.count
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

// nodesOut counts why nodes take no member at all in the trial as it stands.
func (sr *search) nodesOut(t *trial, every []want) []ReasonCount {
	counts := make(map[string]int)
	for _, n := range t.c.byName {
		if reason, out := sr.whyOut(t, n, every); out {
			counts[reason]++
		}
	}
	rows := make([]ReasonCount, 0, len(counts))
	for reason, n := range counts {
		rows = append(rows, ReasonCount{Reason: reason, Nodes: n})
	}
	slices.SortFunc(rows, func(a, b ReasonCount) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Reason, b.Reason))
	})
	return rows
}

// whyOut says why a node takes no member of any class.
func (sr *search) whyOut(t *trial, n int32, every []want) (string, bool) {
	if !t.c.sound[n] {
		return "with quantities out of range", true
	}
	reason := ""
	for _, w := range every {
		c := w.class
		short := sr.shortOf(t, c, n)
		switch {
		case !t.admitsNode(c, n):
			reason = cmp.Or(reason, t.oracle.Admits(c, int(n)))
		case short != "":
			reason = cmp.Or(reason, "short of "+short)
		case t.accepts(c, n):
			return "", false
		default:
			reason = cmp.Or(reason, "refused by filters")
		}
	}
	return reason, true
}

// shortOf names the first resource that a node has too little of.
func (sr *search) shortOf(t *trial, class int, n int32) string {
	free := t.freeOf(n)
	for r, v := range t.wanted[class] {
		if v > 0 && v > free[r] {
			return sr.s.Resources[r]
		}
	}
	return ""
}
