package core

import (
	"cmp"
	"math"
	"slices"
)

// Score is the cost of a set of victims. Scores are compared by one criterion after the other, in
// the order of the fields. KEP-5710 takes most criteria from the preemption of single pods.
type Score struct {
	// BrokenBudgets counts the evictions that a PodDisruptionBudget does not allow.
	BrokenBudgets int `json:"brokenBudgets"`
	// HighestPriority is the highest priority of a victim; MinInt32 without victims.
	HighestPriority int32 `json:"highestPriority"`
	// LostWork is the work that the victims lose, in milli-device-seconds. It counts whole steps
	// ([Preemptor.Step]) and a constant for each pod ([Preemptor.PodCost]). It is 0 if the search
	// does not compare lost work.
	LostWork int64 `json:"lostWork,omitempty"`
	// PrioritySum is a sum over the victims' pods: the pod's priority plus a constant. With the
	// constant, every term is positive.
	PrioritySum int64 `json:"prioritySum"`
	// Pods counts the victims' pods.
	Pods int `json:"pods"`
	// BrokenGangs counts the gangs that fall below minCount; fewer are better. Gangs that are
	// evicted as one unit do not count. Gangs that were below minCount before do not count either.
	// KEP-5710 does not have this criterion.
	BrokenGangs int `json:"brokenGangs,omitempty"`
	// Surplus counts the victims' pods that are surplus members of their gangs; more are better.
	// KEP-5710 does not have this criterion.
	Surplus int `json:"surplus,omitempty"`
	// Repeated is a sum over the victims' pods: the stops of the pod's group since it last made
	// progress, at most 3. Fewer are better. It is 0 if the search does not compare stops. KEP-5710
	// does not have this criterion.
	Repeated int `json:"repeated,omitempty"`
	// EarliestStart is the earliest start of the victims with the highest priority, in nanoseconds
	// since 1970; a later start is better. It is MaxInt64 without victims.
	EarliestStart int64 `json:"earliestStart"`
}

// noVictims returns the score without victims.
func noVictims() Score {
	return Score{HighestPriority: math.MinInt32, EarliestStart: math.MaxInt64}
}

// priorityOffset is the constant that is added to each priority in PrioritySum. No term is then
// negative, so an additional victim never lowers the sum.
const priorityOffset = int64(math.MaxInt32) + 1

// plus returns the score with one more unit, except for its effect on budgets. pods is the number
// of the unit's pods, and surplus the number of its surplus pods.
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

// costMore compares two scores by the criteria up to Pods. The result is negative if a costs less.
func costMore(a, b Score) int {
	return cmp.Or(
		cmp.Compare(a.BrokenBudgets, b.BrokenBudgets),
		cmp.Compare(a.HighestPriority, b.HighestPriority),
		cmp.Compare(a.LostWork, b.LostWork),
		cmp.Compare(a.PrioritySum, b.PrioritySum),
		cmp.Compare(a.Pods, b.Pods),
	)
}

// better compares two scores by all criteria. The result is negative if a costs less.
func better(a, b Score) int {
	return cmp.Or(
		costMore(a, b),
		cmp.Compare(a.BrokenGangs, b.BrokenGangs),
		cmp.Compare(b.Surplus, a.Surplus),
		cmp.Compare(a.Repeated, b.Repeated),
		cmp.Compare(b.EarliestStart, a.EarliestStart),
	)
}

// scoreOf returns the score of a set of victims. They must be sorted most important first, because
// the order decides which evictions break a budget.
func scoreOf(s *Snapshot, victims []int32) Score {
	sc := noVictims()
	for _, u := range victims {
		unit := &s.Units[u]
		sc = sc.plus(s.priority(u), len(unit.Pods), unit.surplusPods(), startOrLast(unit.Start))
		sc.Repeated += s.repeated(u)
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

// surplusPods returns the number of the unit's surplus pods: all of its pods or none.
func (u *Unit) surplusPods() int {
	if u.Surplus {
		return len(u.Pods)
	}
	return 0
}

// unitWeight returns a unit's term in PrioritySum.
func unitWeight(s *Snapshot, u int32) int64 { return weightOf(s.priority(u), len(s.Units[u].Pods)) }

func weightOf(priority int32, pods int) int64 {
	return (int64(priority) + priorityOffset) * int64(pods)
}
