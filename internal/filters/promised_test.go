package filters

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// TestBesidePromised has pods with reservations. When the victims have terminated, these pods may
// be on their nodes or not. No pod may be evicted for a preemptor that fits in only one of these
// two cases.
func TestBesidePromised(t *testing.T) {
	t.Parallel()
	const zone = corev1.LabelTopologyZone
	zoned := func(name, in string) *corev1.Node {
		n := node(name, "2")
		n.Labels[zone] = in
		return n
	}
	affine := func(p *corev1.Pod) *corev1.Pod {
		return wrap(p).PodAffinityIn("app", zone, []string{"db"}, st.PodAffinityWithRequiredReq).Obj()
	}
	apart := func(p *corev1.Pod) *corev1.Pod {
		return wrap(p).PodAntiAffinityIn("app", zone, []string{"db"}, st.PodAntiAffinityWithRequiredReq).Obj()
	}
	spread := func(p *corev1.Pod) *corev1.Pod {
		return wrap(p).Label("app", "db").SpreadConstraint(1, zone, corev1.DoNotSchedule, st.MakeLabelSelector().Label("app", "db").Obj(), nil, nil, nil, nil).Obj()
	}
	db := func(name string) *corev1.Pod { return wrap(pod(name, "", "1", 9)).Label("app", "db").Obj() }
	waits := func(p *corev1.Pod, node string) *corev1.Pod {
		p.Status.NominatedNodeName = node
		return p
	}
	// In each zone, one node is full of preemptible pods. The other node has the reserved room.
	cluster := with([]runtime.Object{zoned("a-0", "a"), zoned("a-1", "a"), zoned("b-0", "b"), zoned("b-1", "b")},
		on(pod("low-a", "", "2", 0), "a-0"), on(pod("low-b", "", "2", 0), "b-0"), on(pod("half-a", "", "1", 9), "a-1"), on(pod("full-b", "", "2", 9), "b-1"))
	cases := map[string]struct {
		running, promised []*corev1.Pod
		preemptor         *corev1.Pod
		// want is the expected node of the preemptor; "" if it must not be placed.
		want string
	}{
		"beside one that runs":               {running: []*corev1.Pod{on(db("db"), "a-1")}, preemptor: affine(pod("p", "", "2", 5)), want: "a-0"},
		"beside one that is promised":        {promised: []*corev1.Pod{waits(db("db"), "a-1")}, preemptor: affine(pod("p", "", "2", 5))},
		"apart from one that runs":           {running: []*corev1.Pod{on(db("db"), "a-1")}, preemptor: apart(pod("p", "", "2", 5)), want: "b-0"},
		"apart from one that is promised":    {promised: []*corev1.Pod{waits(db("db"), "a-1")}, preemptor: apart(pod("p", "", "2", 5)), want: "b-0"},
		"spread beside one that is promised": {promised: []*corev1.Pod{waits(db("db"), "a-1")}, preemptor: spread(pod("p", "", "2", 5)), want: "b-0"},
		"spread over what runs and what is promised": {
			running: []*corev1.Pod{on(db("db"), "a-1")}, promised: []*corev1.Pod{waits(wrap(db("x")).Req(nil).Obj(), "b-1"), waits(wrap(db("y")).Req(nil).Obj(), "b-1")},
			preemptor: spread(pod("p", "", "2", 5)),
		},
		"one that keeps others apart": {
			promised:  []*corev1.Pod{waits(wrap(pod("x", "", "1", 9)).PodAntiAffinityIn("app", zone, []string{"web"}, st.PodAntiAffinityWithRequiredReq).Obj(), "a-1")},
			preemptor: wrap(pod("p", "", "2", 5)).Label("app", "web").Obj(), want: "b-0",
		},
		"one to which it does not matter": {promised: []*corev1.Pod{waits(db("db"), "a-1")}, preemptor: wrap(pod("p", "", "2", 5)).Label("app", "web").Obj(), want: "any"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, with(cluster, c.running...)...)
			o := w.oracleBeside(c.promised, c.preemptor)
			d, _, err := o.Decide()
			if err != nil {
				t.Fatal(err)
			}
			switch on := placedOn(&d); {
			case c.want == "":
				if d.Outcome != core.Infeasible {
					t.Errorf("It takes %v for %v", victims(&d), on)
				}
			case d.Outcome != core.Preempts || len(on) != 1 || c.want != "any" && on[0] != c.want:
				t.Errorf("%s on %v, want %s: %s", d.Outcome, on, c.want, d.Message)
			}
		})
	}
}
