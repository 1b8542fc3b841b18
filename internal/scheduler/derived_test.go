package scheduler

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// roles is a Derived for pods with names of the form ROLE-NUMBER. needed maps each role to the
// number of members that the gang needs.
type roles struct {
	cluster.Underived
	needed map[string]int
}

// RoleOf is part of Derived.
func (r roles) RoleOf(pod *corev1.Pod) (string, int) {
	role, _, _ := strings.Cut(pod.Name, "-")
	return role, r.needed[role]
}

// sized is a roles whose owner demands want members.
type sized struct {
	roles
	want int
}

// MinCount is part of Derived.
func (s sized) MinCount(types.NamespacedName) (int, bool) { return s.want, true }

// late is a Derived that does not know the group of a pod until known is set.
type late struct {
	cluster.Underived
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
