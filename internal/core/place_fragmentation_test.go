package core

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core/fragmentation"
)

// mixOf returns a mix of pods with equal weights. Each request has the CPUs, then the GPUs.
func mixOf(requests ...[]int64) *fragmentation.Mix {
	m := &fragmentation.Mix{Device: 1}
	for _, r := range requests {
		m.Shapes = append(m.Shapes, fragmentation.Shape{Request: r, Weight: 1})
	}
	return m
}

// nodesOf returns the names of the nodes of placements, sorted.
func nodesOf(placements []Placement) (names []string) {
	for _, p := range placements {
		names = append(names, p.Node)
	}
	slices.Sort(names)
	return names
}

// TestPlacementByFragmentation compares the members' nodes with and without a mix.
func TestPlacementByFragmentation(t *testing.T) {
	t.Parallel()
	one, eight := []int64{8, 1}, []int64{64, 8}
	tests := map[string]struct {
		cluster           *build
		classes           []Class
		wantOff, wantWith []string
	}{
		"a GPU that would lack CPUs": {
			cluster: clusterOf("cpu", "gpu").node("a", 12, 2).node("b", 96, 4),
			classes: []Class{members("m", 1, 0, 8, 1)},
			wantOff: []string{"a"}, wantWith: []string{"b"},
		},
		"CPUs that no GPU needs": {
			cluster: clusterOf("cpu", "gpu").node("a", 64, 8).node("b", 96, 0),
			classes: []Class{members("m", 2, 0, 32, 0)},
			wantOff: []string{"a", "a"}, wantWith: []string{"b", "b"},
		},
		"members use the broken node first": {
			cluster: clusterOf("cpu", "gpu").node("a", 64, 8).node("b", 96, 7).node("c", 64, 8),
			classes: []Class{members("m", 9, 0, 8, 1)},
			wantOff: []string{"a", "a", "b", "b", "b", "b", "b", "b", "b"}, wantWith: []string{"a", "a", "b", "b", "b", "b", "b", "b", "b"},
		},
		"members of two kinds": {
			cluster: clusterOf("cpu", "gpu").node("a", 64, 8).node("b", 96, 0),
			classes: []Class{members("m", 1, 0, 64, 8), members("w", 1, 1, 60, 0)},
			wantOff: []string{"a", "b"}, wantWith: []string{"a", "b"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := 0
			for _, c := range tt.classes {
				count += len(c.Members)
			}
			p := gangOf(10, count, tt.classes...)
			off := mustDecide(t, tt.cluster.snapshot(), p, nil)
			p.Mix = mixOf(one, one, one, eight)
			with := mustDecide(t, tt.cluster.snapshot(), p, nil)
			if off.Outcome != Fits || with.Outcome != Fits {
				t.Fatalf("the outcomes are %s and %s", off.Outcome, with.Outcome)
			}
			if got := nodesOf(off.Placements); !slices.Equal(got, tt.wantOff) {
				t.Errorf("without a mix, members are on %v, want %v", got, tt.wantOff)
			}
			if got := nodesOf(with.Placements); !slices.Equal(got, tt.wantWith) {
				t.Errorf("with a mix, members are on %v, want %v", got, tt.wantWith)
			}
		})
	}
}

// refLeastRise places the members of one class one by one, each on the node with the lowest rise.
// Ties are broken by fewer free devices, then by room for fewer members, then by name.
func refLeastRise(s *Snapshot, p *Preemptor) (names []string) {
	request, free := p.Classes[0].Request, make([]Amounts, len(s.Nodes))
	for n := range s.Nodes {
		free[n] = slices.Clone(s.Nodes[n].Free)
	}
	for range p.Classes[0].Members {
		best := -1
		for n := range free {
			if !fits(request, free[n]) {
				continue
			}
			if best < 0 || cmp.Or(
				cmp.Compare(p.Mix.Rise(free[n], request), p.Mix.Rise(free[best], request)),
				cmp.Compare(free[n][p.Mix.Device], free[best][p.Mix.Device]),
				cmp.Compare(howMany(request, free[n], 99), howMany(request, free[best], 99)),
				cmp.Compare(s.Nodes[n].Name, s.Nodes[best].Name)) < 0 {
				best = n
			}
		}
		if best < 0 {
			break
		}
		for r, v := range request {
			free[best][r] -= v
		}
		names = append(names, s.Nodes[best].Name)
	}
	slices.Sort(names)
	return names
}

