package core

import (
	gocmp "cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBadInput(t *testing.T) {
	tests := map[string]struct {
		change    func(s *Snapshot, p *Preemptor)
		wantError string
	}{
		"negative request":          {func(_ *Snapshot, p *Preemptor) { p.Classes[0].Request[0] = -1 }, "asks for -1"},
		"request of the wrong size": {func(_ *Snapshot, p *Preemptor) { p.Classes[0].Request = nil }, "has 0 amounts for 1 resources"},
		"no members":                {func(_ *Snapshot, p *Preemptor) { p.Classes = nil }, "has no members"},
		"more needed than there are": {
			func(_ *Snapshot, p *Preemptor) { p.MinCount = 2 }, "asks for 2 of 1 members"},
		"negative minCount":       {func(_ *Snapshot, p *Preemptor) { p.MinCount = -1 }, "asks for -1 of 1 members"},
		"a pod of two":            {func(_ *Snapshot, p *Preemptor) { p.Classes = append(p.Classes, p.Classes[0]) }, "has 2 members"},
		"an empty band":           {func(_ *Snapshot, p *Preemptor) { p.Bands = []Band{{2, 1}} }, "from 2 to 1 is empty"},
		"bands that overlap":      {func(_ *Snapshot, p *Preemptor) { p.Bands = []Band{{1, 2}, {2, 3}} }, "from 2 to 3 does not begin above 2"},
		"a band across critical":  {func(_ *Snapshot, p *Preemptor) { p.Bands = []Band{{1, systemCritical}} }, "has system-critical priorities and others"},
		"a negative restart":      {func(_ *Snapshot, p *Preemptor) { p.Restart = -1 }, "a restart cost of -1 ns"},
		"a negative step":         {func(_ *Snapshot, p *Preemptor) { p.Step = -1 }, "a step of -1 ns"},
		"a negative cost of pods": {func(_ *Snapshot, p *Preemptor) { p.PodCost = -1 }, "a cost of -1 ns for each pod"},
		"node past the end":       {func(s *Snapshot, _ *Preemptor) { s.Units[0].Pods[0].Node = 7 }, "is on node 7 of 1"},
		"unknown budget":          {func(s *Snapshot, _ *Preemptor) { s.Units[0].Pods[0].Budgets = []int{0} }, "names budget 0 of 0"},
		"unit without pods":       {func(s *Snapshot, _ *Preemptor) { s.Units[0].Pods = nil }, "has no pods"},
		"node without room":       {func(s *Snapshot, _ *Preemptor) { s.Nodes[0].Free = nil }, "has 0 and 1 amounts"},
		"leaving past end":        {func(s *Snapshot, _ *Preemptor) { s.Leaving = []Pod{{Request: Amounts{1}, Node: 1}} }, "is on node 1 of 1"},
		"pod without amount":      {func(s *Snapshot, _ *Preemptor) { s.Units[0].Pods[0].Request = nil }, "has 0 amounts"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, p := clusterOf("gpu").node("a", 8).pod("low", "a", 1, 8).snapshot(), podOf(10, 8)
			tt.change(s, p)
			_, err := Decide(s, p, nil)
			if !errors.Is(err, ErrBadInput) {
				t.Fatalf("error %v, want ErrBadInput", err)
			}
			if !strings.Contains(err.Error(), tt.wantError) {
				t.Errorf("error %q, want one with %q", err, tt.wantError)
			}
		})
	}
}

func TestQuantitiesOutOfRange(t *testing.T) {
	const huge = math.MaxInt64
	tests := map[string]struct {
		cluster     *build
		request     int64
		wantOutcome Outcome
	}{
		"room without end":               {clusterOf("gpu").node("a", huge), 8, Fits},
		"a request without end":          {clusterOf("gpu").node("a", huge), huge, Infeasible},
		"two pods that overflow":         {clusterOf("gpu").node("a", 8).pod("x", "a", 1, huge).pod("y", "a", 1, huge), 8, Infeasible},
		"one pod at the limit":           {clusterOf("gpu").node("a", 8).pod("x", "a", 1, huge), 8, Infeasible},
		"a sound node next to an odd":    {clusterOf("gpu").node("a", 8).node("b", 8).pod("x", "a", 1, huge).pod("z", "b", 1, 8), 8, Preempts},
		"less than no room":              {clusterOf("gpu").node("a", math.MinInt64), 8, Infeasible},
		"a leaving pod without end":      {clusterOf("gpu").node("a", 8).leaving("l", "a", huge), 8, Infeasible},
		"nothing wanted, nothing needed": {clusterOf("gpu").node("a", 0), 0, Fits},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, p := range []*Preemptor{podOf(10, tt.request), gangOf(10, 1, members("w", 1, 0, tt.request))} {
				if d := mustDecide(t, tt.cluster.snapshot(), p, nil); d.Outcome != tt.wantOutcome {
					t.Errorf("gang %t: outcome %s (%s), want %s", p.Gang, d.Outcome, d.Message, tt.wantOutcome)
				}
			}
		})
	}
}

