package core

import (
	"testing"

	"pgregory.net/rapid"
)

// TestStaleGangs checks that, of two gangs that lack members, the more important one may evict the
// less important one, and never the reverse.
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

// TestOneOfTwoStaleGangsYields checks that exactly one of any two stale gangs may evict the other.
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

// takesStale reports whether a stale gang that needs one more member evicts another stale gang, on
// a full node.
func takesStale(t interface{ Fatal(...any) }, own, other Unit) bool {
	for _, unit := range []*Unit{&own, &other} {
		unit.Name = unit.UID
		unit.Pods = []Pod{{Name: unit.Name + "-0", UID: unit.Name + "-0", Request: Amounts{1}}}
	}
	s := &Snapshot{Resources: []string{"cpu"}, Nodes: []Node{{Name: "n", Free: Amounts{0}, Allocatable: Amounts{2}}}, Units: []Unit{own, other}}
	p := &Preemptor{
		Name: own.Name, UID: own.UID, PodGroup: own.PodGroup, Gang: true, Priority: own.OwnPriority(), MinCount: 1,
		Classes: []Class{{Request: Amounts{1}, Members: []Member{{Name: "m", UID: "m"}}}},
	}
	d, err := Decide(s, p, Arithmetic{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Outcome == Preempts && (d.Victims[0].Rule != RuleStaleGang || d.Victims[0].Priority != other.OwnPriority()) {
		t.Fatal("takes", d.Victims[0])
	}
	return d.Outcome == Preempts
}

// TestStaleGangIsOneUnit checks a gang in disruption mode Pod. While it is stale, it is one unit
// with a priority lower by one, and it is several units before and after.
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
