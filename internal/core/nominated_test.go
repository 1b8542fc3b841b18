package core

import (
	"fmt"
	"slices"
	"testing"
)

// TestNominatedOfRoles checks that nominated workers do not replace a head without a nomination.
func TestNominatedOfRoles(t *testing.T) {
	p := ofRoles(gangOf(10, 3, members("head", 1, 0, 8), members("w", 4, 1, 2)), "head", "w")
	for i := range 4 {
		p.Nominated = append(p.Nominated, Placement{Member: fmt.Sprintf("w-%02d", i), UID: fmt.Sprintf("uid-w-%02d", i), Node: "a"})
	}
	d := mustDecide(t, clusterOf("gpu").node("a", 8).node("b", 8).pod("low", "b", 1, 8).snapshot(), p, nil)
	if d.Outcome != Preempts || len(d.Victims) != 1 {
		t.Errorf("%s: %s; want room for the head", d.Outcome, d.Message)
	}
}

// minded is an Oracle whose classes are all stateful. It accepts all placements.
type minded struct{ Arithmetic }

// Stateful always returns true.
func (minded) Stateful(int) bool { return true }

// TestNominatedNeededFirst checks that the needed members of each role come first in the
// placements, in any order of nominations.
func TestNominatedNeededFirst(t *testing.T) {
	p := ofRoles(gangOf(10, 3, members("head", 1, 0, 2), members("w", 4, 1, 2)), "head", "w")
	for _, name := range []string{"w-00", "w-01", "w-02", "w-03", "head-00"} {
		p.Nominated = append(p.Nominated, Placement{Member: name, UID: "uid-" + name, Node: "a"})
	}
	for name, oracle := range map[string]Oracle{"room": nil, "filters": minded{}} {
		d := mustDecide(t, clusterOf("gpu").node("a", 16).snapshot(), p, oracle)
		at := slices.IndexFunc(d.Placements, func(p Placement) bool { return p.Member == "head-00" })
		if d.Outcome != Fits || len(d.Placements) != 5 || at < 0 || at > 2 {
			t.Errorf("%s: %s, the head is at %d of %v", name, d.Outcome, at, d.Placements)
		}
	}
}

// TestNominated checks that a decision uses the placements of an earlier decision again, as far as
// they fit.
func TestNominated(t *testing.T) {
	place := func(member, node string) Placement {
		return Placement{Member: member, UID: "uid-" + member, Node: node}
	}
	tests := map[string]struct {
		cluster   *build
		nominated []Placement
		want      Outcome
		wantNodes []string
	}{
		"none": {cluster: clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8), want: Fits, wantNodes: []string{"a", "b"}},
		"all of them": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8), want: Fits, wantNodes: []string{"c", "b"},
			nominated: []Placement{place("w-00", "c"), place("w-01", "b")},
		},
		"a node that is full": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).pod("high", "c", 100, 8), want: Fits, wantNodes: []string{"a", "b"},
			nominated: []Placement{place("w-00", "c"), place("w-01", "b")},
		},
		"a node that has gone": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8), want: Fits, wantNodes: []string{"a", "b"},
			nominated: []Placement{place("w-00", "z"), place("w-01", "b")},
		},
		"one node twice for one member": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8), want: Fits, wantNodes: []string{"a", "b"},
			nominated: []Placement{place("w-00", "c"), place("w-00", "b")},
		},
		"nodes that are being left": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).pod("low", "a", 1, 8).leaving("l", "c", 8).leaving("m", "b", 8),
			want:    Waits, wantNodes: []string{"c", "b"}, nominated: []Placement{place("w-00", "c"), place("w-01", "b")},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := gangOf(10, 2, members("w", 2, 0, 8))
			p.Nominated = tt.nominated
			d := mustDecide(t, tt.cluster.snapshot(), p, nil)
			var nodes []string
			for _, pl := range d.Placements {
				nodes = append(nodes, pl.Node)
			}
			slices.Sort(nodes)
			want := slices.Sorted(slices.Values(tt.wantNodes))
			if d.Outcome != tt.want || !slices.Equal(nodes, want) {
				t.Errorf("%s on %v: %s; want %s on %v", d.Outcome, nodes, d.Message, tt.want, want)
			}
		})
	}
}
