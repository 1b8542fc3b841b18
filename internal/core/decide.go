package core

import "slices"

// Decide looks for room for the preemptor: now, once terminating pods are gone, or by evicting
// units. With a nil oracle only room matters. An error wraps ErrBadInput: the input is malformed.
// If the preemptor cannot be placed, Decide returns no error but a Decision with the outcome
// Infeasible.
func Decide(s *Snapshot, p *Preemptor, oracle Oracle) (Decision, error) {
	d, _, err := decide(s, p, oracle, protections())
	return d, err
}

// decide is DecideCounting with the given protections.
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

// search is one run of Decide, over all units or over some of them.
type search struct {
	s *Snapshot
	p *Preemptor
	v *problem
	// protections apply to this decision.
	protections []protection
	policy      policy
	// whole is the search over all units: this search itself, or the search that this restricted
	// one belongs to.
	whole *search
	// nodes are the nodes with potential victims, or all nodes if these are not known.
	nodes []int32
	// roomy is true if any node has room for any member without an eviction.
	roomy bool
	// thorough makes the plain algorithm of KEP-5710 compete with an outcome that breaks gangs,
	// even if it can improve no other criterion.
	thorough bool
	// refused is the first set of victims that exceeded a bound on sets, such as a fair share.
	refused *overBound
	// compared are the topology domains that the search compared; nil for a preemptor that does not
	// require one.
	compared []domainOutcome
	// full is the index of a queue whose limit leaves no room for the preemptor; -1 for none. room
	// is true if the preemptor fits without victims, so that only this limit blocks it.
	full int32
	room bool
	// If outcomeOnly is true, a Decision without room says nothing but that.
	outcomeOnly bool
	// cost is the cost of the victims of the last outcome, for the comparison of preferred levels.
	// It is set for gangs with preferred levels.
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

// anywhere decides without regard to preferred levels, on all nodes that this search may use.
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

// fitsNow places the preemptor as things are.
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

// fitsLater places the preemptor after all terminating pods are gone. The caller has removed these
// from the oracle's state. It runs after fitsNow.
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

// preempts searches for units to evict. It runs after fitsLater.
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

// allowed reports whether the policy allows the eviction of all these units together. It records
// the first set that the policy does not allow.
func (sr *search) allowed(victims []int32) bool {
	b, ok := sr.policy.fits(victims)
	if !ok && sr.refused == nil {
		sortByImportance(sr.s, victims)
		sr.refused = &overBound{victims: slices.Clone(victims), bound: b}
	}
	return ok
}

// pick returns the cheapest set of victims, with the final placements of the preemptor's members.
func (sr *search) pick() (found, bool) {
	first, ok := sr.bestDomain()
	sr.compared = first.compared
	if !ok && sr.s.losses != nil {
		// The policy does not allow the sets with the least lost work. Search by priorities
		// instead.
		first, ok = sr.byPriority()
	}
	if !ok {
		return found{}, false
	}
	f := sr.cheaperBesideGangs(first)
	if !sr.p.Gang || sr.placeIn(f.domain, f.ws, &f) {
		return sr.leastCascade(f), true
	}
	// The oracle rejects the placement of the last outcome because of other pods. Use the first
	// outcome.
	if f.score == first.score || !sr.placeIn(first.domain, f.ws, &first) {
		return found{}, false
	}
	return sr.leastCascade(first), true
}

// placeIn determines the final placements for the victims of an outcome, on the nodes of a topology
// domain; nil for the whole cluster.
func (sr *search) placeIn(d *domain, ws []want, f *found) bool {
	g := &gang{search: sr.within(d), ws: ws}
	return g.place(f)
}

// removeLeaving removes all terminating pods from the oracle's state and returns a function that
// restores them. The columns already count their room, so only a stateful oracle is called.
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

// withoutVictims places the preemptor, surplus included, into the given free room without evicting
// anything. The field roomy must have been computed for the same room.
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

// everyone returns places for all members, surplus included, in the current room. It leaves the
// simulation unchanged.
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

// nominated places members on the nodes that an earlier decision nominated. If too few members are
// nominated or fit, it returns false and places none.
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
		// After a restart of the scheduler, the nominations may be in another order. Try the order
		// of the members.
		placed = len(placements)
		for _, p := range t.p.Nominated {
			class, isMember := classOf[p.UID]
			n, isNode := node[p.Node]
			if !isMember || !isNode || !t.accepts(class, n) {
				continue
			}
			// A member is nominated once.
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

// countedFirst sorts placed members into the order that MinCount counts them in. It keeps the given
// order if the members do not fit in the other one.
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

// anyRoom reports whether any node has room for any member at all.
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

// insist returns the members that must be placed. It tests this with all potential victims removed.
// t starts with all units in place. If the oracle is stateful, the potential victims stay removed
// afterwards.
func (sr *search) insist(t *simulation) ([]want, bool) {
	if t.anyStateful {
		t.outUpTo(t.victims.below)
		return t.insist()
	}
	apart := newSimulation(sr.v, sr.v.c.later)
	apart.clearBelow(t.victims.below)
	return apart.insist()
}

// insist returns the members that must be placed. It prefers the first members by rank. If they do
// not all fit, it returns other members that fit together and are enough.
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

// anyMembers looks for members that fit together, with the needed number of each role. It tries the
// classes that are hardest to place first, then the easiest. In a small case, it tries every
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

// mixing is a search over the numbers of members that each class contributes.
type mixing struct {
	*simulation
	counts []int
	// ofRole is the number of members of each role that remain to be chosen.
	ofRole map[string]int
	tries  int
}

// next tries the combinations of the remaining classes in turn. It starts with as many members as
// possible of the class that is hardest to place.
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
