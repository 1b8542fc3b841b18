package core

import "slices"

// Decide finds room for the preemptor: as things are, once leaving pods have left, or by taking units. A nil
// oracle is one in which only room matters. The error wraps ErrBadInput where the input is malformed; a
// preemptor that cannot be placed is no error but a Decision with the outcome Infeasible.
func Decide(s *Snapshot, p *Preemptor, oracle Oracle) (Decision, error) {
	return decide(s, p, oracle, protections())
}

// decide is Decide with some protections in force.
func decide(s *Snapshot, p *Preemptor, oracle Oracle, protections []protection) (Decision, error) {
	if oracle == nil {
		oracle = Arithmetic{}
	}
	if err := validate(s, p); err != nil {
		return Decision{}, err
	}
	return newSearch(newView(s, p, oracle), protections).run(), nil
}

// search is one run of Decide, among all units or in a restricted view.
type search struct {
	s *Snapshot
	p *Preemptor
	v *view
	// protections are in force in this decision.
	protections []protection
	policy      policy
	// whole is the search among all units: this one, or the one that it is a restricted view of.
	whole *search
	// nodes are those with potential victims on them, all nodes where that is not known.
	nodes []int32
	// roomy is true where some node has room for some member without any unit gone.
	roomy bool
	// thorough has the plain algorithm compete even where the outcome is proven the cheapest but
	// for the gangs that it breaks.
	thorough bool
	// refused is the first outcome that went beyond a bound.
	refused *refusal
}

func newSearch(v *view, protections []protection) *search {
	sr := &search{s: v.s, p: v.p, v: v, protections: protections, nodes: v.c.byName}
	sr.whole = sr
	return sr
}

func (sr *search) run() Decision {
	full, room := sr.v.fullFor(), false
	sr.roomy = sr.anyRoom(sr.v.c.free)
	if placements, ok := sr.withoutVictims(sr.v.c.free); ok {
		if full < 0 {
			return sr.placed(Fits, placements)
		}
		room = true
	}
	defer sr.removeLeaving()()
	if len(sr.s.Leaving) > 0 {
		sr.roomy = sr.anyRoom(sr.v.c.later)
		if placements, ok := sr.withoutVictims(sr.v.c.later); ok {
			if full < 0 {
				return sr.placed(Waits, placements)
			}
			room = true
		}
	}
	sr.policy = newPolicy(sr.v, sr.protections)
	if _, forbidden := sr.policy.rules().forbidden(); forbidden || sr.p.MinCount == 0 {
		if room {
			sr.refused = &refusal{bound: bound{rule: RuleLimit, queue: full, name: sr.s.Queues.Tree.Queue(full).Name}}
		}
		return sr.infeasibleAsIs()
	}
	return sr.policy.search(sr)
}

// allowed reports whether units may be taken together, and takes note of the first ones that may not.
func (sr *search) allowed(victims []int32) bool {
	b, ok := sr.policy.fits(victims)
	if !ok && sr.refused == nil {
		sortByImportance(sr.s, victims)
		sr.refused = &refusal{victims: slices.Clone(victims), bound: b}
	}
	return ok
}

// pick finds the victims that cost least and places the preemptor for good.
func (sr *search) pick() (found, bool) {
	first, ok := sr.bestDomain()
	if !ok {
		return found{}, false
	}
	f := sr.fewerGangs(first)
	if !sr.p.Gang {
		return f, true
	}
	g := &gang{search: sr, ws: f.ws}
	if g.place(&f) {
		return f, true
	}
	// Other pods refuse what was found last.
	return first, f.score != first.score && g.place(&first)
}

// removeLeaving lets everything go that is terminating already, at no cost; the result takes that back. The
// room of leaving pods is part of the columns, so only an oracle to which pods matter has to know.
func (sr *search) removeLeaving() (undo func()) {
	if !sr.v.anyStateful {
		return func() {}
	}
	for i := range sr.s.Leaving {
		if sr.s.Leaving[i].Node >= 0 {
			sr.v.oracle.RemoveLeaving(i)
		}
	}
	return func() {
		for i := range slices.Backward(sr.s.Leaving) {
			if sr.s.Leaving[i].Node >= 0 {
				sr.v.oracle.RestoreLeaving(i)
			}
		}
	}
}

// withoutVictims places the preemptor, surplus included, without taking anything, in room that roomy has been told of.
func (sr *search) withoutVictims(free []int64) ([]placement, bool) {
	if !sr.roomy {
		return nil, false
	}
	t := newSimulation(sr.v, free)
	placements, ok := t.nominated()
	if !ok {
		ws, can := t.insist()
		if !can {
			return nil, false
		}
		if placements, ok = t.pack(ws); !ok {
			return nil, false
		}
	}
	placements = append(placements, t.surplus(placements)...)
	t.unplaceAll(placements)
	return placements, len(placements) > 0
}

