package core

import (
	"cmp"
	"fmt"
	"slices"
)

// boundRounds is how often the search starts over with less to take, after its outcome went beyond a bound.
const boundRounds = 8

// contend is the search where more than priority counts, among all units that may be taken. Where what it comes to
// goes beyond a bound, it starts over with less of what is bounded, and in the end with what may go in any case.
func (sr *search) contend() Decision {
	mem := sr.v.c.borrow()
	defer sr.v.c.handBack(mem)
	cs := newContest(sr.v).candidates(mem)
	if d, ok := sr.amongFirst(cs); ok {
		return d
	}
	var last, refused *refusal
	without := make(map[int32]bool)
	for range boundRounds {
		sub := sr.sample(cs, everything, without)
		if f, ok := sub.pick(); ok {
			return sub.preempting(f)
		}
		last, refused = sub.sampled.refused, cmp.Or(refused, sub.sampled.refused)
		if sub.sampled.refused == nil || sub.sampled.refused.bound.rule == RuleOverShare {
			break
		}
		sub.bar(without)
	}
	if d, ok := sr.inPlace(cs, last); ok {
		return d
	}
	if sr.p.Gang && cs.bounded {
		sub := sr.sample(cs, everything, cs.apart())
		if f, ok := sub.pick(); ok {
			return sub.preempting(f)
		}
	}
	sub := sr.sample(cs, everything, nil)
	sub.sampled.refused = refused
	return sub.infeasible(true)
}

// firstUnits is how many units a single pod is to find its place among at first, where its Limits do not say.
const firstUnits = 256

// inPlace is the search of a single pod that would carry a queue beyond its fair share: it may still take the place of
// work below that queue. On any node, no more room counts then than what the queue has left of its share.
func (sr *search) inPlace(cs *candidates, refused *refusal) (Decision, bool) {
	if sr.p.Gang || refused == nil || refused.bound.rule != RuleOverShare {
		return Decision{}, false
	}
	c := cs.c
	for step, q := range c.path {
		without := make(map[int32]bool)
		for u := range c.s.Units {
			if at := int32(u); cs.has(at) && !c.offsets(at, step) {
				without[at] = true
			}
		}
		sub := sr.sample(cs, everything, without)
		sub.v.c.later = slices.Clone(sub.v.c.later)
		for n := range c.s.Nodes {
			room := sub.v.freeLater(int32(n))
			for _, r := range c.asks {
				room[r] = min(room[r], max(c.shareOf(int32(q), r)-c.usedOf(int32(q))[r], 0))
			}
		}
		if f, ok := sub.pick(); ok {
			return sub.preempting(f), true
		}
	}
	return Decision{}, false
}

// amongFirst is the search of a single pod among the candidates of the lowest levels, which are nearly always enough.
// Where no budget is broken, nothing of a higher level can make the outcome any better.
func (sr *search) amongFirst(cs *candidates) (Decision, bool) {
	upTo := cs.first(cmp.Or(sr.v.limits.firstUnits, firstUnits))
	if sr.p.Gang || upTo == everything {
		return Decision{}, false
	}
	sub := sr.sample(cs, upTo, nil)
	f, ok := sub.pick()
	if !ok || f.score.BrokenBudgets > 0 {
		return Decision{}, false
	}
	return sub.preempting(f), true
}

// first is the level up to which there are so many units of the lowest priorities, if all of them were candidates in
// open leaves.
func (cs *candidates) first(units int) int32 {
	for rank, priority := range cs.priorities {
		if units -= cs.c.c.perPriority[priority]; units <= 0 {
			return cs.level(nearest, int32(rank)+1)
		}
	}
	return everything
}

// bar adds the candidates under the bound that the last outcome went beyond to those to do without, but for those of
// the outcome that can go together.
func (sr *search) bar(without map[int32]bool) {
	c, refused := sr.sampled.contest, sr.sampled.refused
	kept, l := make(map[int32]bool), c.ledger()
	for _, u := range slices.Backward(refused.victims) {
		if refused.bound.holds(c, u) {
			kept[u] = l.take(u)
		}
	}
	for i, level := range sr.s.levels {
		if u := int32(i); level < levelSafe && !kept[u] && refused.bound.holds(c, u) {
			without[u] = true
		}
	}
}

// sentence says what a bound is, for people.
func (b bound) sentence(c *contest) string {
	switch {
	case b.queue < 0:
		return fmt.Sprintf("it takes more members of a gang than %s lets go", b.rule)
	case b.rule == RuleOverShare:
		return fmt.Sprintf("it takes queue %s beyond its fair share", c.t.nodes[b.queue].Name)
	case b.rule == RuleQuota:
		return fmt.Sprintf("it takes more than queue %s has beyond its quota", c.t.nodes[b.queue].Name)
	default:
		return fmt.Sprintf("it takes more than queue %s has beyond its fair share", c.t.nodes[b.queue].Name)
	}
}

// allowed reports whether units may be taken together.
func (sr *search) allowed(victims []int32) bool {
	from := sr.sampled
	if from == nil {
		return true
	}
	b, ok := from.contest.ledger().within(victims)
	if !ok && from.refused == nil {
		sortByImportance(sr.s, victims)
		from.refused = &refusal{victims: slices.Clone(victims), bound: b}
	}
	return ok
}

// together is the part of a node's candidates (positions in its column) that may be taken together, the first ones
// first.
func (sr *search) together(col *nodeColumn, candidates []int32) []int32 {
	l := sr.sampled.contest.ledger()
	var part []int32
	for _, pos := range candidates {
		if l.take(col.units[pos]) {
			part = append(part, pos)
		}
	}
	slices.Sort(part)
	return part
}

// verdict is the policy's on one unit.
func (sr *search) verdict(u int32) Verdict {
	if from := sr.sampled; from != nil {
		return from.contest.judge(u)
	}
	return Judge(sr.p, &sr.s.Units[u])
}

// score is a score in priorities, whatever stood for them in the search.
func (sr *search) score(f found) Score {
	if sr.sampled == nil {
		return f.score
	}
	return scoreOf(sr.sampled.root.s, f.victims)
}
