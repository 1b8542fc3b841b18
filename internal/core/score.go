package core

import (
	"cmp"
	"math"
	"slices"
)

// Score is what a set of victims costs. Domains are compared by it, criterion by criterion in the order of
// the fields (KEP-5710 takes them over from the preemption of single pods).
type Score struct {
	// BrokenBudgets counts evictions that a disruption budget does not allow.
	BrokenBudgets int `json:"brokenBudgets"`
	// HighestPriority is the highest priority of a victim; MinInt32 without victims.
	HighestPriority int32 `json:"highestPriority"`
	// PrioritySum adds up the victims' priorities pod by pod, each shifted so that it is positive.
	PrioritySum int64 `json:"prioritySum"`
	// Pods counts the pods that go.
	Pods int `json:"pods"`
	// BrokenGangs counts the gangs that fall below minCount: of as many pods, the fewer gangs the
	// better. The criterion is ours. A gang that goes whole as one unit, or was below minCount
	// before, does not count.
	BrokenGangs int `json:"brokenGangs,omitempty"`
	// Surplus counts those of them that are past the minCount of their gangs: of as many pods, the more the better. That is our
	// choice; the document has no such criterion.
	Surplus int `json:"surplus,omitempty"`
	// EarliestStart is the earliest start among the victims of the highest priority, in nanoseconds since
	// 1970: the later, the better. MaxInt64 without victims.
	EarliestStart int64 `json:"earliestStart"`
}

// noVictims is the score of taking nothing.
func noVictims() Score {
	return Score{HighestPriority: math.MinInt32, EarliestStart: math.MaxInt64}
}

// priorityOffset makes every priority positive in a sum, so that one pod more is never better.
const priorityOffset = int64(math.MaxInt32) + 1

// plus adds a unit of so many pods to the score, budgets left aside. So many of them are surplus.
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

// costMore compares two scores by the document's criteria alone, without the start.
func costMore(a, b Score) int {
	return cmp.Or(
		cmp.Compare(a.BrokenBudgets, b.BrokenBudgets),
		cmp.Compare(a.HighestPriority, b.HighestPriority),
		cmp.Compare(a.PrioritySum, b.PrioritySum),
		cmp.Compare(a.Pods, b.Pods),
	)
}

// better compares two scores; it is negative where a is the cheaper one.
func better(a, b Score) int {
	return cmp.Or(
		costMore(a, b),
		cmp.Compare(a.BrokenGangs, b.BrokenGangs),
		cmp.Compare(b.Surplus, a.Surplus),
		cmp.Compare(b.EarliestStart, a.EarliestStart),
	)
}

// scoreOf scores a set of victims, most important first: that is the order in which they draw on budgets.
func scoreOf(s *Snapshot, victims []int32) Score {
	sc := noVictims()
	for _, u := range victims {
		unit := &s.Units[u]
		sc = sc.plus(s.priority(u), len(unit.Pods), unit.surplusPods(), startOrLast(unit.Start))
	}
	sc.BrokenGangs = len(brokenGangs(s, victims))
	if len(s.Budgets) > 0 && slices.ContainsFunc(victims, func(u int32) bool { return draws(&s.Units[u]) }) {
		draw := newBudgetDraw(s)
		for _, u := range victims {
			sc.BrokenBudgets += draw.evict(u)
		}
	}
	return sc
}

// surplusPods is how many of a unit's pods are surplus: all of them, or none.
func (u *Unit) surplusPods() int {
	if u.Surplus {
		return len(u.Pods)
	}
	return 0
}

// unitWeight is what one unit adds to PrioritySum.
func unitWeight(s *Snapshot, u int32) int64 { return weightOf(s.priority(u), len(s.Units[u].Pods)) }

func weightOf(priority int32, pods int) int64 {
	return (int64(priority) + priorityOffset) * int64(pods)
}