func TestDecisionIsComplete(t *testing.T) {
	b := clusterOf("gpu").node("a", 8).node("b", 8).
		pod("a1", "a", 1, 4).pod("a2", "a", 2, 4).pod("b1", "b", 9, 8).
		pod("own", "b", 3, 0, inPodGroup("uid-g")).pod("peer", "b", 20, 0)
	d := mustDecide(t, b.snapshot(), gangOf(9, 1, members("w", 1, 0, 4)), nil)
	if got := victimNames(&d); !slices.Equal(got, []string{"a1"}) {
		t.Fatalf("victims %v, want [a1]", got)
	}
	ref := func(name string, priority int32) UnitRef {
		return UnitRef{Namespace: "ns", Name: name, UID: "uid-" + name, Priority: priority}
	}
	if d.Reprieved != 1 {
		t.Errorf("%d reprieved, want 1", d.Reprieved)
	}
	if diff := cmp.Diff([]UnitRef{ref("a2", 2)}, d.ReprievedUnits); diff != "" {
		t.Errorf("reprieved units (-want +got):\n%s", diff)
	}
	wantCounts := []RuleCount{{RuleNotLowerPriority, 2}, {RuleOwnGang, 1}}
	if diff := cmp.Diff(wantCounts, d.Protected); diff != "" {
		t.Errorf("protected (-want +got):\n%s", diff)
	}
	wantProtected := []ProtectedUnit{
		{UnitRef: ref("own", 3), Rule: RuleOwnGang},
		{UnitRef: ref("b1", 9), Rule: RuleNotLowerPriority},
		{UnitRef: ref("peer", 20), Rule: RuleNotLowerPriority},
	}
	if diff := cmp.Diff(wantProtected, d.ProtectedUnits); diff != "" {
		t.Errorf("protected units (-want +got):\n%s", diff)
	}
}

// TestElsewhereUnits checks that a decision names potential victims on other nodes, least important
// first.
func TestElsewhereUnits(t *testing.T) {
	crowd := clusterOf("gpu").node("n00", 8).pod("taken", "n00", 0, 8)
	for i := range capElsewhere + 3 {
		node := fmt.Sprintf("n%02d", i+1)
		crowd = crowd.node(node, 8).pod("p-"+node, node, int32(1+i%2), 8)
	}
	for name, tt := range map[string]struct {
		cluster *build
		p       *Preemptor
		want    []string
	}{
		"on another node": {
			clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).pod("a1", "a", 1, 8).pod("b1", "b", 3, 4, startedAt(7)).pod("b2", "b", 2, 4).pod("c1", "c", 50, 8),
			podOf(10, 8), []string{"b2 on b, 1 pods, since 0", "b1 on b, 1 pods, since 7"},
		},
		"a group is named once": {
			clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).pod("a1", "a", 1, 8).group("g", 2, 8, []string{"b", "c"}),
			podOf(10, 8), []string{"g on b, 2 pods, since 0"},
		},
		"a group that reaches where room is made is not elsewhere": {
			clusterOf("gpu").node("a", 8).node("b", 4).pod("a1", "a", 1, 4).group("g", 2, 4, []string{"a", "b"}), podOf(10, 4), nil,
		},
		"no more than a few, and those of the lowest priority": {
			crowd, podOf(10, 8), []string{
				"p-n01 on n01, 1 pods, since 0", "p-n03 on n03, 1 pods, since 0", "p-n05 on n05, 1 pods, since 0", "p-n07 on n07, 1 pods, since 0",
				"p-n09 on n09, 1 pods, since 0", "p-n11 on n11, 1 pods, since 0", "p-n13 on n13, 1 pods, since 0",
				"p-n06 on n06, 1 pods, since 0", "p-n08 on n08, 1 pods, since 0", "p-n10 on n10, 1 pods, since 0",
			},
		},
		"nothing where there was no choice": {clusterOf("gpu").node("a", 8).node("b", 8).pod("a1", "a", 1, 8).pod("b1", "b", 11, 8), podOf(10, 8), nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := mustDecide(t, tt.cluster.snapshot(), tt.p, nil)
			if d.Outcome != Preempts {
				t.Fatalf("%s: %s", d.Outcome, d.Message)
			}
			var got []string
			for _, u := range d.ElsewhereUnits {
				got = append(got, fmt.Sprintf("%s on %s, %d pods, since %d", u.Name, u.Node, u.Pods, u.Start))
			}
			slices.Sort(got)
			want := slices.Sorted(slices.Values(tt.want))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("units elsewhere (-want +got):\n%s", diff)
			}
			if !slices.IsSortedFunc(d.ElsewhereUnits, func(a, b ElsewhereUnit) int { return gocmp.Compare(a.Priority, b.Priority) }) {
				t.Errorf("They are not in the order of their priority: %+v", d.ElsewhereUnits)
			}
		})
	}
}
