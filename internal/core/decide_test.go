package core

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// victimNames returns the names of a decision's victims, most important first.
func victimNames(d *Decision) []string {
	var names []string
	for i := range d.Victims {
		names = append(names, d.Victims[i].Name)
	}
	return names
}

// nodesUsed returns the nodes of a decision's placements, in the order of placement.
func nodesUsed(d *Decision) []string {
	var nodes []string
	for _, p := range d.Placements {
		nodes = append(nodes, p.Node)
	}
	return nodes
}

func mustDecide(t testing.TB, s *Snapshot, p *Preemptor, o Oracle) Decision {
	t.Helper()
	d, err := Decide(s, p, o)
	if err != nil {
		t.Fatalf("Decide: %v", err)
	}
	return d
}

type decideCase struct {
	cluster     *build
	preemptor   *Preemptor
	wantOutcome Outcome
	wantVictims []string
	wantNodes   []string
	wantMessage string
}

func (tt *decideCase) run(t *testing.T) {
	d := mustDecide(t, tt.cluster.snapshot(), tt.preemptor, nil)
	if d.Outcome != tt.wantOutcome {
		t.Fatalf("outcome %s (%s), want %s", d.Outcome, d.Message, tt.wantOutcome)
	}
	if diff := cmp.Diff(tt.wantVictims, victimNames(&d)); diff != "" {
		t.Errorf("victims (-want +got):\n%s", diff)
	}
	if tt.wantNodes != nil {
		if diff := cmp.Diff(tt.wantNodes, nodesUsed(&d)); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
	}
	if tt.wantMessage != "" && d.Message != tt.wantMessage {
		t.Errorf("message %q, want %q", d.Message, tt.wantMessage)
	}
}

func TestFourCases(t *testing.T) {
	tests := map[string]decideCase{
		"pod takes a pod": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).
				pod("low", "a", 1, 8).pod("mid", "b", 5, 8),
			preemptor:   podOf(10, 8),
			wantOutcome: Preempts, wantVictims: []string{"low"}, wantNodes: []string{"a"},
			wantMessage: "pod fits on a once 1 pod is gone",
		},
		"pod takes a group, which counts with all its pods": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).
				group("job", 1, 8, []string{"a", "b"}).pod("single", "c", 1, 8),
			preemptor:   podOf(10, 8),
			wantOutcome: Preempts, wantVictims: []string{"single"}, wantNodes: []string{"c"},
		},
		"pod takes a group because its priority is lower": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).
				group("job", 1, 8, []string{"a", "b"}).pod("single", "c", 2, 8),
			preemptor:   podOf(10, 8),
			wantOutcome: Preempts, wantVictims: []string{"job"}, wantNodes: []string{"a"},
			wantMessage: "pod fits on a once 1 group (2 pods) is gone",
		},
		"gang takes pods where fewest have to go": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).
				pod("a1", "a", 1, 4).pod("a2", "a", 1, 4).
				pod("b1", "b", 1, 8).pod("c1", "c", 1, 8),
			preemptor:   gangOf(10, 2, members("w", 2, 0, 8)),
			wantOutcome: Preempts, wantVictims: []string{"b1", "c1"}, wantNodes: []string{"b", "c"},
			wantMessage: "gang of 2 fits on 2 nodes once 2 pods are gone",
		},
		"gang takes one group rather than two pods and a part of nothing": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).
				group("job", 1, 8, []string{"a", "b"}).pod("c1", "c", 1, 8),
			preemptor:   gangOf(10, 2, members("w", 2, 0, 8)),
			wantOutcome: Preempts, wantVictims: []string{"job"}, wantNodes: []string{"a", "b"},
		},
	}
	for name, tt := range tests {
		t.Run(name, tt.run)
	}
}

