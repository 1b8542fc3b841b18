package core

import "slices"

// Decide finds room for the preemptor: as things are, once leaving pods have left, or by taking units. A nil
// oracle is one in which only room matters. The error wraps ErrBadInput where the input is malformed; a
// preemptor that cannot be placed is no error but a Decision with the outcome Infeasible.
func Decide(s *Snapshot, p *Preemptor, oracle Oracle) (Decision, error) {
	if oracle == nil {
		oracle = Arithmetic{}
	}
	if err := validate(s, p); err != nil {
		return Decision{}, err
	}
	sr := &search{s: s, p: p, v: newView(s, p, oracle)}
	return sr.run(), nil
}

// search is one run of Decide, among all units or a sample of them.
type search struct {
	s *Snapshot
	p *Preemptor
	v *view
	// sampled is where the units come from; nil where they are all there are.
	sampled *sampled
	// roomy is true where some node has room for some member without any unit gone.
	roomy bool
}

func (sr *search) run() Decision {
	sr.roomy = sr.anyRoom(sr.v.c.free)
	if seats, ok := sr.withoutVictims(sr.v.c.free); ok {
		return sr.placed(Fits, seats)
	}
	defer sr.removeLeaving()()
	if len(sr.s.Leaving) > 0 {
		sr.roomy = sr.anyRoom(sr.v.c.later)
		if seats, ok := sr.withoutVictims(sr.v.c.later); ok {
			return sr.placed(Waits, seats)
		}
	}
	if sr.p.Never || sr.p.MinCount == 0 || sr.stray() {
		return sr.infeasible(false)
	}
	if contested(sr.s, sr.p) {
		return sr.contend()
	}
	sr.v.suspect(potentialVictims(sr.s, sr.v.c, sr.p))
	f, ok := sr.pick()
	if !ok {
		return sr.infeasible(true)
	}
	return sr.preempting(f)
}

// stray reports whether the preemptor names a queue in which there can be no work. What it is entitled to is not known
// then, so it takes nothing.
func (sr *search) stray() bool {
	q := sr.s.Queues
	return sr.p.Queue != "" && q != nil && q.Tree != nil && q.Tree.leaf(sr.p.Queue) < 0
}

// pick finds the victims that cost least and seats the preemptor for good.
func (sr *search) pick() (found, bool) {
	f, ok := sr.bestDomain()
	if ok && sr.p.Gang {
		g := &gang{search: sr, ws: f.ws}
		ok = g.place(&f)
	}
	return f, ok
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
func (sr *search) withoutVictims(free []int64) ([]seat, bool) {
	if !sr.roomy {
		return nil, false
	}
	t := newTrial(sr.v, free)
	ws, ok := t.insist()
	if !ok {
		return nil, false
	}
	seats, ok := t.seatAll(ws)
	if !ok {
		return nil, false
	}
	seats = append(seats, t.surplus(seats)...)
	t.unplaceAll(seats)
	return seats, len(seats) > 0
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
func (sr *search) insist(t *trial) ([]want, bool) {
	if t.anyStateful {
		t.outUpTo(t.sus.below)
		return t.insist()
	}
	apart := newTrial(sr.v, sr.v.c.later)
	apart.clearBelow(t.sus.below)
	return apart.insist()
}

// insist finds out which members have to be placed: the first ones by rank, or, where these cannot all be,
// any that can, as long as they are enough.
func (t *trial) insist() ([]want, bool) {
	ws := t.hardestFirst(firstMembers(t.p.Classes, t.p.MinCount))
	if t.feasible(ws) {
		return ws, true
	}
	every := t.hardestFirst(allMembers(t.p.Classes))
	if len(every) == 1 || t.p.MinCount == total(every) {
		return nil, false
	}
	return t.anyMembers(every)
}

// anyMembers looks for members to insist on: hardest classes first, easiest first, and in a small case every
// mix of classes.
func (t *trial) anyMembers(every []want) ([]want, bool) {
	easiest := slices.Clone(every)
	slices.Reverse(easiest)
	for _, ws := range [...][]want{every, easiest} {
		seats := t.fill(ws, fullestFirst)
		t.unplaceAll(seats)
		if len(seats) < t.p.MinCount {
			continue
		}
		counts := make([]int, len(t.p.Classes))
		for _, st := range seats[:t.p.MinCount] {
			counts[st.class]++
		}
		if mix := t.hardestFirst(counts); t.feasible(mix) {
			return mix, true
		}
	}
	if total(every) > t.limits.PackingMembers || len(t.c.byName) > t.limits.PackingNodes {
		return nil, false
	}
	m := &mixing{trial: t, counts: make([]int, len(t.p.Classes)), tries: backtrackMixes}
	return m.next(every, t.p.MinCount)
}

// mixing is a search through the mixes of classes.
type mixing struct {
	*trial
	counts []int
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
	defer func() { m.counts[class] = 0 }()
	for n := min(every[0].count, left); n >= 0; n-- {
		m.counts[class] = n
		if mix, ok := m.next(every[1:], left-n); ok {
			return mix, true
		}
	}
	return nil, false
}
