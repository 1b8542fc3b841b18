package filters

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// TestFiltersAreAsked checks that the in-tree filters determine the nodes and victims of a gang.
func TestFiltersAreAsked(t *testing.T) {
	t.Parallel()
	apart := func(p *corev1.Pod) *corev1.Pod {
		p.Labels["app"] = "apart"
		return wrap(p).PodAntiAffinityIn("app", corev1.LabelHostname, []string{"apart"}, st.PodAntiAffinityWithRequiredReq).Obj()
	}
	together := func(p *corev1.Pod) *corev1.Pod {
		p.Labels["app"] = "together"
		return wrap(p).PodAffinityIn("app", corev1.LabelHostname, []string{"together"}, st.PodAffinityWithRequiredReq).Obj()
	}
	spread := func(p *corev1.Pod) *corev1.Pod {
		p.Labels["app"] = "spread"
		return wrap(p).SpreadConstraint(1, corev1.LabelHostname, corev1.DoNotSchedule,
			&metav1.LabelSelector{MatchLabels: map[string]string{"app": "spread"}}, nil, nil, nil, nil).Obj()
	}
	port := func(p *corev1.Pod) *corev1.Pod { return wrap(p).HostPort(80).Obj() }
	same := func(p *corev1.Pod) *corev1.Pod { return p }
	tainted := node("node-9", "8")
	tainted.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	cases := map[string]struct {
		nodes       []runtime.Object
		running     []*corev1.Pod
		change      func(*corev1.Pod) *corev1.Pod
		members     int
		outcome     core.Outcome
		wantNodes   []string
		wantVictims []string
	}{
		"members that keep apart": {
			nodes: nodes(2, "8"), change: apart, members: 2, outcome: core.Fits, wantNodes: []string{"node-0", "node-1"},
		},
		"members that keep apart, with too few nodes": {
			nodes: nodes(2, "8"), change: apart, members: 3, outcome: core.Infeasible,
		},
		"members that keep apart from a pod": {
			nodes: nodes(2, "8"), running: []*corev1.Pod{on(apart(pod("r", "h", "1", 0)), "node-0")},
			change: apart, members: 2, outcome: core.Preempts, wantNodes: []string{"node-0", "node-1"}, wantVictims: []string{"r"},
		},
		"members that keep together": {
			nodes: nodes(2, "3"), change: together, members: 3, outcome: core.Fits, wantNodes: []string{"node-0", "node-0", "node-0"},
		},
		"members that spread": {
			nodes: nodes(3, "8"), change: spread, members: 3, outcome: core.Fits, wantNodes: []string{"node-0", "node-1", "node-2"},
		},
		"a host port that each node has once": {
			nodes: nodes(2, "8"), change: port, members: 3, outcome: core.Infeasible,
		},
		"a host port that a pod has": {
			nodes: nodes(1, "8"), running: []*corev1.Pod{on(port(pod("r", "", "1", 0)), "node-0")},
			change: port, members: 1, outcome: core.Preempts, wantNodes: []string{"node-0"}, wantVictims: []string{"r"},
		},
		"nobody is taken from a node with a taint": {
			nodes: []runtime.Object{tainted}, running: []*corev1.Pod{on(pod("r", "", "8", 0), "node-9")},
			change: same, members: 1, outcome: core.Infeasible,
		},
		"nobody is taken from a node that is too small": {
			nodes: nodes(1, "1"), running: []*corev1.Pod{on(pod("r", "", "1", 0), "node-0")},
			change: func(p *corev1.Pod) *corev1.Pod {
				p.Spec.Containers[0].Resources.Requests["cpu"] = quantity("2")
				return p
			},
			members: 1, outcome: core.Infeasible,
		},
		"nobody is taken from a node that a selector leaves out": {
			nodes: nodes(1, "1"), running: []*corev1.Pod{on(pod("r", "", "1", 0), "node-0")},
			change:  func(p *corev1.Pod) *corev1.Pod { p.Spec.NodeSelector = map[string]string{"a": "b"}; return p },
			members: 1, outcome: core.Infeasible,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := members("g", c.members, "1", 10)
			for i := range all {
				all[i] = c.change(all[i])
			}
			d := newWorld(t, nil, with(c.nodes, c.running...)...).decide(all...)
			if d.Outcome != c.outcome || !slices.Equal(victims(d), c.wantVictims) ||
				c.wantNodes != nil && !sameNodes(placedOn(d), c.wantNodes) {
				t.Errorf("%s on %v, taking %v: %s; want %s on %v, taking %v",
					d.Outcome, placedOn(d), victims(d), d.Message, c.outcome, c.wantNodes, c.wantVictims)
			}
		})
	}
}

// sameNodes compares the numbers of members per node. It ignores the names of the nodes.
func sameNodes(got, want []string) bool {
	shape := func(names []string) []int {
		counts := map[string]int{}
		for _, n := range names {
			counts[n]++
		}
		var out []int
		for _, n := range counts {
			out = append(out, n)
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(shape(got), shape(want))
}

func TestMessagesNameWhatIsShort(t *testing.T) {
	t.Parallel()
	if d := newWorld(t, nil, nodes(2, "1")...).decide(members("g", 3, "1", 0)...); d.Outcome != core.Infeasible || !strings.Contains(d.Message, "cpu") {
		t.Errorf("%s: %s", d.Outcome, d.Message)
	}
}

// TestAntiAffinityBetweenClasses has members whose anti-affinity term matches another class. The
// other class has no term. Members of the two classes must be on separate nodes.
func TestAntiAffinityBetweenClasses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		nodes int
		want  core.Outcome
	}{
		"with a node for each": {nodes: 2, want: core.Fits},
		"with one node":        {nodes: 1, want: core.Infeasible},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := members("g", 3, "1", 10)
			for i := range all {
				all[i].Labels["role"] = "worker"
			}
			all[0].Labels["role"] = "leader"
			all[0] = wrap(all[0]).PodAntiAffinityIn("role", corev1.LabelHostname, []string{"worker"}, st.PodAntiAffinityWithRequiredReq).Obj()
			d := newWorld(t, nil, nodes(c.nodes, "8")...).decide(all...)
			if d.Outcome != c.want {
				t.Fatalf("%s: %s, want %s", d.Outcome, d.Message, c.want)
			}
			if c.want == core.Fits && d.Placements[0].Node == d.Placements[1].Node {
				t.Errorf("leader and worker are both on %s", d.Placements[0].Node)
			}
		})
	}
}

// TestSimulates checks that Simulates returns true for the cycle state of an Oracle.
func TestSimulates(t *testing.T) {
	t.Parallel()
	o := newWorld(t, nil, nodes(1, "1")...).oracle(pod("p", "", "1", 0))
	if !Simulates(o.classes[0].state) {
		t.Error("The state of a class is not known for a simulation's")
	}
	if Simulates(framework.NewCycleState()) {
		t.Error("The state of a cycle is taken for a simulation's")
	}
}