// nominated places members where an earlier decision has nominated them to. It reports false, and places none, where these
// are not enough.
func (t *simulation) nominated() ([]placement, bool) {
	if len(t.p.Nominated) == 0 {
		return nil, false
	}
	classOf, node := make(map[string]int), make(map[string]int32, len(t.c.byName))
	for c := range t.p.Classes {
		for i := range t.p.Classes[c].Members {
			classOf[t.p.Classes[c].Members[i].UID] = c
		}
	}
	for _, n := range t.c.byName {
		node[t.s.Nodes[n].Name] = n
	}
	var placements []placement
	for placed := -1; placed < len(placements); {
		// Their order may have been lost with the scheduler that decided.
		placed = len(placements)
		for _, p := range t.p.Nominated {
			class, isMember := classOf[p.UID]
			n, isNode := node[p.Node]
			if !isMember || !isNode || !t.accepts(class, n) {
				continue
			}
			// Each is nominated once.
			delete(classOf, p.UID)
			st := placement{class: class, node: n}
			t.place(st)
			placements = append(placements, st)
		}
		if !t.anyStateful {
			break
		}
	}
	if len(placements) == 0 || !t.p.areEnough(placements) {
		t.unplaceAll(placements)
		return nil, false
	}
	return t.countedFirst(placements), true
}

// countedFirst brings members that stand in the simulated state into the order in which MinCount counts them, if they pass in it.
func (t *simulation) countedFirst(placements []placement) []placement {
	order := make([]int, len(placements))
	for i := range order {
		order[i] = i
	}
	order = t.p.neededFirst(order, placements)
	if !t.anyStateful || slices.IsSorted(order) {
		return placements
	}
	counted := make([]placement, len(order))
	for i, at := range order {
		counted[i] = placements[at]
	}
	t.unplaceAll(placements)
	if counted, ok := t.inOrder(counted); ok {
		return counted
	}
	t.placeAll(placements)
	return placements
}

// anyRoom is a quick look at whether any node has room for any member at all.
func (sr *search) anyRoom(free []int64) bool {
	for _, n := range sr.v.c.byName {
		for c := range sr.v.wanted {
			if sr.v.c.sound[n] && fits(sr.v.wanted[c], free[int(n)*sr.v.dims:][:sr.v.dims]) {
				return true
			}
		}
	}
	return false
}

// insist finds out which members have to be placed, with all potential victims gone. t starts with
// everything in place; where the oracle has a say, the potential victims are still out of it afterwards.
func (sr *search) insist(t *simulation) ([]want, bool) {
	if t.anyStateful {
		t.outUpTo(t.victims.below)
		return t.insist()
	}
	apart := newSimulation(sr.v, sr.v.c.later)
	apart.clearBelow(t.victims.below)
	return apart.insist()
}

// insist finds out which members have to be placed: the first ones by rank, or, where these cannot all be,
// any that can, as long as they are enough.
func (t *simulation) insist() ([]want, bool) {
	first := firstMembers(t.p.Classes, t.p.MinCount)
	ws := t.hardestFirst(first)
	if t.feasible(ws) {
		return ws, true
	}
	every := t.hardestFirst(allMembers(t.p.Classes))
	if len(every) == 1 || t.p.MinCount == total(every) {
		return nil, false
	}
	return t.anyMembers(every, t.p.byRole(first))
}

// anyMembers looks for members to insist on, so many of each role: hardest classes first, easiest first, and in a small case every
// mix of classes.
func (t *simulation) anyMembers(every []want, needed map[string]int) ([]want, bool) {
	hardest := t.p.upTo(every, needed)
	easiest := slices.Clone(hardest)
	slices.Reverse(easiest)
	for _, ws := range [...][]want{hardest, easiest} {
		placements := t.most(ws)
		t.unplaceAll(placements)
		counts, missing := t.p.firstOfRoles(placements, needed)
		if missing > 0 {
			continue
		}
		if mix := t.hardestFirst(counts); t.feasible(mix) {
			return mix, true
		}
	}
	if total(every) > t.limits.PackingMembers || len(t.c.byName) > t.limits.PackingNodes {
		return nil, false
	}
	m := &mixing{simulation: t, counts: make([]int, len(t.p.Classes)), ofRole: needed, tries: backtrackMixes}
	return m.next(every, t.p.MinCount)
}

// mixing is a search through the mixes of classes.
type mixing struct {
	*simulation
	counts []int
	// ofRole is how many members of each role are left to be chosen.
	ofRole map[string]int
	tries  int
}

// next tries the mixes of the classes left in turn, with as many of the hardest class as possible first.
func (m *mixing) next(every []want, left int) ([]want, bool) {
	if left == 0 {
		m.tries--
		mix := m.hardestFirst(m.counts)
		return mix, m.tries >= 0 && m.feasible(mix)
	}
	if len(every) == 0 {
		return nil, false
	}
	class := every[0].class
	role := m.p.Classes[class].Role
	most := m.ofRole[role]
	defer func() { m.counts[class], m.ofRole[role] = 0, most }()
	for n := min(every[0].count, most); n >= 0; n-- {
		m.counts[class], m.ofRole[role] = n, most-n
		if mix, ok := m.next(every[1:], left-n); ok {
			return mix, true
		}
	}
	return nil, false
}
