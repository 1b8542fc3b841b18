package core

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBudgets(t *testing.T) {
	tests := map[string]struct {
		decideCase
		wantBroken int
	}{
		"an unbroken budget comes before a lower priority": {
			decideCase: decideCase{
				cluster: clusterOf("gpu").budget(0).node("a", 8).node("b", 8).
					pod("guarded", "a", 1, 8, withBudget(0)).pod("free", "b", 5, 8),
				preemptor:   podOf(10, 8),
				wantOutcome: Preempts, wantVictims: []string{"free"},
			},
		},
		"on one node, too": {
			decideCase: decideCase{
				cluster: clusterOf("gpu").budget(0).node("a", 8).
					pod("guarded", "a", 1, 4, withBudget(0)).pod("free", "a", 5, 4),
				preemptor:   podOf(10, 4),
				wantOutcome: Preempts, wantVictims: []string{"free"},
			},
		},
		"for a gang, too": {
			decideCase: decideCase{
				cluster: clusterOf("gpu").budget(0).node("a", 8).node("b", 8).node("c", 8).
					pod("guarded", "a", 1, 8, withBudget(0)).pod("free", "b", 5, 8).pod("low", "c", 1, 8),
				preemptor:   gangOf(10, 2, members("w", 2, 0, 8)),
				wantOutcome: Preempts, wantVictims: []string{"free", "low"},
			},
		},
		"a budget is broken where there is no other way": {
			decideCase: decideCase{
				cluster:     clusterOf("gpu").budget(0).node("a", 8).pod("guarded", "a", 1, 8, withBudget(0)),
				preemptor:   podOf(10, 8),
				wantOutcome: Preempts, wantVictims: []string{"guarded"},
				wantMessage: "pod fits on a once 1 pod is gone; 1 eviction breaks a disruption budget",
			},
			wantBroken: 1,
		},
		"a group breaks a budget if any pod of it does": {
			decideCase: decideCase{
				cluster: clusterOf("gpu").budget(1).node("a", 8).node("b", 8).node("c", 8).
					group("job", 1, 8, []string{"a", "b"}, withBudget(0)).pod("c1", "c", 5, 8),
				preemptor:   podOf(10, 8),
				wantOutcome: Preempts, wantVictims: []string{"c1"},
			},
		},
		"pods of one group draw together": {
			decideCase: decideCase{
				cluster:     clusterOf("gpu").budget(1).node("a", 8).node("b", 8).group("job", 1, 8, []string{"a", "b"}, withBudget(0)),
				preemptor:   podOf(10, 8),
				wantOutcome: Preempts, wantVictims: []string{"job"},
			},
			wantBroken: 1,
		},
		"two victims draw on one budget": {
			decideCase: decideCase{
				cluster: clusterOf("gpu").budget(1).node("a", 8).node("b", 8).node("c", 8).
					pod("a1", "a", 1, 8, withBudget(0)).pod("b1", "b", 1, 8, withBudget(0)).pod("c1", "c", 5, 8),
				preemptor:   gangOf(10, 2, members("w", 2, 0, 8)),
				wantOutcome: Preempts, wantVictims: []string{"c1", "a1"},
			},
		},
		"a budget at the limit of int32": {
			decideCase: decideCase{
				cluster:     clusterOf("gpu").budget(math.MinInt32).node("a", 8).pod("guarded", "a", 1, 8, withBudget(0)),
				preemptor:   podOf(10, 8),
				wantOutcome: Preempts, wantVictims: []string{"guarded"},
			},
			wantBroken: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.run(t)
			d := mustDecide(t, tt.cluster.snapshot(), tt.preemptor, nil)
			if d.Score.BrokenBudgets != tt.wantBroken {
				t.Errorf("%d broken budgets, want %d", d.Score.BrokenBudgets, tt.wantBroken)
			}
		})
	}
}

