package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pickyOracle is an Oracle that rejects some nodes by name. Otherwise it is Arithmetic.
type pickyOracle struct {
	Arithmetic
	s       *Snapshot
	refuses map[string]string
}

func (o pickyOracle) Admits(_, node int) string { return o.refuses[o.s.Nodes[node].Name] }

func TestNodesOut(t *testing.T) {
	// All pods on a and d may be evicted. Node b is too small, and the pod on c may not be evicted.
	cluster := func() *build {
		return clusterOf("gpu", "cpu", "fpga").node("a", 8, 8, 0).node("b", 8, 2, 0).node("c", 8, 8, 0).node("d", 8, 8, 0).
			podOf("a1", "a", 1, []int64{8, 8}).podOf("c1", "c", 50, []int64{8, 0}).podOf("d1", "d", 5, []int64{8, 0})
	}
	tests := map[string]struct {
		preemptor   *Preemptor
		refuses     map[string]string
		wantOutcome Outcome
		want        []ReasonCount
	}{
		"of a pod that finds a place": {
			preemptor: podOf(10, 8, 4, 0), wantOutcome: Preempts,
			want: []ReasonCount{{Reason: "short of cpu", Nodes: 1}, {Reason: "short of gpu", Nodes: 1}},
		},
		"of a gang that finds a place": {
			preemptor: gangOf(10, 2, members("w", 2, 0, 8, 4, 0)), wantOutcome: Preempts,
			want: []ReasonCount{{Reason: "short of cpu", Nodes: 1}, {Reason: "short of gpu", Nodes: 1}},
		},
		"a node that takes one of the classes is not out": {
			preemptor: gangOf(10, 3, members("w", 2, 0, 8, 4, 0), members("leader", 1, 2, 1, 2, 0)), wantOutcome: Preempts,
			want: []ReasonCount{{Reason: "short of gpu", Nodes: 1}},
		},
		"a node without the resource": {
			preemptor: podOf(10, 0, 16, 1), wantOutcome: Infeasible,
			want: []ReasonCount{{Reason: "without fpga", Nodes: 4}},
		},
		"a refusal that the search came upon": {
			preemptor: podOf(10, 8, 4, 0), refuses: map[string]string{"a": "tainted"}, wantOutcome: Preempts,
			want: []ReasonCount{
				{Reason: "short of cpu", Nodes: 1}, {Reason: "short of gpu", Nodes: 1}, {Reason: "tainted", Nodes: 1},
			},
		},
		"a refusal that was not asked about is not counted": {
			preemptor: podOf(10, 8, 4, 0), refuses: map[string]string{"d": "tainted"}, wantOutcome: Preempts,
			want: []ReasonCount{{Reason: "short of cpu", Nodes: 1}, {Reason: "short of gpu", Nodes: 1}},
		},
		"all of them, where there is no place": {
			preemptor: podOf(10, 8, 4, 0), refuses: map[string]string{"a": "tainted", "d": "tainted"}, wantOutcome: Infeasible,
			want: []ReasonCount{
				{Reason: "tainted", Nodes: 2}, {Reason: "short of cpu", Nodes: 1}, {Reason: "short of gpu", Nodes: 1},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := cluster().snapshot()
			d := mustDecide(t, s, tt.preemptor, pickyOracle{s: s, refuses: tt.refuses})
			if d.Outcome != tt.wantOutcome {
				t.Fatalf("outcome %s (%s), want %s", d.Outcome, d.Message, tt.wantOutcome)
			}
			if diff := cmp.Diff(tt.want, d.NodesOut); diff != "" {
				t.Errorf("nodes out (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShortOf(t *testing.T) {
	full := func() *build {
		return clusterOf("gpu", "cpu").node("a", 8, 8).node("b", 8, 2).podOf("a1", "a", 1, []int64{8, 0}).podOf("b1", "b", 1, []int64{1, 1})
	}
	tests := map[string]struct {
		cluster     *build
		preemptor   *Preemptor
		want        map[string]int
		wantNowhere bool
	}{
		"no node has room":            {full(), podOf(10, 8, 4), map[string]int{"gpu": 2, "cpu": 1}, true},
		"one node has":                {full(), podOf(10, 7, 1), nil, false},
		"what leaves is not gone yet": {full().leaving("l", "a", 0, 8), podOf(10, 1, 8), map[string]int{"gpu": 1, "cpu": 2}, true},
		"a gang":                      {full(), gangOf(10, 1, members("w", 1, 0, 8, 4)), nil, false},
		"malformed":                   {full(), podOf(10, 8), nil, false},
		"no nodes":                    {clusterOf("gpu"), podOf(10, 1), map[string]int{}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, nowhere := tt.cluster.snapshot().ShortOf(tt.preemptor)
			if diff := cmp.Diff(tt.want, got); diff != "" || nowhere != tt.wantNowhere {
				t.Errorf("nowhere %t, short of (-want +got):\n%s", nowhere, diff)
			}
		})
	}
}
