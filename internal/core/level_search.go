package core

import (
	"slices"
)

// levelSearch decides for a gang with preferred levels. For each level, it runs one search with the
// members restricted to one domain of the level. Then it selects an outcome by the gang's
// LevelRule.
type levelSearch struct {
	// levels are the preferred levels, the nearest first. The last entry stands for no preference:
	// its search uses the required domain or the whole cluster.
	levels []*level
}

// level is the search of one level.
type level struct {
	*search
	// domains are the domains of the level; nil for the entry without a preference.
	domains *TopologyLevel
	// decision is the outcome of the search; nil if the level was not searched.
	decision *Decision
}

// inLevels decides for a gang with preferred levels.
func (sr *search) inLevels() Decision {
	if d, ok := sr.withoutLevel(); ok {
		return d
	}
	ls := &levelSearch{}
	for i := range sr.p.Preferred {
		to := sr.p.Preferred[i].confinement(sr.p.Domain)
		ls.levels = append(ls.levels, &level{search: newSearch(sr.v.confined(to), sr.protections), domains: to})
	}
	ls.levels = append(ls.levels, &level{search: sr})
	if sr.p.LevelRule == NearerLevel {
		return ls.report(ls.nearest())
	}
	return ls.report(ls.cheapest())
}

// last returns the entry without a preference.
func (ls *levelSearch) last() *level { return ls.levels[len(ls.levels)-1] }

// nearest returns the nearest level with an outcome, or the last level.
func (ls *levelSearch) nearest() *level {
	for _, l := range ls.levels {
		if l.isEmpty() {
			continue
		}
		d := l.anywhere()
		l.decision = &d
		if d.Outcome != Infeasible {
			return l
		}
	}
	return ls.last()
}

// cheapest returns the level whose outcome costs the least. Among equal costs, it returns the
// nearest level.
func (ls *levelSearch) cheapest() *level {
	for _, l := range ls.levels {
		if d, ok := l.fitsNow(); ok {
			l.decision = &d
			return l
		}
	}
	defer ls.last().removeLeaving()()
	for _, l := range ls.levels {
		if d, ok := l.fitsLater(); ok {
			l.decision = &d
			return l
		}
	}
	var best *level
	for _, l := range slices.Backward(ls.levels) {
		if l.isEmpty() {
			continue
		}
		d := l.preempts()
		l.decision = &d
		if best == nil || l.costsNoMoreThan(best) {
			best = l
		}
	}
	return best
}

// isEmpty reports whether a preferred level has no domain that the members may use.
func (l *level) isEmpty() bool { return l.domains != nil && len(l.v.domains) == 0 }

// costsNoMoreThan reports whether the outcome of l costs at most as much as the outcome of the
// farther level o. With queues, costs depend first on the distance of the victims' queues from
// their fair shares. So two costs are comparable only if each eviction for l has the rule and the
// queue of some eviction for o. Otherwise the result is false.
func (l *level) costsNoMoreThan(o *level) bool {
	a, b := l.decision, o.decision
	if a.Outcome != Preempts || b.Outcome != Preempts {
		return a.Outcome.order() <= b.Outcome.order() && a.Outcome != Infeasible
	}
	if _, inQueues := l.policy.(*queuePolicy); inQueues && !isSubset(causesOf(a), causesOf(b)) {
		return false
	}
	if order := l.cost.compareBeforeCascade(o.cost); order != 0 {
		return order < 0
	}
	return l.p.Cascade != CascadeDecide || !b.Cascade.hasFewerThan(a.Cascade)
}

// order returns the rank of an outcome for the comparison of levels: 0 for the lowest cost.
func (o Outcome) order() int { return slices.Index([]Outcome{Fits, Waits, Preempts, Infeasible}, o) }

// victimCause is the rule that permits the eviction of a unit, and the unit's queue.
type victimCause struct {
	rule  Rule
	queue string
}

func causesOf(d *Decision) map[victimCause]bool {
	causes := make(map[victimCause]bool)
	for i := range d.Victims {
		causes[victimCause{rule: d.Victims[i].Rule, queue: d.Victims[i].Queue}] = true
	}
	return causes
}

// isSubset reports whether all elements of a are in b.
func isSubset(a, b map[victimCause]bool) bool {
	for cause := range a {
		if !b[cause] {
			return false
		}
	}
	return true
}

// withoutLevel returns an Infeasible Decision if no node has the label of a preferred level. If a
// member already has a node, the function ignores the missing label, so that lost members can be
// replaced.
func (sr *search) withoutLevel() (Decision, bool) {
	hasHome := sr.p.Domain != nil && len(sr.p.Domain.Homes) > 0 ||
		slices.ContainsFunc(sr.p.Preferred, func(l TopologyLevel) bool { return len(l.Homes) > 0 })
	if hasHome || len(sr.v.c.byName) == 0 {
		return Decision{}, false
	}
	for i := range sr.p.Preferred {
		l := &sr.p.Preferred[i]
		if !l.hasDomain(sr.v.c.byName) {
			return Decision{
				Outcome: Infeasible, Preemptor: *sr.p,
				Message: "the members prefer one value of the node label " + l.Key + ", and no node has one",
				Levels:  []LevelChoice{{Key: l.Key, Obstacle: ObstacleNoPreferredDomain}},
			}, true
		}
	}
	return Decision{}, false
}
