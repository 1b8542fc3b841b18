package core

import "slices"

// Decide looks for room for the preemptor: now, after the terminating pods are gone, or by evicting
// units. With a nil oracle only room matters. If the input is malformed, the error wraps
// ErrBadInput. If the preemptor cannot be placed, the error is nil and the Decision has the outcome
// Infeasible.
func Decide(s *Snapshot, p *Preemptor, oracle Oracle) (Decision, error) {
	d, _, err := decide(s, p, oracle, protections())
	return d, err
}

// decide is like Decide, but uses the given protections. The result steps is the effort of the
// search, for tests.
func decide(s *Snapshot, p *Preemptor, oracle Oracle, protections []protection) (d Decision, steps int, err error) {
	if oracle == nil {
		oracle = Arithmetic{}
	}
	if err := validate(s, p); err != nil {
		return Decision{}, 0, err
	}
	v := newView(s, p, oracle)
	d = newSearch(v, protections).run()
	return d, v.meter.steps, nil
}

// search is one run of Decide, over all units or over only some of them.
type search struct {
	s *Snapshot
	p *Preemptor
	v *problem
	// protections apply to this decision.
	protections []protection
	policy      policy
	// whole is the search over all units. If this search itself is over all units, whole points to
	// it.
	whole *search
	// nodes are the nodes with potential victims, or all nodes if the potential victims are not
	// known.
	nodes []int32
	// roomy is true if any node has room for any member without an eviction.
	roomy bool
	// thorough is true if the search also runs the plain algorithm of KEP-5710 after an outcome
	// that breaks gangs. Other searches skip this algorithm if the outcome is optimal by all
	// criteria before the broken gangs.
	thorough bool
	// hasPlain is true if an earlier search for the same preemptor has run the plain algorithm.
	hasPlain bool
	// refused is the first set of victims that exceeded a bound on sets, such as a fair share.
	refused *overBound
	// compared are the topology domains that the search compared; nil for a preemptor that does not
	// require one.
	compared []domainOutcome
	// full is the index of a queue whose limit blocks the preemptor; -1 for none.
	full int32
	// room is true if the preemptor fits without victims. If the field full is also set, only the
	// limit of that queue blocks the preemptor.
	room bool
	// If outcomeOnly is true, a Decision without room has only its outcome.
	outcomeOnly bool
	// cost is the cost of the victims of the last outcome. It is set only for gangs with preferred
	// levels, because the search compares the outcomes of the levels by their cost.
	cost Score
}

func newSearch(v *problem, protections []protection) *search {
	sr := &search{s: v.s, p: v.p, v: v, protections: protections, nodes: v.c.byName}
	sr.whole = sr
	return sr
}

func (sr *search) run() Decision {
	if d, ok := sr.withoutDomain(); ok {
		return d
	}
	if len(sr.p.Preferred) > 0 {
		return sr.inLevels()
	}
	return sr.anywhere()
}

// anywhere decides on all nodes that this search may use. It ignores preferred levels.
func (sr *search) anywhere() Decision {
	if d, ok := sr.fitsNow(); ok {
		return d
	}
	defer sr.removeLeaving()()
	if d, ok := sr.fitsLater(); ok {
		return d
	}
	return sr.preempts()
}

// fitsNow places the preemptor into the room that is free now.
func (sr *search) fitsNow() (Decision, bool) {
	sr.full = sr.v.fullFor()
	sr.roomy = sr.anyRoom(sr.v.c.free)
	placements, ok := sr.withoutVictims(sr.v.c.free)
	sr.room = ok
	if !ok || sr.full >= 0 {
		return Decision{}, false
	}
	return sr.placed(Fits, placements), true
}

// fitsLater places the preemptor into the room that is free after all terminating pods are gone.
// The caller has removed these pods from the oracle's state. fitsNow must run before it.
func (sr *search) fitsLater() (Decision, bool) {
	if len(sr.s.Leaving) == 0 {
		return Decision{}, false
	}
	sr.roomy = sr.anyRoom(sr.v.c.later)
	placements, ok := sr.withoutVictims(sr.v.c.later)
	sr.room = sr.room || ok
	if !ok || sr.full >= 0 {
		return Decision{}, false
	}
	return sr.placed(Waits, placements), true
}

