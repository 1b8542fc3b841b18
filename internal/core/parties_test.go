package core

import (
	"fmt"
	"testing"
)

// TestGatherings checks that rules about the same domains are one gathering if they have a class in
// common. Gatherings with a common class must be in one party.
func TestGatherings(t *testing.T) {
	t.Parallel()
	keys := map[string][]int32{
		"rack": {0, 0, 1, 1, 2, 2}, "zone": {0, 0, 0, 0, 1, 1}, "region": {0, 0, 0, 0, 0, 0}, "partly": {0, 0, 0, 0, 0, -1},
	}
	type rule struct {
		class int
		key   string
		with  []int
	}
	for name, tt := range map[string]struct {
		rules []rule
		// wantGatherings lists gatherings: the number of domains, and the classes. wantParties
		// lists the classes of each party.
		wantGatherings, wantParties string
	}{
		"none": {wantGatherings: "[]", wantParties: "[[0 1 2 3]]"},
		"one, and others anywhere": {
			rules: []rule{{0, "zone", []int{0}}}, wantGatherings: "[2:[0]]", wantParties: "[[0 1 2 3]]",
		},
		"two of the same domains, and others anywhere": {
			rules:          []rule{{0, "zone", []int{0}}, {2, "zone", []int{2}}},
			wantGatherings: "[2:[0] 2:[2]]", wantParties: "[[0] [2] [1 3]]",
		},
		"joined by a third": {
			rules:          []rule{{0, "zone", []int{0}}, {2, "zone", []int{2}}, {3, "zone", []int{2, 0}}},
			wantGatherings: "[2:[0 2 3]]", wantParties: "[[0 1 2 3]]",
		},
		"joined in a chain": {
			rules:          []rule{{0, "zone", []int{1}}, {2, "zone", []int{3}}, {1, "zone", []int{2}}},
			wantGatherings: "[2:[0 1 2 3]]", wantParties: "[[0 1 2 3]]",
		},
		"of different domains": {
			rules:          []rule{{0, "zone", []int{0, 1}}, {2, "rack", []int{2, 3}}},
			wantGatherings: "[3:[2 3] 2:[0 1]]", wantParties: "[[2 3] [0 1]]",
		},
		"around a smaller one": {
			rules:          []rule{{0, "zone", []int{0, 1}}, {1, "rack", []int{1}}},
			wantGatherings: "[3:[1] 2:[0 1]]", wantParties: "[[0 1 2 3]]",
		},
		"around two smaller ones": {
			rules:          []rule{{0, "rack", []int{0}}, {1, "rack", []int{1}}, {2, "zone", []int{0, 1}}},
			wantGatherings: "[3:[0] 3:[1] 2:[0 1 2]]", wantParties: "[[0 1 2] [3]]",
		},
		"in the domain of all nodes": {
			rules:          []rule{{0, "rack", []int{0}}, {1, "rack", []int{1}}, {2, "region", []int{0, 1}}},
			wantGatherings: "[3:[0] 3:[1]]", wantParties: "[[0] [1] [2 3]]",
		},
		"in a domain that some nodes are not in": {
			rules: []rule{{0, "partly", []int{0}}}, wantGatherings: "[1:[0]]", wantParties: "[[0 1 2 3]]",
		},
		"with classes that are not wanted": {
			rules: []rule{{0, "zone", []int{4}}, {1, "zone", []int{1, 4}}}, wantGatherings: "[2:[1]]", wantParties: "[[0 1 2 3]]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &problem{p: &Preemptor{Classes: make([]Class, 5)}, c: &columns{byName: []int32{0, 1, 2, 3, 4, 5}}, topologies: make([][]Topology, 5)}
			for _, r := range tt.rules {
				v.topologies[r.class] = append(v.topologies[r.class], Topology{Domains: keys[r.key], With: r.with})
			}
			ws := []want{{0, 1}, {1, 1}, {2, 1}, {3, 1}}
			gatherings := []string{}
			for _, g := range v.gatherings(ws) {
				gatherings = append(gatherings, fmt.Sprintf("%d:%v", g.count, g.classes))
			}
			if got := fmt.Sprint(gatherings); got != tt.wantGatherings {
				t.Errorf("gatherings %s, want %s", got, tt.wantGatherings)
			}
			var parties [][]int
			for _, party := range v.parties(ws) {
				var classes []int
				for _, w := range party {
					classes = append(classes, w.class)
				}
				parties = append(parties, classes)
			}
			if got := fmt.Sprint(parties); got != tt.wantParties {
				t.Errorf("parties %s, want %s", got, tt.wantParties)
			}
		})
	}
}
