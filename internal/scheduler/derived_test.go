package scheduler

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// roles is a Derived for pods with names of the form ROLE-NUMBER. needed maps each role to the
// number of members that the gang needs.
type roles struct {
	underived
	needed map[string]int
}

// RoleOf is part of Derived.
func (r roles) RoleOf(pod *corev1.Pod) (string, int) {
	role, _, _ := strings.Cut(pod.Name, "-")
	return role, r.needed[role]
}

func TestNeededFirst(t *testing.T) {
	t.Parallel()
	ray := map[string]int{"head": 1, "gpu": 2}
	tests := map[string]struct {
		needed          map[string]int
		placed, waiting []string
		want            []string
		// wantNeeded is the number of waiting members that the gang needs by their roles.
		wantNeeded int
	}{
		"a head that has gone from workers past their minimum": {
			needed: ray, placed: []string{"gpu-0", "gpu-1", "gpu-2"}, waiting: []string{"gpu-3", "head-0"}, want: []string{"head-0", "gpu-3"}, wantNeeded: 1,
		},
		"a head that is younger than workers past their minimum": {
			needed: ray, waiting: []string{"gpu-0", "gpu-1", "gpu-2", "head-0"}, want: []string{"gpu-0", "gpu-1", "head-0", "gpu-2"}, wantNeeded: 3,
		},
		"two groups of workers": {
			needed:  map[string]int{"head": 1, "a": 1, "b": 1},
			waiting: []string{"a-0", "a-1", "b-0", "b-1", "head-0"}, want: []string{"a-0", "b-0", "head-0", "a-1", "b-1"}, wantNeeded: 3,
		},
		"beside workers that have a place": {
			needed: ray, placed: []string{"gpu-0", "gpu-1"}, waiting: []string{"gpu-2", "gpu-3", "head-0"}, want: []string{"head-0", "gpu-2", "gpu-3"}, wantNeeded: 1,
		},
		"beside a head that has one": {
			needed: ray, placed: []string{"head-0"}, waiting: []string{"gpu-0", "gpu-1", "gpu-2"}, want: []string{"gpu-0", "gpu-1", "gpu-2"}, wantNeeded: 2,
		},
		"of one role": {
			needed: map[string]int{"job": 2}, waiting: []string{"job-0", "job-1", "job-2"}, want: []string{"job-0", "job-1", "job-2"}, wantNeeded: 2,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := func(names []string) []*corev1.Pod {
				out := make([]*corev1.Pod, len(names))
				for i, name := range names {
					out[i] = pod(name, "g", "1", 0)
				}
				return out
			}
			waiting := pods(tt.waiting)
			r := &clusterIndex{derived: roles{needed: tt.needed}}
			seats := r.byRole(waiting, pods(tt.placed))
			seats.neededFirst(waiting)
			if seats.needed != tt.wantNeeded {
				t.Errorf("%d are needed, want %d", seats.needed, tt.wantNeeded)
			}
			var got []string
			for _, pod := range waiting {
				got = append(got, pod.Name)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("they go in the order %q, want %q", got, tt.want)
			}
		})
	}
}

// sized is a roles whose owner demands want members.
type sized struct {
	roles
	want int
}

// MinCount is part of Derived.
func (s sized) MinCount(types.NamespacedName) (int, bool) { return s.want, true }

// TestLacking checks the number of members that a gang still has to place, by minCount and by
// roles.
func TestLacking(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		needed          map[string]int
		minCount        int
		placed, waiting []string
		want            int
		wantFirst       string
	}{
		"none has a place": {
			needed: map[string]int{"head": 1, "gpu": 2}, minCount: 3, waiting: []string{"gpu-0", "gpu-1", "gpu-2", "head-0"}, want: 3, wantFirst: "gpu-0",
		},
		"the head is lost, beside workers past their minimum": {
			needed: map[string]int{"head": 1, "gpu": 2}, minCount: 3, placed: []string{"gpu-0", "gpu-1", "gpu-2"}, waiting: []string{"gpu-3", "head-0"}, want: 1, wantFirst: "head-0",
		},
		"one that has grown has a role that it began without": {
			needed: map[string]int{"head": 1, "gpu": 2, "cpu": 2}, minCount: 3, placed: []string{"head-0", "gpu-0", "gpu-1"}, waiting: []string{"cpu-0"}, want: 0, wantFirst: "cpu-0",
		},
		"one that has grown waits for more workers": {
			needed: map[string]int{"head": 1, "gpu": 5}, minCount: 3, placed: []string{"head-0", "gpu-0", "gpu-1"}, waiting: []string{"gpu-2", "gpu-3"}, want: 0, wantFirst: "gpu-2",
		},
		"a worker is lost": {
			needed: map[string]int{"head": 1, "gpu": 2}, minCount: 3, placed: []string{"head-0", "gpu-0"}, waiting: []string{"gpu-1"}, want: 1, wantFirst: "gpu-1",
		},
		"whole": {
			needed: map[string]int{"head": 1, "gpu": 2}, minCount: 3, placed: []string{"head-0", "gpu-0", "gpu-1"}, waiting: []string{"gpu-2"}, want: 0, wantFirst: "gpu-2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			total := 0
			for _, n := range tt.needed {
				total += n
			}
			pods := func(names []string) (out []*corev1.Pod) {
				for _, name := range names {
					out = append(out, pod(name, "g", "1", 0))
				}
				return out
			}
			o := &placements{index: &clusterIndex{derived: sized{roles{needed: tt.needed}, total}}}
			members := &gang.Members{Assigned: pods(tt.placed), Pending: pods(tt.waiting)}
			waiting := members.Unplaced()
			got := o.lacking(&gang.Group{Key: key("g"), MinCount: tt.minCount}, members, waiting)
			if got != tt.want || waiting[0].Name != tt.wantFirst {
				t.Errorf("%d are lacking, the first of them %s; want %d, and %s", got, waiting[0].Name, tt.want, tt.wantFirst)
			}
		})
	}
}