func TestOutcomes(t *testing.T) {
	never := podOf(10, 8)
	never.Never = true
	further := podOf(10, 8)
	further.Never, further.FurtherGroup = true, true
	tests := map[string]decideCase{
		"fits as things are": {
			cluster:     clusterOf("gpu").node("a", 8).node("b", 8).pod("low", "a", 1, 1),
			preemptor:   podOf(10, 8),
			wantOutcome: Fits, wantNodes: []string{"b"}, wantMessage: "pod fits on b",
		},
		"fits on the fuller node": {
			cluster:     clusterOf("gpu").node("a", 8).node("b", 8).pod("low", "b", 1, 4),
			preemptor:   podOf(10, 4),
			wantOutcome: Fits, wantNodes: []string{"b"},
		},
		"waits for a leaving pod at no cost": {
			cluster:     clusterOf("gpu").node("a", 8).node("b", 8).pod("low", "a", 1, 8).leaving("going", "b", 8),
			preemptor:   podOf(10, 8),
			wantOutcome: Waits, wantNodes: []string{"b"}, wantMessage: "pod fits on b once leaving pods are gone",
		},
		"a leaving pod lowers the cost of its node": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).
				pod("a1", "a", 1, 4).pod("a2", "a", 1, 4).pod("b1", "b", 1, 4).leaving("going", "b", 4),
			preemptor:   podOf(10, 8),
			wantOutcome: Preempts, wantVictims: []string{"b1"}, wantNodes: []string{"b"},
		},
		"preemptionPolicy Never": {
			cluster:     clusterOf("gpu").node("a", 8).pod("low", "a", 1, 8),
			preemptor:   never,
			wantOutcome: Infeasible,
			wantMessage: "needs 8 gpu on 1 node; no node has them as things are; preemptionPolicy Never forbids taking any (of 1 node: 1 short of gpu)",
		},
		"a group past minGroupCount": {
			cluster:     clusterOf("gpu").node("a", 8).pod("low", "a", 1, 8),
			preemptor:   further,
			wantOutcome: Infeasible,
			wantMessage: "needs 8 gpu on 1 node; no node has them as things are; nothing is preempted for groups past minGroupCount (of 1 node: 1 short of gpu)",
		},
		"the same priority is safe": {
			cluster:     clusterOf("gpu").node("a", 8).pod("peer", "a", 10, 8),
			preemptor:   podOf(10, 8),
			wantOutcome: Infeasible,
		},
		"says what a gang is short of": {
			cluster: clusterOf("nvidia.com/gpu").node("a", 8).node("b", 8).node("c", 8).node("d", 8).
				pod("a1", "a", 1, 8).pod("b1", "b", 1, 8).pod("c1", "c", 1, 8).pod("d1", "d", 50, 1),
			preemptor:   gangOf(10, 4, members("w", 4, 0, 8)),
			wantOutcome: Infeasible,
			wantMessage: "needs 8 nvidia.com/gpu on 4 nodes; 3 nodes have them after preemption (of 4 nodes: 1 short of nvidia.com/gpu)",
		},
		"says it in the units of the resource": {
			cluster:     clusterOf("cpu", "memory").node("a", 64000, 64<<30),
			preemptor:   gangOf(10, 9, members("w", 9, 0, 4000, 16<<30)),
			wantOutcome: Infeasible,
			wantMessage: "needs 16Gi memory for each of 9 members; 4 have room as things are",
		},
		"no nodes": {
			cluster:     clusterOf("gpu"),
			preemptor:   podOf(10, 8),
			wantOutcome: Infeasible, wantMessage: "there are no nodes",
		},
	}
	for name, tt := range tests {
		t.Run(name, tt.run)
	}
}

// nowhere is an Oracle with rules about domains, for a cluster without nodes.
type nowhere struct{ Arithmetic }

func (nowhere) Topologies(class int) []Topology {
	return []Topology{{With: []int{class}}, {Spread: nowhere{}}}
}

func (nowhere) Count(int32) int { return 0 }

func (nowhere) Takes(int32) bool { return true }

// TestRulesAboutNoDomains checks the message for members with rules about domains if there are no
// nodes.
func TestRulesAboutNoDomains(t *testing.T) {
	t.Parallel()
	for name, preemptor := range map[string]*Preemptor{"a pod": podOf(10, 8), "a gang": gangOf(10, 2, members("w", 2, 0, 8))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := mustDecide(t, clusterOf("gpu").snapshot(), preemptor, nowhere{})
			if d.Outcome != Infeasible || d.Message != "there are no nodes" {
				t.Errorf("%s: %s", d.Outcome, d.Message)
			}
		})
	}
}

