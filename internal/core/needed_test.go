package core

import (
	"maps"
	"slices"
	"testing"
)

// TestNeeded checks which pods must terminate: exactly the pods that request more than their node
// has to spare.
func TestNeeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cluster   *build
		preemptor *Preemptor
		want      []string
	}{
		"a single victim": {
			cluster:   clusterOf("cpu").node("a", 4).pod("v", "a", 0, 4),
			preemptor: podOf(10, 4),
			want:      []string{"uid-v"},
		},
		"of a group on one node, any that goes is enough": {
			cluster:   clusterOf("cpu").node("a", 4).group("g", 0, 1, []string{"a", "a", "a", "a"}),
			preemptor: podOf(10, 1),
		},
		"of a group on one node, all have to go": {
			cluster:   clusterOf("cpu").node("a", 4).group("g", 0, 1, []string{"a", "a", "a", "a"}),
			preemptor: podOf(10, 4),
			want:      []string{"uid-g-0", "uid-g-1", "uid-g-2", "uid-g-3"},
		},
		"of a group on two nodes, one is not gone to": {
			cluster:   clusterOf("cpu").node("a", 4).node("b", 2).group("g", 0, 2, []string{"a", "b"}).pod("h", "a", 20, 2),
			preemptor: podOf(10, 2),
			want:      []string{"uid-g-0"},
		},
		"one that is leaving anyway": {
			cluster:   clusterOf("cpu").node("a", 4).leaving("l", "a", 3).pod("v", "a", 0, 1),
			preemptor: podOf(10, 4),
			want:      []string{"uid-l", "uid-v"},
		},
		"either of two that are leaving": {
			cluster:   clusterOf("cpu").node("a", 4).leaving("l", "a", 2).leaving("m", "a", 2),
			preemptor: podOf(10, 2),
		},
		"what is not asked for is not missing": {
			cluster:   clusterOf("cpu", "gpu").node("a", 4, 1).podOf("v", "a", 0, []int64{4, 1}),
			preemptor: podOf(10, 4, 0),
			want:      []string{"uid-v"},
		},
		"not where only the surplus goes": {
			cluster:   clusterOf("cpu").node("a", 4).node("b", 4).pod("v", "a", 0, 4).leaving("l", "b", 4),
			preemptor: gangOf(10, 1, members("m", 2, 0, 4)),
			want:      []string{"uid-l"},
		},
		"either of two, where either member is enough": {
			cluster:   clusterOf("cpu").node("a", 4).node("b", 4).leaving("k", "a", 4).leaving("l", "b", 4),
			preemptor: gangOf(10, 1, members("m", 2, 0, 4)),
		},
		"on a node with more members than the surplus": {
			cluster:   clusterOf("cpu").node("a", 8).node("b", 4).leaving("k", "a", 8).leaving("l", "b", 4),
			preemptor: gangOf(10, 2, members("m", 3, 0, 4)),
			want:      []string{"uid-k"},
		},
		"of a gang's nodes": {
			cluster:   clusterOf("cpu").node("a", 4).node("b", 4).pod("v", "a", 0, 4).leaving("l", "b", 4),
			preemptor: gangOf(10, 2, members("m", 2, 0, 4)),
			want:      []string{"uid-l", "uid-v"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := Decide(c.cluster.snapshot(), c.preemptor, Arithmetic{})
			if err != nil || d.Outcome != Preempts && d.Outcome != Waits {
				t.Fatalf("it comes to %s: %s (%v)", d.Outcome, d.Message, err)
			}
			if got := slices.Sorted(maps.Keys(c.cluster.snapshot().Needed(&d))); !slices.Equal(got, c.want) {
				t.Errorf("%v are needed, want %v, for %v", got, c.want, d.Placements)
			}
		})
	}
}