// late is a Derived that does not know the group of a pod until known is set.
type late struct {
	underived
	group types.NamespacedName
	known atomic.Bool
}

// GroupOf is part of gang.Derived.
func (l *late) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	if key, ok := gang.GroupOf(pod); ok || pod.Labels["owner"] == "" {
		return key, ok
	}
	return l.group, l.known.Load()
}

// TestPlacedMembersBecomeKnown checks placed pods whose group becomes known while neither the pods
// nor their nodes change.
func TestPlacedMembersBecomeKnown(t *testing.T) {
	t.Parallel()
	for name, assumed := range map[string]bool{"all of them bound": false, "one of them assumed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			derived := &late{group: key("g")}
			r := newRigOn(t, clientWith(nodes(2, "1")...), &groups{all: map[types.NamespacedName]*gang.Group{}}, schedulerYAML, nil,
				func(in *Inputs) { in.Derived = derived })
			r.gangOf("g", 2, 0).Whole = true
			placed := []*corev1.Pod{on(pod("v-0", "", "1", 0), "node-0"), on(pod("v-1", "", "1", 0), "node-1")}
			for _, v := range placed {
				v.Labels = map[string]string{"owner": "job"}
			}
			p := pod("p", "", "1", 10)
			r.create(placed[0], p)
			if assumed {
				if err := r.upstream.Cache.AssumePod(klog.Background(), placed[1]); err != nil {
					t.Fatal(err)
				}
				r.sched.engine.Step(time.Time{}, engine.PodArrives{Pod: string(placed[1].UID), Key: podKey(placed[1]), Group: workload.Key{}})
				r.sched.steps.step(engine.PodAssumes{Pod: string(placed[1].UID), Key: podKey(placed[1]), Node: "node-1"})
				placed[1] = placed[1].DeepCopy()
				placed[1].Spec.NodeName = ""
			}
			r.create(placed[1])
			taken := func() (n int) {
				for _, v := range r.decideFor(p).Victims {
					n += len(v.Pods)
				}
				return n
			}
			if got := taken(); got != 1 {
				t.Fatalf("%d pods have to go, want one", got)
			}
			derived.known.Store(true)
			for _, v := range placed {
				r.sched.MembershipChanged(v, types.NamespacedName{}, false)
			}
			if got := taken(); got != 2 {
				t.Errorf("%d pods have to go once it is known that they are one group, want both", got)
			}
		})
	}
}

// TestQueueBehindInformer checks a pod that leaves its group while the scheduler's queue still has
// the earlier version of the pod. The queue has no event for such a change, so the pod must be
// retried until the queue has the new version.
func TestQueueBehindInformer(t *testing.T) {
	t.Parallel()
	derived := &late{group: key("g")}
	derived.known.Store(true)
	r := newRigOn(t, clientWith(nodes(1, "1")...), &groups{all: map[types.NamespacedName]*gang.Group{}}, schedulerYAML, nil,
		func(in *Inputs) { in.Derived = derived })
	r.gangOf("g", 2, 0)
	before := pod("p", "", "1", 0)
	before.Labels = map[string]string{"owner": "job"}
	r.create(before)
	if r.sched.gates.pod(before).IsSuccess() {
		t.Fatal("The only member of a gang of two may be scheduled")
	}
	after := before.DeepCopy()
	after.Labels = nil
	if err := r.informed.Update(after); err != nil {
		t.Fatal(err)
	}
	r.sched.MembershipChanged(before, key("g"), true)
	r.eventually("the queue admits the pod", func() bool { return len(r.active()) > 0 })
	_, status := r.plugin.PreFilter(t.Context(), framework.NewCycleState(), before, nil)
	if status.Message() != groupHasChanged {
		t.Errorf("the earlier version of the pod gets %v in its cycle", status)
	}
	if !r.sched.waits.WaitsFor(podKey(after), engine.Pause) {
		t.Error("the pod is not retried later")
	}
	if _, err := r.client.CoreV1().Pods("ns").Update(t.Context(), after, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.waitBound("p")
}
