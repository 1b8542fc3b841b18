package snapshot

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

func podInfo(t *testing.T, p *corev1.Pod) fwk.PodInfo {
	t.Helper()
	pi, err := framework.NewPodInfo(p)
	if err != nil {
		t.Fatal(err)
	}
	return pi
}

// left returns the largest number of CPUs that a pod can request and still fit.
func left(t *testing.T, v *View) string {
	t.Helper()
	for _, cpus := range []string{"4", "3", "2", "1"} {
		classes, err := ClassesOf([]*corev1.Pod{pod("probe", "", cpus, 0)}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		d, err := core.Decide(v.Cluster, &core.Preemptor{
			Namespace: "ns", Name: "probe", UID: "probe", MinCount: 1, Classes: v.Describe(classes, countsAll{}),
		}, core.Arithmetic{})
		if err != nil {
			t.Fatal(err)
		}
		if d.Outcome == core.Fits {
			return cpus
		}
	}
	return "0"
}

// TestPromises checks that reserved room is not free if the preemptor must respect it. Each
// reservation must count only once.
func TestPromises(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		node      string
		respected bool
		running   bool
		wantLeft  string
		wantKnown bool
	}{
		"respected":             {node: "node-0", respected: true, wantLeft: "2", wantKnown: true},
		"not respected":         {node: "node-0", wantLeft: "4"},
		"on its node by now":    {node: "node-0", respected: true, running: true, wantLeft: "2"},
		"on a node that is not": {node: "node-9", respected: true, wantLeft: "4"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.addNodes("node-0")
			p := pod("p", "", "2", 0)
			if c.running {
				s.addPods(on(p.DeepCopy(), "node-0"))
			}
			promise := ReservedRoom{Pod: podInfo(t, p), Node: c.node, Respected: c.respected}
			// A View must not change the room of the next View.
			for range 2 {
				v := s.view(promise)
				if left := left(t, v); left != c.wantLeft {
					t.Errorf("%s CPUs are left, want %s", left, c.wantLeft)
				}
				if got := len(v.Promised(c.node)) > 0; got != c.wantKnown || v.HasPromised() != c.wantKnown {
					t.Errorf("The promise is known: %t, and any is: %t; want %t", got, v.HasPromised(), c.wantKnown)
				}
			}
		})
	}
}

// TestDisrupted checks that a pod is terminating exactly as long as the source reports it.
func TestDisrupted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.addNodes("node-0", "node-1")
	p := on(pod("p", "", "1", 0), "node-0")
	s.addPods(p, on(pod("q", "", "1", 0), "node-1"))
	for _, disrupted := range []bool{false, true, false} {
		s.facts.disrupted[p.UID] = disrupted
		s.kept.NodeChanged("node-0")
		v := s.view()
		if got := v.Disrupted(sets.New("node-0", "node-1")); len(got) == 1 != disrupted {
			t.Errorf("Disrupted are %v, want the pod: %t", got, disrupted)
		}
		if got := v.Disrupted(sets.New("node-1")); len(got) != 0 {
			t.Errorf("On the other node %v are", got)
		}
	}
}

// TestOverdue checks that the room of an overdue pod is not free, and that the pod is no victim.
func TestOverdue(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.addNodes("node-0")
	p := on(pod("p", "", "1", 0), "node-0")
	s.addPods(p, on(pod("q", "", "1", 0), "node-0"))
	for _, overdue := range []bool{false, true, false} {
		s.facts.overdue[p.UID] = overdue
		s.kept.NodeChanged("node-0")
		v := s.view()
		if got := v.Overdue(); len(got) == 1 != overdue {
			t.Errorf("Overdue are %v, want the pod: %t", got, overdue)
		}
		units, wantUnits := 0, 2
		if overdue {
			wantUnits = 1
		}
		for i := range v.Cluster.Units {
			units += len(v.Cluster.Units[i].Pods)
		}
		if units != wantUnits || len(v.Cluster.Leaving) != 0 {
			t.Errorf("%d pods may go and %d are leaving, want %d and none", units, len(v.Cluster.Leaving), wantUnits)
		}
		if cpu := v.Cluster.Nodes[0].Free[slices.Index(v.Cluster.Resources, "cpu")]; cpu != 2000 {
			t.Errorf("%d milli-CPUs are free, want 2000", cpu)
		}
	}
	if err := s.cache.RemoveNode(klog.Background(), node("node-0", "4")); err != nil {
		t.Fatal(err)
	}
	if got := s.view().Overdue(); len(got) != 0 {
		t.Errorf("Overdue are %v, of a node that has gone", got)
	}
}

