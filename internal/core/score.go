package core

import (
	"cmp"
	"math"
	"slices"
)

// Score is the cost of a set of victims. Domains are compared by it, criterion by criterion in the
// order of the fields (KEP-5710 takes them over from the preemption of single pods).
type Score struct {
	// BrokenBudgets counts evictions that a disruption budget does not allow.
	BrokenBudgets int `json:"brokenBudgets"`
	// HighestPriority is the highest priority of a victim; MinInt32 without victims.
	HighestPriority int32 `json:"highestPriority"`
	// LostWork is the work that is lost, in milli-device-seconds, if the order of the decision
	// counts it; 0 otherwise.
	LostWork int64 `json:"lostWork,omitempty"`
	// PrioritySum adds up the victims' priorities pod by pod, each shifted to be positive.
	PrioritySum int64 `json:"prioritySum"`
	// Pods counts the victims' pods.
	Pods int `json:"pods"`
	// BrokenGangs counts the gangs that fall below minCount. For equal numbers of pods, fewer gangs
	// are better. The criterion is ours. A gang that is evicted whole as one unit, or was below
	// minCount before, does not count.
	BrokenGangs int `json:"brokenGangs,omitempty"`
	// Surplus counts the pods past the minCount of their gangs. For equal numbers of pods, more
	// surplus is better. The criterion is ours; the document has no similar criterion.
	Surplus int `json:"surplus,omitempty"`
	// EarliestStart is the earliest start among the victims of the highest priority, in nanoseconds
	// since 1970. Later is better. MaxInt64 without victims.
	EarliestStart int64 `json:"earliestStart"`
}

// noVictims returns the score without victims.
func noVictims() Score {
	return Score{HighestPriority: math.MinInt32, EarliestStart: math.MaxInt64}
}

// priorityOffset makes every priority positive in a sum, so that one more pod is never better.
const priorityOffset = int64(math.MaxInt32) + 1

// plus adds one unit to the score, except for budgets. pods is the number of its pods, surplus the
// number of surplus ones.
func (sc Score) plus(priority int32, pods, surplus int, start int64) Score {
	sc.PrioritySum += weightOf(priority, pods)
	sc.Pods += pods
	sc.Surplus += surplus
	switch {
	case priority > sc.HighestPriority:
		sc.HighestPriority, sc.EarliestStart = priority, start
	case priority == sc.HighestPriority:
		sc.EarliestStart = min(sc.EarliestStart, start)
	}
	return sc
}

// costMore compares two scores by the document's criteria and lost work, without the start.
func costMore(a, b Score) int {
	return cmp.Or(
		cmp.Compare(a.BrokenBudgets, b.BrokenBudgets),
		cmp.Compare(a.HighestPriority, b.HighestPriority),
		cmp.Compare(a.LostWork, b.LostWork),
		cmp.Compare(a.PrioritySum, b.PrioritySum),
		cmp.Compare(a.Pods, b.Pods),
	)
}

// better compares two scores. It is negative if a is cheaper.
func better(a, b Score) int {
	return cmp.Or(
		costMore(a, b),
		cmp.Compare(a.BrokenGangs, b.BrokenGangs),
		cmp.Compare(b.Surplus, a.Surplus),
		cmp.Compare(b.EarliestStart, a.EarliestStart),
	)
}

// scoreOf returns the score of a set of victims, sorted most important first. They draw on budgets
// in that order.
func scoreOf(s *Snapshot, victims []int32) Score {
	sc := noVictims()
	for _, u := range victims {
		unit := &s.Units[u]
		sc = sc.plus(s.priority(u), len(unit.Pods), unit.surplusPods(), startOrLast(unit.Start))
	}
	sc.BrokenGangs = len(brokenGangs(s, victims))
	sc.LostWork = s.losses.together(victims)
	if len(s.Budgets) > 0 && slices.ContainsFunc(victims, func(u int32) bool { return draws(&s.Units[u]) }) {
		draw := newBudgetDraw(s)
		for _, u := range victims {
			sc.BrokenBudgets += draw.evict(u)
		}
	}
	return sc
}

// surplusPods returns how many of a unit's pods are surplus: all or none.
func (u *Unit) surplusPods() int {
	if u.Surplus {
		return len(u.Pods)
	}
	return 0
}

// unitWeight returns a unit's part of PrioritySum.
func unitWeight(s *Snapshot, u int32) int64 { return weightOf(s.priority(u), len(s.Units[u].Pods)) }

func weightOf(priority int32, pods int) int64 {
	return (int64(priority) + priorityOffset) * int64(pods)
}
