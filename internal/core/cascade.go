package core

import "cmp"

// CascadeMode selects whether a decision also evaluates further evictions. Controllers replace
// evicted pods, and the replacements may preempt other work.
type CascadeMode string

const (
	// CascadeOff evaluates nothing. It is the zero value.
	CascadeOff CascadeMode = ""
	// CascadeMeasure evaluates the chosen outcome and reports the number of further evictions.
	CascadeMeasure CascadeMode = "Measure"
	// CascadeDecide also prefers outcomes with fewer further evictions. This criterion comes after
	// the surplus, and before the stops and the start of the victims.
	CascadeDecide CascadeMode = "Decide"
)

// Replacement tells whether a controller creates pods again after their eviction, and whether the
// new pods may preempt.
type Replacement uint8

const (
	// NoReplacement: no controller is known that creates the pods again.
	NoReplacement Replacement = iota
	// ReplacementPreempts: a controller creates the pods again, and they may preempt.
	ReplacementPreempts
	// ReplacementWaits: a controller creates the pods again, and they never preempt.
	ReplacementWaits
)

// Replacer is an Oracle that also answers which units controllers create again after an eviction.
// If the Oracle is no Replacer, the search assumes that no unit is created again.
type Replacer interface {
	// Replacement reports whether the pods of a unit are created again after its eviction.
	Replacement(unit int) Replacement
}

// Cascade counts the second level of a preemption: the evictions by the replacements of its
// victims. It does not count a third level, the evictions by replacements of replacements.
type Cascade struct {
	// Replacements is the number of the victims' pods that controllers create again.
	Replacements int `json:"replacements"`
	// Evictions is how many pods they would evict.
	Evictions int `json:"evictions"`
	// Partial is true if the search reached its bound. There may then be more evictions.
	Partial bool `json:"partial,omitempty"`
}

// hasFewerThan reports whether there are certainly fewer evictions than in another cascade. A
// partial result is only a lower bound, so it never has fewer.
func (c *Cascade) hasFewerThan(o *Cascade) bool { return !c.Partial && c.Evictions < o.Evictions }

// cascadeSearches is the most searches for room for replacements in one decision. Larger clusters
// get fewer searches, but at least leastCascadeSearches. Beyond that minimum, all searches together
// may look at cascadeEffort units and nodes.
const cascadeSearches, leastCascadeSearches, cascadeEffort = 256, 8, 2_000_000

// cascades evaluates outcomes of one decision.
type cascades struct {
	// whole is the search over all units.
	whole *search
	// most is the maximum number of searches. The meter of the decision counts them.
	most int
}

func (sr *search) newCascades() *cascades {
	looks := len(sr.s.Units) + len(sr.v.c.byName)
	return &cascades{whole: sr.whole, most: max(min(cascadeSearches, cascadeEffort/max(looks, 1)), leastCascadeSearches)}
}

// isUsedUp reports whether the decision has used up its searches for replacements.
func (cs *cascades) isUsedUp() bool { return cs.whole.v.meter.replacements >= cs.most }

// cascadeOf returns the cascade of the chosen outcome; nil if the preemptor does not ask for it.
func (sr *search) cascadeOf(f *found) *Cascade {
	if sr.p.Cascade == CascadeOff || f.cascade != nil {
		return f.cascade
	}
	c := sr.newCascades().of(f)
	return &c
}

// of counts the evictions that follow from an outcome. The replacements look for room one after the
// other, in the order of their victims' importance. Each search sees the cluster after the earlier
// replacements were placed.
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

// leastCascade returns the outcome whose replacements evict the fewest pods. It compares outcomes
// on other nodes or in other domains whose cost is equal by all criteria before the cascade. If
// several evict equally few pods, it prefers f, then the lowest cost by the later criteria.
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

// compareBeforeCascade compares two scores by all criteria before the cascade, the lower cost
// first. It ignores the stops and the start of the victims.
func (sc Score) compareBeforeCascade(o Score) int {
	return cmp.Or(costMore(sc, o), cmp.Compare(sc.BrokenGangs, o.BrokenGangs), cmp.Compare(o.Surplus, sc.Surplus))
}
