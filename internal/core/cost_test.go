package core

import (
	"fmt"
	"math"
	"slices"
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

// TestBudgetsAcrossZones spreads three members over three zones. The cheapest victims would be one
// pod in each zone, but these three pods share a budget that allows one eviction. The decision must
// not break the budget.
func TestBudgetsAcrossZones(t *testing.T) {
	c := clusterOf("gpu").budget(1)
	for i := range 27 {
		node, pod := fmt.Sprintf("n%02d", i), fmt.Sprintf("p%02d", i)
		if i < 3 {
			c.node(node, 8).pod(pod, node, 1, 8, startedAt(1000), withBudget(0))
		} else {
			c.node(node, 8).pod(pod, node, 1, 8, startedAt(int64(i)))
		}
	}
	s, p := c.snapshot(), gangOf(10, 3, members("w", 3, 0, 8))
	w := newWorld(s, p)
	for n := range w.zones {
		w.zones[n] = n % 3
	}
	w.classes[0].skew = 1
	d := mustDecide(t, s, p, w)
	if d.Outcome != Preempts || d.Score.BrokenBudgets != 0 {
		t.Errorf("%s %v, %d broken budgets, want none: %s", d.Outcome, victimNames(&d), d.Score.BrokenBudgets, d.Message)
	}
}

// admissions is an Oracle that counts the calls of Admits.
type admissions struct {
	Arithmetic
	asked int
}

func (o *admissions) Admits(int, int) string { o.asked++; return "" }

// TestSurplusOutOfReach has surplus pods above the ceiling on every node. They must not make the
// search examine the nodes.
func TestSurplusOutOfReach(t *testing.T) {
	c := clusterOf("gpu")
	for i := range 50 {
		node := fmt.Sprintf("n%02d", i)
		c.node(node, 8).pod("low-"+node, node, 0, 7, startedAt(int64(100-i))).pod("above-"+node, node, 5, 1, isSurplus(true))
	}
	o := &admissions{}
	if d := mustDecide(t, c.snapshot(), podOf(10, 4), o); d.Outcome != Preempts || o.asked > 5 {
		t.Errorf("%s, %d nodes asked about, want the one whose pod has started last", d.Outcome, o.asked)
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
		"surplus rather than what its gang needs, whichever is younger": {
			decideCase: decideCase{
				cluster: clusterOf("gpu").node("a", 8).node("b", 8).
					pod("needed", "a", 3, 8, startedAt(6)).pod("surplus", "b", 3, 8, startedAt(5), isSurplus(true)),
				preemptor:   podOf(10, 8),
				wantOutcome: Preempts, wantVictims: []string{"surplus"},
			},
			wantCeiling: 3,
			wantScore:   Score{HighestPriority: 3, PrioritySum: 3 + priorityOffset, Pods: 1, Surplus: 1, EarliestStart: 5},
		},
		"a gang takes surplus rather than what others need": {
			decideCase: decideCase{
				cluster: clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).
					pod("needed", "a", 3, 8, startedAt(6)).pod("surplus", "b", 3, 8, startedAt(5), isSurplus(true)).
					pod("more", "c", 3, 8, startedAt(4), isSurplus(true)),
				preemptor:   gangOf(10, 2, members("w", 2, 0, 8)),
				wantOutcome: Preempts, wantVictims: []string{"more", "surplus"},
			},
			wantCeiling: 3,
			wantScore:   Score{HighestPriority: 3, PrioritySum: 6 + 2*priorityOffset, Pods: 2, Surplus: 2, EarliestStart: 4},
		},
		"surplus beside what is protected": {
			decideCase: decideCase{
				cluster: clusterOf("gpu").node("a", 8).node("b", 16).pod("needed", "a", 3, 8, startedAt(6)).
					pod("surplus", "b", 3, 8, startedAt(5), isSurplus(true)).
					pod("safe", "b", 3, 8, func(u *Unit) { u.Toleration = &Toleration{Below: 20, Until: Forever} }),
				preemptor:   podOf(10, 8),
				wantOutcome: Preempts, wantVictims: []string{"surplus"},
			},
			wantCeiling: 3,
			wantScore:   Score{HighestPriority: 3, PrioritySum: 3 + priorityOffset, Pods: 1, Surplus: 1, EarliestStart: 5},
		},
		"of two on one node, as much surplus as can be": {
			decideCase: decideCase{
				// Two sets of two pods are enough: y1 and y2, or old and surplus.
				cluster: clusterOf("cpu", "gpu").node("a", 10, 10).
					podOf("old", "a", 3, []int64{3, 1}, startedAt(5)).podOf("y1", "a", 3, []int64{2, 2}, startedAt(6)).podOf("y2", "a", 3, []int64{2, 2}, startedAt(7)).
					podOf("surplus", "a", 3, []int64{1, 3}, startedAt(8), isSurplus(true)).podOf("top", "a", 50, []int64{2, 2}),
				preemptor:   podOf(10, 4, 4),
				wantOutcome: Preempts, wantVictims: []string{"old", "surplus"},
			},
			wantCeiling: 3,
			wantScore:   Score{HighestPriority: 3, PrioritySum: 6 + 2*priorityOffset, Pods: 2, Surplus: 1, EarliestStart: 5},
		},
		"a gang frees the node with the most surplus": {
			decideCase: decideCase{
				cluster: clusterOf("gpu").node("a", 8).node("b", 12).
					pod("needed", "a", 3, 4, startedAt(6)).pod("a1", "a", 3, 4, startedAt(6), isSurplus(true)).
					pod("b1", "b", 3, 4, startedAt(5), isSurplus(true)).pod("b2", "b", 3, 4, startedAt(5), isSurplus(true)).
					pod("b3", "b", 3, 4, startedAt(5)),
				preemptor:   gangOf(10, 1, members("w", 1, 0, 8)),
				wantOutcome: Preempts, wantVictims: []string{"b1", "b2"},
			},
			wantCeiling: 3,
			wantScore:   Score{HighestPriority: 3, PrioritySum: 6 + 2*priorityOffset, Pods: 2, Surplus: 2, EarliestStart: 5},
		},
		"as few pods as can be, surplus or not": {
			decideCase: decideCase{
				cluster: clusterOf("gpu").node("a", 8).node("b", 8).
					pod("needed", "a", 3, 8).pod("b1", "b", 3, 4, isSurplus(true)).pod("b2", "b", 3, 4, isSurplus(true)),
				preemptor:   podOf(10, 8),
				wantOutcome: Preempts, wantVictims: []string{"needed"},
			},
			wantCeiling: 3,
			wantScore:   Score{HighestPriority: 3, PrioritySum: 3 + priorityOffset, Pods: 1, EarliestStart: math.MaxInt64},
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
			base("a", func(u *Unit) { u.Group, u.Pods, u.Start = true, make([]Pod, 9), 1 }),
		},
		"groups before pods": {
			base("z", func(u *Unit) { u.Group = true }),
			base("a", func(u *Unit) { u.Pods, u.Start = make([]Pod, 9), 1 }),
		},
		"more pods": {
			base("z", func(u *Unit) { u.Pods = make([]Pod, 2) }),
			base("a", func(u *Unit) { u.Start = 1 }),
		},
		"earlier start":        {base("z", func(u *Unit) { u.Start = 4 }), base("a")},
		"not started is last":  {base("z"), base("a", func(u *Unit) { u.Start = 0 })},
		"local before UID":     {base("z", func(u *Unit) { u.Local = true }), base("a")},
		"start before local":   {base("z", func(u *Unit) { u.Start = 4 }), base("a", func(u *Unit) { u.Local = true })},
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
		"surplus":          {Score{Surplus: 2}, Score{Surplus: 1, EarliestStart: 9}},
		"fewer stops":      {Score{Repeated: 1}, Score{Repeated: 2, EarliestStart: 9}},
		"surplus first":    {Score{Surplus: 1, Repeated: 9}, Score{}},
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

// TestSmallGangOfMembersApart checks that the effort is limited for a small gang whose members
// depend on each other. The search packs such a gang again for each victim.
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
	// Members may use every second node. Five of these nodes are empty, and five are full.
	h := &hostSpread{placed: map[int]int{}}
	d := mustDecide(t, c.snapshot(), gangOf(10, 6, members("w", 6, 0, 2)), h)
	if d.Outcome != Preempts || len(d.Victims) != 2 {
		t.Fatalf("%s with %d victims: %s", d.Outcome, len(d.Victims), d.Message)
	}
	if h.calls > 100_000 {
		t.Errorf("the filters are asked %d times", h.calls)
	}
}

// TestFewerPodsBeforeGroups checks that the score decides between sets of victims of one priority,
// on one node and for a gang. The search reprieves victims in an order. This order decides only if
// the scores are equal.
func TestFewerPodsBeforeGroups(t *testing.T) {
	t.Parallel()
	b := clusterOf("cpu").node("n", 8).group("g", 0, 2, []string{"n", "n"}, startedAt(1))
	for _, name := range []string{"s0", "s1", "s2", "s3"} {
		b.pod(name, "n", 0, 1, startedAt(5))
	}
	d := mustDecide(t, &b.s, podOf(10, 4), nil)
	if got := victimNames(&d); !slices.Equal(got, []string{"g"}) {
		t.Errorf("%v go, want the group of two pods in place of four", got)
	}
}
