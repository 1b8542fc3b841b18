package core

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// TestStaleGangs has pairs of gangs that lack members. The more important gang may evict the less
// important gang, but not the reverse.
func TestStaleGangs(t *testing.T) {
	t.Parallel()
	base := Unit{Priority: 9, Stale: true, Lacks: 1, Group: true, PodGroup: "a", UID: "a", Start: 100}
	cases := map[string]struct {
		change func(b *Unit)
		// wantA is true if gang a may evict gang b.
		wantA bool
	}{
		"the other one is of lower priority": {func(b *Unit) { b.Priority = 8 }, true},
		"the other one lacks more":           {func(b *Unit) { b.Lacks, b.Start = 2, 1 }, true},
		"the other one is younger":           {func(b *Unit) { b.Start = 101 }, true},
		"the other one is older":             {func(b *Unit) { b.Start = 99 }, false},
		"they are alike":                     {func(*Unit) {}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := base, base
			b.PodGroup, b.UID = "b", "b"
			c.change(&b)
			if got := takesStale(t, a, b); got != c.wantA {
				t.Errorf("gang a takes gang b: %v, want %v", got, c.wantA)
			}
			if got := takesStale(t, b, a); got == c.wantA {
				t.Errorf("gang b takes gang a: %v, and so the other way round", got)
			}
		})
	}
}

// TestOneOfTwoStaleGangsYields checks that of any two stale gangs, exactly one may evict the other.
func TestOneOfTwoStaleGangsYields(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		gang := func(name string) Unit {
			return Unit{
				UID: name, PodGroup: name, Group: true, Stale: true, Priority: rapid.Int32Range(8, 10).Draw(t, "priority"),
				Lacks: rapid.Int32Range(1, 3).Draw(t, "lacks"), Start: rapid.Int64Range(0, 2).Draw(t, "start"),
			}
		}
		a, b := gang("a"), gang("b")
		if takesStale(t, a, b) == takesStale(t, b, a) {
			t.Fatalf("%+v and %+v: both, or none, may take the other", a, b)
		}
	})
}

