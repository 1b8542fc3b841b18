package scheduler

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// decideFor asks for a decision as the plugin does, against the real filters.
func (r *rig) decideFor(pods ...*corev1.Pod) *core.Decision {
	r.t.Helper()
	r.snapshot()
	pre := r.plugin.podPreemptor(pods[0])
	if g := r.hub.gangOf(pods[0]); g != nil {
		m := r.hub.Members(g.Key)
		pre = r.plugin.gangPreemptor(g, &m)
	}
	made, err := r.plugin.decide(r.t.Context(), pre)
	if err != nil {
		r.t.Fatal(err)
	}
	return &made.decision
}

func victims(d *core.Decision) []string {
	var names []string
	for _, v := range d.Victims {
		for _, p := range v.Pods {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

func placedOn(d *core.Decision) []string {
	var names []string
	for _, p := range d.Placements {
		names = append(names, p.Node)
	}
	slices.Sort(names)
	return names
}

// TestFiltersAreAsked: what the in-tree filters know decides where a gang goes and who has to go for it.
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
				p.Spec.Containers[0].Resources.Requests["cpu"] = resourceMustParse("2")
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
			r := newRig(t, c.nodes...)
			r.create(c.running...)
			r.gangOf("g", c.members, 10)
			all := members("g", c.members, "1", 10)
			for i := range all {
				all[i] = c.change(all[i])
			}
			r.create(all...)
			d := r.decideFor(all[0])
			if d.Outcome != c.outcome || !slices.Equal(victims(d), c.wantVictims) ||
				c.wantNodes != nil && !sameNodes(placedOn(d), c.wantNodes) {
				t.Errorf("%s on %v, taking %v: %s; want %s on %v, taking %v",
					d.Outcome, placedOn(d), victims(d), d.Message, c.outcome, c.wantNodes, c.wantVictims)
			}
		})
	}
}

// sameNodes compares which nodes are used how often; where one node is as good as another, the names do not
// matter.
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

// TestViewCountsWhatIsKept: seats and nominations are room that is not there, each once, for whoever does
// not stand above them.
func TestViewCountsWhatIsKept(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		// pods is the own priority of those for whom room is kept, group that of their gang.
		pods, group int32
		asks        int32
		want        core.Outcome
	}{
		"nominated and seated, for an equal":         {pods: 5, group: 5, asks: 5, want: core.Infeasible},
		"nominated and seated, for a higher":         {pods: 5, group: 5, asks: 6, want: core.Fits},
		"seated only, for one above the pods":        {pods: 0, group: 5, asks: 3, want: core.Infeasible},
		"seated only, for one below the pods":        {pods: 9, group: 5, asks: 6, want: core.Fits},
		"as much as is left, beside those who leave": {pods: 5, group: 5, asks: 5, want: core.Infeasible},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "4"))
			g := r.gangOf("g", 2, c.group)
			all := members("g", 2, "1", c.pods)
			r.create(all...)
			m := r.hub.Members(g.Key)
			pre := r.plugin.gangPreemptor(g, &m)
			r.snapshot()
			r.plugin.nominate(t.Context(), &pre, map[types.UID]string{"uid-g-0": "node-0", "uid-g-1": "node-0"})
			// Counted twice, the two would leave nothing.
			beside := pod("beside", "", "2", c.asks)
			r.create(beside)
			if d := r.decideFor(beside); d.Outcome != core.Fits {
				t.Errorf("2 of 4 CPUs are kept; 2 are %s: %s", d.Outcome, d.Message)
			}
			more := pod("more", "", "3", c.asks)
			r.create(more)
			if d := r.decideFor(more); d.Outcome != c.want {
				t.Errorf("2 of 4 CPUs are kept; 3 are %s (%s), want %s", d.Outcome, d.Message, c.want)
			}
		})
	}
}

func TestMessagesNameWhatIsShort(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "1")...)
	r.gangOf("g", 3, 0)
	all := members("g", 3, "1", 0)
	r.create(all...)
	if d := r.decideFor(all[0]); d.Outcome != core.Infeasible || !strings.Contains(d.Message, "cpu") {
		t.Errorf("%s: %s", d.Outcome, d.Message)
	}
}

// TestClassesMindEachOther: members of one class that keep apart from another class, which minds nothing
// itself, get nodes of their own.
func TestClassesMindEachOther(t *testing.T) {
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
			r := newRig(t, nodes(c.nodes, "8")...)
			r.gangOf("g", 3, 10)
			all := members("g", 3, "1", 10)
			for i := range all {
				all[i].Labels["role"] = "worker"
			}
			all[0].Labels["role"] = "leader"
			all[0] = wrap(all[0]).PodAntiAffinityIn("role", corev1.LabelHostname, []string{"worker"}, st.PodAntiAffinityWithRequiredReq).Obj()
			r.create(all...)
			d := r.decideFor(all[0])
			if d.Outcome != c.want {
				t.Fatalf("%s: %s, want %s", d.Outcome, d.Message, c.want)
			}
			if c.want == core.Fits && d.Placements[0].Node == d.Placements[1].Node {
				t.Errorf("leader and worker are both on %s", d.Placements[0].Node)
			}
		})
	}
}
