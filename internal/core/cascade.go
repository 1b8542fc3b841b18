package core

import "cmp"

// CascadeMode selects whether a decision also counts the evictions by the replacements of its
// victims. A replacement is a pod that a controller creates after an eviction; it may preempt other
// work.
type CascadeMode string

const (
	// CascadeOff does not count evictions by replacements. It is the zero value.
	CascadeOff CascadeMode = ""
	// CascadeMeasure counts the evictions by replacements for the chosen outcome and reports the
	// number.
	CascadeMeasure CascadeMode = "Measure"
	// CascadeDecide also prefers outcomes whose replacements evict fewer pods. This criterion comes
	// after the criterion Surplus and before the criterion Repeated of [Score].
	CascadeDecide CascadeMode = "Decide"
)

// Replacement is the answer to two questions about a unit: Does a controller create its pods again
// after their eviction? May the new pods preempt?
type Replacement uint8

const (
	// NoReplacement: no controller is known that creates the pods again.
	NoReplacement Replacement = iota
	// ReplacementPreempts: a controller creates the pods again, and they may preempt.
	ReplacementPreempts
	// ReplacementWaits: a controller creates the pods again, and they never preempt.
	ReplacementWaits
)

// Replacer is an Oracle that also knows which units controllers create again after an eviction.
// With an Oracle that is not a Replacer, the search assumes that no unit is created again.
type Replacer interface {
	// Replacement returns whether a controller creates the pods of a unit again. The unit is an
	// index into Snapshot.Units.
	Replacement(unit int) Replacement
}

// Cascade counts the second level of a preemption: the evictions by the replacements of its
// victims. It does not count a third level, the evictions by replacements of replacements.
type Cascade struct {
	// Replacements is the number of the victims' pods that controllers create again.
	Replacements int `json:"replacements"`
	// Evictions is the number of pods that the replacements would evict.
	Evictions int `json:"evictions"`
	// Partial is true if the search stopped at its limit. Evictions is then a lower bound.
	Partial bool `json:"partial,omitempty"`
}

// hasFewerThan reports whether c certainly has fewer evictions than o. The count of a partial
// cascade is only a lower bound, so the result is false if c is partial.
func (c *Cascade) hasFewerThan(o *Cascade) bool { return !c.Partial && c.Evictions < o.Evictions }

// cascadeSearches is the maximum number of searches for room for replacements in one decision. In a
// large cluster, the maximum is cascadeEffort divided by the number of units and nodes, and at
// least leastCascadeSearches.
const cascadeSearches, leastCascadeSearches, cascadeEffort = 256, 8, 2_000_000

// cascades counts the evictions by the victims' replacements, for outcomes of one decision.
type cascades struct {
	// whole is the search over all units.
	whole *search
	// most is the maximum number of searches for replacements. The decision's meter counts them.
	most int
}

func (sr *search) newCascades() *cascades {
	looks := len(sr.s.Units) + len(sr.v.c.byName)
	return &cascades{whole: sr.whole, most: max(min(cascadeSearches, cascadeEffort/max(looks, 1)), leastCascadeSearches)}
}

// isUsedUp reports whether the decision has used up its searches for replacements.
func (cs *cascades) isUsedUp() bool { return cs.whole.v.meter.replacements >= cs.most }

// cascadeOf returns the cascade of the chosen outcome; nil in mode CascadeOff.
func (sr *search) cascadeOf(f *found) *Cascade {
	if sr.p.Cascade == CascadeOff || f.cascade != nil {
		return f.cascade
	}
	c := sr.newCascades().of(f)
	return &c
}

// of counts the evictions that follow from an outcome. It looks for room for one replacement at a
// time, in the order of the victims' importance. Each search sees the cluster with the earlier
// replacements placed.
func (cs *cascades) of(f *found) Cascade {
	a := newAftermath(cs.whole, f)
	var out Cascade
	var stuck *Preemptor
	for _, p := range a.replacements(f.victims) {
		out.Replacements += p.memberCount()
		if stuck != nil && stuck.asksLike(p) {
			continue
		}
		if cs.isUsedUp() {
			out.Partial = true
			continue
		}
		cs.whole.v.meter.replacements++
		switch d := a.decide(p); d.Outcome {
		case Infeasible:
			stuck = p
		case Fits, Waits, Preempts:
			stuck = nil
			out.Evictions += a.carryOut(p, &d)
		}
	}
	return out
}

// leastCascade returns the outcome whose victims' replacements evict the fewest pods. It compares f
// with the tied outcomes, whose cost equals the cost of f by all criteria before the cascade. Among
// outcomes with equally few evictions, f comes first, then the lowest cost by the later criteria.
func (sr *search) leastCascade(f found) found {
	if sr.p.Cascade != CascadeDecide || len(f.victims) == 0 {
		return f
	}
	cs := sr.newCascades()
	c := cs.of(&f)
	if f.cascade = &c; c.Evictions == 0 {
		return f
	}
	for _, other := range sr.tied(&f) {
		if cs.isUsedUp() {
			break
		}
		if c := cs.of(&other); c.hasFewerThan(f.cascade) {
			f, f.cascade = other, &c
		}
		if f.cascade.Evictions == 0 {
			break
		}
	}
	return f
}

// compareBeforeCascade compares two scores by all criteria before the cascade. The result is
// negative if sc costs less. Repeated and EarliestStart are not compared.
func (sc Score) compareBeforeCascade(o Score) int {
	return cmp.Or(costMore(sc, o), cmp.Compare(sc.BrokenGangs, o.BrokenGangs), cmp.Compare(o.Surplus, sc.Surplus))
}