func TestCeilingAndScore(t *testing.T) {
	tests := map[string]struct {
		decideCase
		wantCeiling int32
		wantScore   Score
	}{
		"many of a lower priority rather than one of a higher": {
			decideCase: decideCase{
				cluster: clusterOf("gpu").node("a", 8).node("b", 8).
					pod("a1", "a", 3, 4, startedAt(7)).pod("a2", "a", 2, 4, startedAt(3)).pod("b1", "b", 4, 8),
				preemptor:   podOf(10, 8),
				wantOutcome: Preempts, wantVictims: []string{"a1", "a2"},
			},
			wantCeiling: 3,
			wantScore:   Score{HighestPriority: 3, PrioritySum: 5 + 2*priorityOffset, Pods: 2, EarliestStart: 7},
		},
		"the smaller sum on the same ceiling": {
			decideCase: decideCase{
				cluster: clusterOf("gpu").node("a", 8).node("b", 8).
					pod("a1", "a", 3, 4).pod("a2", "a", 2, 4).pod("b1", "b", 3, 4).pod("b2", "b", 1, 4),
				preemptor:   podOf(10, 8),
				wantOutcome: Preempts, wantVictims: []string{"b1", "b2"},
			},
			wantCeiling: 3,
			wantScore:   Score{HighestPriority: 3, PrioritySum: 4 + 2*priorityOffset, Pods: 2, EarliestStart: math.MaxInt64},
		},
		"the latest start where all else is the same": {
			decideCase: decideCase{
				cluster: clusterOf("gpu").node("a", 8).node("b", 8).
					pod("old", "a", 3, 8, startedAt(5)).pod("young", "b", 3, 8, startedAt(6)),
				preemptor:   podOf(10, 8),
				wantOutcome: Preempts, wantVictims: []string{"young"},
			},
			wantCeiling: 3,
			wantScore:   Score{HighestPriority: 3, PrioritySum: 3 + priorityOffset, Pods: 1, EarliestStart: 6},
		},
		"a gang's ceiling spares the units above": {
			decideCase: decideCase{
				cluster: clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).
					pod("a1", "a", 1, 8).pod("b1", "b", 2, 8).pod("c1", "c", 3, 8),
				preemptor:   gangOf(10, 2, members("w", 2, 0, 8)),
				wantOutcome: Preempts, wantVictims: []string{"b1", "a1"},
			},
			wantCeiling: 2,
			wantScore:   Score{HighestPriority: 2, PrioritySum: 3 + 2*priorityOffset, Pods: 2, EarliestStart: math.MaxInt64},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.run(t)
			d := mustDecide(t, tt.cluster.snapshot(), tt.preemptor, nil)
			if d.Ceiling == nil || *d.Ceiling != tt.wantCeiling {
				t.Errorf("ceiling %v, want %d", d.Ceiling, tt.wantCeiling)
			}
			if diff := cmp.Diff(tt.wantScore, *d.Score); diff != "" {
				t.Errorf("score (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImportance(t *testing.T) {
	base := func(name string, opts ...func(*Unit)) Unit {
		u := Unit{Namespace: "ns", Name: name, UID: name, Priority: 1, Start: 5, Pods: make([]Pod, 1)}
		for _, o := range opts {
			o(&u)
		}
		return u
	}
	tests := map[string]struct{ more, less Unit }{
		"priority before all": {
			base("z", func(u *Unit) { u.Priority = 2 }),
			base("a", func(u *Unit) { u.Group, u.Lost, u.Pods, u.Start = true, 9, make([]Pod, 9), 1 }),
		},
		"groups before pods": {
			base("z", func(u *Unit) { u.Group = true }),
			base("a", func(u *Unit) { u.Lost, u.Pods, u.Start = 9, make([]Pod, 9), 1 }),
		},
		"more lost work": {
			base("z", func(u *Unit) { u.Lost = 1 }),
			base("a", func(u *Unit) { u.Pods, u.Start = make([]Pod, 9), 1 }),
		},
		"more pods": {
			base("z", func(u *Unit) { u.Pods = make([]Pod, 2) }),
			base("a", func(u *Unit) { u.Start = 1 }),
		},
		"earlier start":        {base("z", func(u *Unit) { u.Start = 4 }), base("a")},
		"not started is last":  {base("z"), base("a", func(u *Unit) { u.Start = 0 })},
		"UID":                  {base("a"), base("b")},
		"name where UID fails": {base("a"), base("b", func(u *Unit) { u.UID = "a" })},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := moreImportant(&tt.more, &tt.less); got >= 0 {
				t.Errorf("moreImportant = %d, want less than 0", got)
			}
			if got := moreImportant(&tt.less, &tt.more); got <= 0 {
				t.Errorf("moreImportant the other way round = %d, want more than 0", got)
			}
		})
	}
}

func TestBetter(t *testing.T) {
	tests := map[string]struct{ better, worse Score }{
		"budgets":          {Score{BrokenBudgets: 0, HighestPriority: 9, PrioritySum: 9, Pods: 9}, Score{BrokenBudgets: 1}},
		"highest priority": {Score{HighestPriority: 1, PrioritySum: 9, Pods: 9}, Score{HighestPriority: 2}},
		"sum":              {Score{PrioritySum: 1, Pods: 9}, Score{PrioritySum: 2}},
		"pods":             {Score{Pods: 1}, Score{Pods: 2, EarliestStart: 9}},
		"latest start":     {Score{EarliestStart: 2}, Score{EarliestStart: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if better(tt.better, tt.worse) >= 0 || better(tt.worse, tt.better) <= 0 {
				t.Errorf("%+v should be better than %+v", tt.better, tt.worse)
			}
		})
	}
}

// TestSmallGangOfMembersApart: a small gang whose members mind each other is packed anew for each victim that is looked
// at, and what all that may cost is bounded.
func TestSmallGangOfMembersApart(t *testing.T) {
	c := clusterOf("cpu")
	for n := range 20 {
		node := fmt.Sprintf("n%02d", n)
		c.node(node, 4)
		for i := range 4 {
			if n%4 == 2 {
				c.pod(fmt.Sprintf("%s-%d", node, i), node, 1, 1)
			}
		}
	}
	// Members may go to every other node: five are empty, and five are full.
	h := &hostSpread{placed: map[int]int{}}
	d := mustDecide(t, c.snapshot(), gangOf(10, 6, members("w", 6, 0, 2)), h)
	if d.Outcome != Preempts || len(d.Victims) != 2 {
		t.Fatalf("%s with %d victims: %s", d.Outcome, len(d.Victims), d.Message)
	}
	if h.calls > 100_000 {
		t.Errorf("the filters are asked %d times", h.calls)
	}
}