func TestUnits(t *testing.T) {
	own := podOf(10, 8)
	own.PodGroup = "uid-own"
	tests := map[string]decideCase{
		"members of a group in mode Pod go one by one": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).
				pod("m1", "a", 1, 8, inPodGroup("uid-job")).pod("m2", "b", 1, 8, inPodGroup("uid-job")),
			preemptor:   podOf(10, 8),
			wantOutcome: Preempts, wantVictims: []string{"m1"}, wantNodes: []string{"a"},
		},
		"a group in mode PodGroup goes whole": {
			cluster:     clusterOf("gpu").node("a", 8).node("b", 8).group("job", 1, 8, []string{"a", "b"}),
			preemptor:   podOf(10, 8),
			wantOutcome: Preempts, wantVictims: []string{"job"}, wantNodes: []string{"a"},
		},
		"members of the preemptor's own gang are safe whatever their priority": {
			cluster:     clusterOf("gpu").node("a", 8).node("b", 8).pod("mate", "a", 1, 8, inPodGroup("uid-own")).pod("other", "b", 5, 8),
			preemptor:   own,
			wantOutcome: Preempts, wantVictims: []string{"other"}, wantNodes: []string{"b"},
		},
		"nothing but the own gang to take": {
			cluster:     clusterOf("gpu").node("a", 8).pod("mate", "a", 1, 8, inPodGroup("uid-own")),
			preemptor:   own,
			wantOutcome: Infeasible,
		},
		"a pod of the unit on an unknown node frees nothing but goes along": {
			cluster:     clusterOf("gpu").node("a", 8).node("b", 8).group("job", 1, 8, []string{"a", "elsewhere"}).pod("b1", "b", 1, 8),
			preemptor:   podOf(10, 8),
			wantOutcome: Preempts, wantVictims: []string{"b1"}, wantNodes: []string{"b"},
		},
		"a negative request of a running pod frees nothing": {
			cluster:     clusterOf("gpu").node("a", 8).pod("odd", "a", 1, -8).pod("full", "a", 1, 8),
			preemptor:   podOf(10, 16),
			wantOutcome: Preempts, wantVictims: []string{"full"},
		},
		"priorities at the limits of int32": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).
				pod("lowest", "a", math.MinInt32, 8).pod("high", "b", math.MaxInt32-1, 8),
			preemptor:   podOf(math.MaxInt32, 8),
			wantOutcome: Preempts, wantVictims: []string{"lowest"},
		},
		"the lowest priority takes nothing": {
			cluster:     clusterOf("gpu").node("a", 8).pod("low", "a", math.MinInt32, 8),
			preemptor:   podOf(math.MinInt32, 8),
			wantOutcome: Infeasible,
		},
		"duplicate UIDs": {
			cluster: clusterOf("gpu").node("a", 8).
				pod("twin", "a", 1, 4).pod("twin", "a", 1, 4),
			preemptor:   podOf(10, 8),
			wantOutcome: Preempts, wantVictims: []string{"twin", "twin"},
		},
	}
	for name, tt := range tests {
		t.Run(name, tt.run)
	}
}

// ofRoles sets the roles of a preemptor's classes.
func ofRoles(p *Preemptor, roles ...string) *Preemptor {
	for c := range p.Classes {
		p.Classes[c].Role = roles[c]
	}
	return p
}

// TestNeededComeFirst checks that the first MinCount placements are for needed members. This must
// also be true if a member replaces another member of its role.
func TestNeededComeFirst(t *testing.T) {
	p := ofRoles(gangOf(10, 3, members("lost", 1, 0, 100), members("b", 2, 1, 1), members("head", 1, 3, 2), members("small", 1, 4, 4)), "a", "b", "head", "a")
	p.Classes[1].Members[1].Rank = 5
	p.Classes[3].Members[0].Rank = 6
	d := mustDecide(t, clusterOf("gpu").node("a", 16).snapshot(), p, nil)
	var got []string
	for _, place := range d.Placements {
		got = append(got, place.Member)
	}
	if want := []string{"b-00", "head-00", "small-00", "b-01"}; !slices.Equal(got, want) {
		t.Errorf("The members go in the order %v, want %v", got, want)
	}
}