// TestOneOfTwoStaleGangsOfQueuesYields has two stale gangs in different queues. The decisions of
// both gangs must compare the same ratios of usage to fair share. So at most one of the gangs may
// evict the other. If the queue of the more important gang has the higher ratio, neither gang may
// evict the other, except by reclaim.
func TestOneOfTwoStaleGangsOfQueuesYields(t *testing.T) {
	t.Parallel()
	tree, faults := fairshare.NewTree(2, []fairshare.Queue{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	rapid.Check(t, func(t *rapid.T) {
		amounts := func(least, most int64, label string) Amounts {
			return Amounts{rapid.Int64Range(least, most).Draw(t, label), rapid.Int64Range(least, most).Draw(t, label)}
		}
		shares := make([]Amounts, tree.Len())
		for q := range shares {
			shares[q] = amounts(0, 6, "share")
		}
		gang := func(name string) Unit {
			return Unit{
				UID: name, PodGroup: name, Group: true, Stale: true, Membership: &QueueMembership{Queue: name},
				Priority: rapid.Int32Range(8, 9).Draw(t, "priority"), Lacks: rapid.Int32Range(1, 2).Draw(t, "lacks"),
				Start: rapid.Int64Range(0, 2).Draw(t, "start"), Pods: []Pod{{Request: amounts(1, 3, "runs")}},
			}
		}
		other := func(name, queue string) Unit {
			return Unit{UID: name, Priority: 100, Static: true, Membership: &QueueMembership{Queue: queue}, Pods: []Pod{{Request: amounts(0, 3, "runs")}}}
		}
		a, b, others := gang("a"), gang("b"), []Unit{other("x", "a"), other("y", "b")}
		asks := func() Amounts { return rapid.SampledFrom([]Amounts{{1, 0}, {0, 1}, {1, 1}}).Draw(t, "request") }
		takes := func(own, victim Unit) bool {
			own.Pods, victim.Pods = slices.Clone(own.Pods), slices.Clone(victim.Pods)
			return takesStaleIn(t, &Snapshot{
				Resources: []string{"cpu", "nvidia.com/gpu"}, Nodes: []Node{{Name: "n", Free: Amounts{0, 0}, Allocatable: Amounts{12, 12}}},
				Units: append([]Unit{own, victim}, others...), Queues: &Queues{Tree: tree, Shares: shares},
			}, asks())
		}
		ratio := func(u, beside *Unit) float64 {
			used := []int64{u.Pods[0].Request[0] + beside.Pods[0].Request[0], u.Pods[0].Request[1] + beside.Pods[0].Request[1]}
			return fairshare.DominantShare(used, nil, shares[tree.LeafOf(u.UID)], []int{0, 1})
		}
		byShare := cmp.Compare(ratio(&b, &others[1]), ratio(&a, &others[0]))
		forbidden := a.Priority != b.Priority && byShare == cmp.Compare(b.Priority, a.Priority)
		switch aTakes, bTakes := takes(a, b), takes(b, a); {
		case aTakes && bTakes:
			t.Fatal("each takes the other")
		case !aTakes && !bTakes && !forbidden:
			t.Fatal("neither takes the other")
		}
	})
}

// takesStale reports whether the stale gang own evicts the stale gang other for one more member, on
// a full node.
func takesStale(t interface{ Fatal(...any) }, own, other Unit) bool {
	for _, unit := range []*Unit{&own, &other} {
		unit.Pods = []Pod{{Request: Amounts{1}}}
	}
	s := &Snapshot{Resources: []string{"cpu"}, Nodes: []Node{{Name: "n", Free: Amounts{0}, Allocatable: Amounts{2}}}, Units: []Unit{own, other}}
	return takesStaleIn(t, s, Amounts{1})
}

// takesStaleIn reports whether the first gang of a snapshot evicts the second gang for one more
// member.
func takesStaleIn(t interface{ Fatal(...any) }, s *Snapshot, request Amounts) bool {
	for u := range s.Units {
		unit := &s.Units[u]
		unit.Name = unit.UID
		for i := range unit.Pods {
			unit.Pods[i].Name, unit.Pods[i].UID = unit.Name+"-0", unit.Name+"-0"
		}
	}
	own, other := &s.Units[0], &s.Units[1]
	p := &Preemptor{
		Name: own.Name, UID: own.UID, PodGroup: own.PodGroup, Gang: true, Priority: own.OwnPriority(), MinCount: 1,
		Classes: []Class{{Request: request, Members: []Member{{Name: "m", UID: "m"}}}},
	}
	if own.Membership != nil {
		p.Queue = own.Membership.Queue
	}
	d, err := Decide(s, p, Arithmetic{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Outcome == Preempts && own.Membership == nil && (d.Victims[0].Rule != RuleStaleGang || d.Victims[0].Priority != other.OwnPriority()) {
		t.Fatal("takes", d.Victims[0])
	}
	return d.Outcome == Preempts
}

// TestStaleGangIsOneUnit checks a gang in disruption mode Pod. While it is stale, it must be one
// unit with a priority lower by one. Before and after, each member must be a unit.
func TestStaleGangIsOneUnit(t *testing.T) {
	t.Parallel()
	c := NewCluster([]string{"cpu"})
	set := func(stale bool) []Unit {
		g := &Group{Namespace: "ns", Name: "g", UID: "g", Priority: 5, Membership: &QueueMembership{MinCount: 3}, Lacks: 1, Stale: stale}
		for _, node := range []string{"m", "n"} {
			pod := Pod{Namespace: "ns", Name: "g-" + node, UID: "g-" + node, Request: Amounts{1}}
			err := c.SetNode(&NodeState{
				Node: Node{Name: node, Free: Amounts{0}, Allocatable: Amounts{1}},
				Pods: []RunningPod{{Pod: pod, Priority: 5, Running: true, Group: g}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		var out []Unit
		for _, u := range c.Snapshot().Units {
			if len(u.Pods) > 0 {
				out = append(out, u)
			}
		}
		return out
	}
	for _, stale := range []bool{false, true, false} {
		units := set(stale)
		if stale && (len(units) != 1 || !units[0].Group || len(units[0].Pods) != 2 || units[0].Priority != 4 || units[0].OwnPriority() != 5) {
			t.Errorf("stale: units %+v, want one that stands at 4", units)
		}
		if !stale && (len(units) != 2 || units[0].Priority != 5 || units[0].Lacks != 1) {
			t.Errorf("not stale: units %+v, want two of priority 5", units)
		}
	}
}