// TestLeavesLate checks a pod with a long grace period. Decisions must count the room of the pod as
// free, but the pod must still count as usage of its queue.
func TestLeavesLate(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.addNodes("node-0")
	s.facts.groups[key("g")] = &gang.Group{Key: key("g"), MinCount: 1}
	p := on(pod("p", "g", "1", 0), "node-0")
	s.addPods(p)
	for departure, want := range map[Departure]struct{ leaving, holds int }{
		Stays: {}, Leaves: {leaving: 1}, LeavesLate: {leaving: 1, holds: 1}, Overdue: {holds: 1},
	} {
		s.facts.disrupted[p.UID], s.facts.late[p.UID], s.facts.overdue[p.UID] = departure == Leaves, departure == LeavesLate, departure == Overdue
		s.kept.NodeChanged("node-0")
		v := s.view()
		if leaving, holds := len(v.Cluster.Leaving), len(v.held["node-0"]); leaving != want.leaving || holds != want.holds {
			t.Errorf("Departure %d: %d pods are leaving, and %d count in queues; want %+v", departure, leaving, holds, want)
		}
	}
}

// TestRefusedDeletions checks that a refused deletion of a pod protects its whole group if the
// group is evicted as a whole. Otherwise it protects only the pod.
func TestRefusedDeletions(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.addNodes("node-0", "node-1")
	s.facts.groups[key("g")] = &gang.Group{Key: key("g"), UID: "uid-g", Whole: true, Priority: ptr.To[int32](0)}
	s.facts.refused = map[string]time.Time{"first": time.Unix(10, 0), "second": time.Unix(20, 0), "single": time.Unix(30, 0)}
	s.addPods(on(pod("first", "g", "1", 0), "node-0"), on(pod("second", "g", "1", 0), "node-1"), on(pod("single", "", "1", 0), "node-0"), on(pod("other", "", "1", 0), "node-0"))
	want := map[string]int64{"g": 20e9, "single": 30e9, "other": 0}
	got := map[string]int64{}
	v := s.view()
	for i := range v.Cluster.Units {
		got[v.Cluster.Units[i].Name] = v.Cluster.Units[i].RefusedUntil
	}
	if !maps.Equal(got, want) {
		t.Errorf("The units are left alone until %v, want %v", got, want)
	}
}

// TestStaticPods checks that static pods are separate units and never victims, regardless of their
// mirror in the API.
func TestStaticPods(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.addNodes("node-0")
	s.facts.groups[key("g")] = &gang.Group{Key: key("g"), UID: "uid-g", Whole: true, Priority: ptr.To[int32](0)}
	mirror := on(pod("mirror", "g", "1", 0), "node-0")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	mirror.DeletionTimestamp = &metav1.Time{}
	s.addPods(mirror, on(pod("member", "g", "1", 0), "node-0"))
	v := s.view()
	static := map[string]bool{}
	for i := range v.Cluster.Units {
		static[v.Cluster.Units[i].Name] = v.Cluster.Units[i].Static
	}
	if want := map[string]bool{"mirror": true, "g": false}; !maps.Equal(static, want) || len(v.Cluster.Leaving) != 0 {
		t.Errorf("The units are %v, want %v; %d are leaving", static, want, len(v.Cluster.Leaving))
	}
}