// TestMembersRaiseFragmentationLeast checks that each member uses the node with the lowest rise.
// The order of nodes must have no effect, and a mix must not change the outcome.
func TestMembersRaiseFragmentationLeast(t *testing.T) {
	t.Parallel()
	placed, moved := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		s := clusterOf("cpu", "gpu")
		for n := range 1 + pick(6) {
			s.node(string(rune('a'+n)), int64(pick(13)), int64(pick(5)))
		}
		request := []int64{int64(pick(4)), int64(pick(3))}
		p := gangOf(10, 1+pick(4), members("m", 4, 0, request...))
		without := mustDecide2(t, s.snapshot(), p)
		p.Mix = mixOf([]int64{int64(1 + pick(6)), 1}, []int64{int64(1 + pick(12)), int64(1 + pick(4))}, []int64{int64(pick(4)), 0})
		got := mustDecide2(t, s.snapshot(), p)
		if got.Outcome != without.Outcome || len(got.Placements) != len(without.Placements) {
			t.Fatalf("%s with %d placements, and %s with %d without a mix", got.Outcome, len(got.Placements), without.Outcome, len(without.Placements))
		}
		reversed := *s.snapshot()
		reversed.Nodes = slices.Clone(reversed.Nodes)
		slices.Reverse(reversed.Nodes)
		if other := mustDecide2(t, &reversed, p); !slices.Equal(got.Placements, other.Placements) {
			t.Fatalf("%v, and %v in another order of nodes", got.Placements, other.Placements)
		}
		if want := refLeastRise(s.snapshot(), p); !slices.Equal(nodesOf(got.Placements), want) && got.Outcome == Fits {
			t.Fatalf("members are on %v, want %v", nodesOf(got.Placements), want)
		}
		placed += len(got.Placements)
		if !slices.Equal(nodesOf(got.Placements), nodesOf(without.Placements)) {
			moved++
		}
	})
	if placed == 0 || moved == 0 {
		t.Errorf("%d members are placed, and %d gangs differ: the cases prove nothing", placed, moved)
	}
}

// TestFullestDomain checks required and preferred domains with equal outcomes. The fullest domain
// must be used.
func TestFullestDomain(t *testing.T) {
	t.Parallel()
	racks := []string{"r1", "r2", "r3"}
	tests := map[string]struct {
		cluster     *build
		wantOutcome Outcome
	}{
		"free nodes": {
			cluster:     clusterOf("gpu").node("a", 8).node("b", 6).node("c", 7),
			wantOutcome: Fits,
		},
		"terminating pods": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 6).node("c", 7).
				leaving("a1", "a", 8).leaving("b1", "b", 6).leaving("c1", "c", 7),
			wantOutcome: Waits,
		},
		"victims of equal cost": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 6).node("c", 7).
				pod("a1", "a", 1, 7).pod("b1", "b", 1, 6).pod("c1", "c", 1, 7),
			wantOutcome: Preempts,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			required, preferred := gangOf(10, 4, members("m", 4, 0, 1)), gangOf(10, 4, members("m", 4, 0, 1))
			required.Domain = &TopologyLevel{Key: rackKey, Of: racks}
			preferred.Preferred = []TopologyLevel{{Key: rackKey, Of: racks}}
			nearer := *preferred
			nearer.LevelRule = NearerLevel
			for _, p := range []*Preemptor{required, preferred, &nearer} {
				d := mustDecide(t, tt.cluster.snapshot(), p, nil)
				if d.Outcome != tt.wantOutcome {
					t.Fatalf("the outcome is %s, want %s: %s", d.Outcome, tt.wantOutcome, d.Message)
				}
				if got := nodesOf(d.Placements); got[0] != "b" || got[3] != "b" {
					t.Errorf("members are on %v, want b in the fullest domain", got)
				}
			}
		})
	}
}

func TestMixOfBadInput(t *testing.T) {
	t.Parallel()
	p := podOf(1, 1, 1)
	p.Mix = mixOf([]int64{1})
	if _, err := Decide(clusterOf("cpu", "gpu").node("a", 8, 8).snapshot(), p, nil); !errors.Is(err, ErrBadInput) || !errors.Is(err, fragmentation.ErrMix) {
		t.Errorf("the error is %v, want %v and %v", err, ErrBadInput, fragmentation.ErrMix)
	}
}
