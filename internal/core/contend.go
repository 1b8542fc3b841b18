package core

import (
	"cmp"
	"fmt"
	"slices"
)

// sampled says where the units of a search among some candidates come from.
type sampled struct {
	root     *search
	contest  *contest
	original []int32
	// left counts the candidates that are not in the sample.
	left int
	// bounded is true where not all units of the sample may go together.
	bounded bool
	// refused is the first outcome that went beyond a bound.
	refused *refusal
}

// refusal is a set of victims that goes beyond a bound.
type refusal struct {
	victims []int32
	bound   bound
}

// boundRounds is how often the search starts over with less to take, after its outcome went beyond a bound.
const boundRounds = 8

// contend is the search where more than priority counts, among all units that may be taken. Where what it comes to
// goes beyond a bound, it starts over with less of what is bounded, and in the end with what may go in any case.
func (sr *search) contend() Decision {
	c := newContest(sr.v)
	together, beyond := c.candidates()
	all := slices.Concat(together, beyond)
	list := all
	var refused *refusal
	for range boundRounds {
		sub := sr.sample(c, list)
		sub.sampled.bounded, sub.sampled.left = len(beyond) > 0, len(all)-len(list)
		if f, ok := sub.pick(); ok {
			return sub.preempting(f)
		}
		refused = cmp.Or(refused, sub.sampled.refused)
		if sub.sampled.refused == nil || sub.sampled.refused.bound.rule == RuleOverShare {
			break
		}
		list = sub.within(list)
	}
	if sr.p.Gang && len(beyond) > 0 {
		sub := sr.sample(c, together)
		sub.sampled.left = len(beyond)
		if f, ok := sub.pick(); ok {
			return sub.preempting(f)
		}
	}
	sub := sr.sample(c, all)
	sub.sampled.refused = refused
	return sub.infeasible(true)
}

// sample is the same search among candidates only.
func (sr *search) sample(c *contest, list []candidate) *search {
	s, original := c.sample(list)
	v := *sr.v
	v.s, v.c, v.oracle = s, s.columns, relabelled{Oracle: sr.v.oracle, original: original}
	v.suspect(suspects{below: levelSafe, count: len(list)})
	return &search{s: s, p: sr.p, v: &v, sampled: &sampled{root: sr, contest: c, original: original}}
}

// within leaves out the candidates under the bound that the last outcome went beyond, but for those of the outcome
// that can go together.
func (sr *search) within(list []candidate) []candidate {
	c, refused := sr.sampled.contest, sr.sampled.refused
	kept, l := make(map[int32]bool), newLedger(c)
	for _, u := range slices.Backward(refused.victims) {
		if at := sr.sampled.original[u]; refused.bound.holds(c, at) {
			kept[at] = l.take(at)
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(at candidate) bool {
		return refused.bound.holds(c, at.unit) && !kept[at.unit]
	})
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
	units := make([]int32, len(victims))
	for i, u := range victims {
		units[i] = from.original[u]
	}
	b, ok := newLedger(from.contest).within(units)
	if !ok && from.refused == nil {
		sortByImportance(sr.s, victims)
		from.refused = &refusal{victims: slices.Clone(victims), bound: b}
	}
	return ok
}

// together is the part of a node's candidates (positions in its column) that may be taken together, the first ones
// first.
func (sr *search) together(col *nodeColumn, candidates []int32) []int32 {
	l := newLedger(sr.sampled.contest)
	var part []int32
	for _, pos := range candidates {
		if l.take(sr.sampled.original[col.units[pos]]) {
			part = append(part, pos)
		}
	}
	slices.Sort(part)
	return part
}

// unit is a unit as the caller of Decide knows it, with the verdict on it.
func (sr *search) unit(u int32) (*Unit, Verdict) {
	if from := sr.sampled; from != nil {
		at := from.original[u]
		return &from.root.s.Units[at], from.contest.judge(at)
	}
	return &sr.s.Units[u], Judge(sr.p, &sr.s.Units[u])
}

// score is a score in priorities, whatever stood for them in the search.
func (sr *search) score(f found) Score {
	if sr.sampled == nil {
		return f.score
	}
	units := make([]int32, len(f.victims))
	for i, u := range f.victims {
		units[i] = sr.sampled.original[u]
	}
	return scoreOf(sr.sampled.root.s, units)
}