func TestGangs(t *testing.T) {
	running := gangOf(10, 0, members("w", 3, 0, 8))
	tests := map[string]decideCase{
		"a leader and workers": {
			cluster: clusterOf("gpu", "cpu").node("a", 8, 4).node("b", 8, 4).node("c", 0, 8).
				podOf("a1", "a", 1, []int64{8, 1}).podOf("c1", "c", 1, []int64{0, 8}),
			preemptor:   gangOf(10, 3, members("leader", 1, 0, 0, 8), members("worker", 2, 1, 8, 1)),
			wantOutcome: Preempts, wantVictims: []string{"a1", "c1"}, wantNodes: []string{"c", "a", "b"},
		},
		"classes that compete for one node": {
			cluster:     clusterOf("gpu").node("a", 6).node("b", 4).pod("a1", "a", 1, 6).pod("b1", "b", 1, 4),
			preemptor:   gangOf(10, 4, members("x", 2, 0, 3), members("y", 2, 2, 2)),
			wantOutcome: Preempts, wantVictims: []string{"a1", "b1"}, wantNodes: []string{"a", "a", "b", "b"},
		},
		"the surplus takes room that is left and no other's place": {
			cluster:     clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).pod("a1", "a", 1, 8).pod("c1", "c", 1, 8),
			preemptor:   gangOf(10, 2, members("w", 4, 0, 4)),
			wantOutcome: Fits, wantNodes: []string{"b", "b"},
		},
		"the surplus also takes room that victims leave over": {
			cluster:     clusterOf("gpu").node("a", 8).node("b", 8).pod("a1", "a", 1, 8).pod("b1", "b", 1, 8),
			preemptor:   gangOf(10, 1, members("w", 4, 0, 4)),
			wantOutcome: Preempts, wantVictims: []string{"a1"}, wantNodes: []string{"a", "a"},
		},
		"no member is needed any more: the surplus takes what is free": {
			cluster:     clusterOf("gpu").node("a", 8).node("b", 8).pod("a1", "a", 1, 8),
			preemptor:   running,
			wantOutcome: Fits, wantNodes: []string{"b"},
		},
		"no member is needed any more: nothing goes": {
			cluster:     clusterOf("gpu").node("a", 8).pod("a1", "a", 1, 8),
			preemptor:   running,
			wantOutcome: Infeasible,
		},
		"any members will do where the first by rank have no room": {
			cluster:     clusterOf("gpu").node("a", 8),
			preemptor:   gangOf(10, 4, members("big", 1, 0, 8), members("small", 4, 1, 2)),
			wantOutcome: Fits, wantNodes: []string{"a", "a", "a", "a"},
		},
		"members of one role will do for others of theirs": {
			cluster:     clusterOf("gpu").node("a", 6),
			preemptor:   ofRoles(gangOf(10, 3, members("head", 1, 0, 2), members("big", 2, 1, 8), members("small", 2, 3, 2)), "head", "worker", "worker"),
			wantOutcome: Fits, wantNodes: []string{"a", "a", "a"},
		},
		"members of one role do not stand in for another's": {
			cluster:     clusterOf("gpu").node("a", 6).node("b", 8).pod("low", "b", 1, 8),
			preemptor:   ofRoles(gangOf(10, 3, members("head", 1, 0, 8), members("worker", 4, 1, 2)), "head", "worker"),
			wantOutcome: Preempts, wantVictims: []string{"low"}, wantNodes: []string{"b", "a", "a", "a"},
		},
		"a small role of which there is no room for enough": {
			cluster:     clusterOf("gpu").node("a", 8),
			preemptor:   ofRoles(gangOf(10, 3, members("head", 1, 0, 9), members("worker", 4, 1, 2)), "head", "worker"),
			wantOutcome: Infeasible, wantMessage: "needs room for 3 members; 2 have it as things are",
		},
		"the surplus of one role is not in the way of another": {
			cluster: clusterOf("gpu").node("a", 16).node("b", 16).node("c", 16),
			preemptor: ofRoles(gangOf(10, 3, members("lost", 1, 0, 100), members("head", 1, 1, 2), members("b", 50, 2, 1), members("a", 3, 60, 16)),
				"a", "head", "b", "a"),
			wantOutcome: Fits,
		},
		"a gang larger than the cluster": {
			cluster:     clusterOf("gpu").node("a", 8),
			preemptor:   gangOf(10, 500, members("w", 1000, 0, 8)),
			wantOutcome: Infeasible,
			wantMessage: "needs 8 gpu on 500 nodes; 1 node has them as things are",
		},
		"members that ask for nothing": {
			cluster:     clusterOf("gpu").node("a", 8),
			preemptor:   gangOf(10, 3, members("w", 3, 0, 0)),
			wantOutcome: Fits, wantNodes: []string{"a", "a", "a"},
		},
	}
	for name, tt := range tests {
		t.Run(name, tt.run)
	}
}