// preempts searches for units to evict. fitsLater must run before it.
func (sr *search) preempts() Decision {
	sr.policy = newPolicy(sr.v, sr.protections)
	if _, forbidden := sr.policy.rules().forbidden(); forbidden || sr.p.MinCount == 0 {
		if sr.room {
			sr.refused = &overBound{bound: bound{rule: RuleLimit, queue: sr.full, name: sr.s.Queues.Tree.Queue(sr.full).Name}}
		}
		return sr.infeasibleAsIs()
	}
	return sr.policy.search(sr)
}

// allowed reports whether the policy allows the eviction of all given victims together. The first
// set that the policy rejects becomes sr.refused.
func (sr *search) allowed(victims []int32) bool {
	b, ok := sr.policy.fits(victims)
	if !ok && sr.refused == nil {
		sortByImportance(sr.s, victims)
		sr.refused = &overBound{victims: slices.Clone(victims), bound: b}
	}
	return ok
}

// pick returns the cheapest set of victims, and the final placements of the preemptor's members.
func (sr *search) pick() (found, bool) {
	first, ok := sr.bestDomain()
	sr.compared = first.compared
	if !ok && sr.s.losses != nil {
		// The policy rejects the sets with the least lost work. Search by priorities instead.
		first, ok = sr.byPriority()
	}
	if !ok {
		return found{}, false
	}
	f := sr.cheaperBesideGangs(first)
	if !sr.p.Gang || sr.placeIn(f.domain, f.ws, &f) {
		return sr.leastCascade(f), true
	}
	// The oracle rejects the placements of f because of other pods. Use the first outcome instead.
	if f.score == first.score || !sr.placeIn(first.domain, f.ws, &first) {
		return found{}, false
	}
	return sr.leastCascade(first), true
}

// placeIn computes the final placements for the outcome f, whose victims are chosen, on the nodes
// of the topology domain d. If d is nil, it uses the whole cluster.
func (sr *search) placeIn(d *domain, ws []want, f *found) bool {
	g := &gang{search: sr.within(d), ws: ws}
	return g.place(f)
}

// removeLeaving removes all terminating pods from the state of a stateful oracle, and returns a
// function that restores them. The columns need no change, because columns.later already includes
// the room of these pods.
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

// withoutVictims places all members, surplus included, into the given free room. It evicts no unit.
// The caller must have computed the field roomy for this room.
func (sr *search) withoutVictims(free []int64) ([]placement, bool) {
	if !sr.roomy {
		return nil, false
	}
	for v := range sr.v.freeViews(free) {
		if placements, ok := newSimulation(v, free).everyone(); ok {
			return placements, true
		}
	}
	return nil, false
}

// everyone returns placements for all members, surplus included, in the current room. The
// simulation is unchanged afterwards.
func (t *simulation) everyone() ([]placement, bool) {
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

// nominated places members on the nodes that an earlier decision nominated. If fewer than MinCount
// of them fit, it returns false and places no member.
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
		// After a restart of the scheduler, the nominations may be in a different order than the
		// earlier placements. A member may then fit only after a later one is placed. So repeat
		// until no further member fits.
		placed = len(placements)
		for _, p := range t.p.Nominated {
			class, isMember := classOf[p.UID]
			n, isNode := node[p.Node]
			if !isMember || !isNode || !t.accepts(class, n) {
				continue
			}
			// Ignore a second nomination of the same member.
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

// countedFirst sorts placements so that the needed members come first. It keeps the given order if
// a stateful oracle rejects the sorted one.
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

// anyRoom reports whether at least one node has free room for at least one class.
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

// insist returns the members that must be placed, as numbers per class. These members fit if all
// potential victims are removed. Before the call, no unit may be removed from the simulation t. If
// the oracle is stateful, the potential victims stay removed from t.
func (sr *search) insist(t *simulation) ([]want, bool) {
	if t.anyStateful {
		t.outUpTo(t.victims.below)
		return t.insist()
	}
	apart := newSimulation(sr.v, sr.v.c.later)
	apart.clearBelow(t.victims.below)
	return apart.insist()
}

// insist returns the members that must be placed. It prefers the needed members with the lowest
// ranks. If these do not fit together, it returns other members that satisfy MinCount and fit.
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

// anyMembers looks for members that fit together, with the needed number of each role. First it
// prefers the classes that are hardest to place, then the easiest. In a small case, it tries every
// combination of classes.
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

// mixing is a search over the number of members of each class.
type mixing struct {
	*simulation
	counts []int
	// ofRole is the number of members of each role that remain to be chosen.
	ofRole map[string]int
	tries  int
}

// next chooses further members from the classes in the slice every; left is their number. It tries
// all numbers of members per class, the maximum for the class that is hardest to place first.
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
