package scheduler

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// crowd is the number of members of the largest gang in these tests. With more than about a hundred
// pending events, the fake client fails.
const crowd = 40

// dissolve deletes the pods one by one, and waits until no state of the gang remains. The function
// next returns the index of the next pod to delete.
func (r *rig) dissolve(next func(left []*corev1.Pod) int, pods []*corev1.Pod) {
	r.t.Helper()
	for len(pods) > 0 {
		i := next(pods)
		gone := pods[i]
		if err := r.client.CoreV1().Pods("ns").Delete(r.t.Context(), gone.Name, metav1.DeleteOptions{}); err != nil {
			r.t.Fatal(err)
		}
		pods = slices.Delete(pods, i, i+1)
		r.eventually(gone.Name+" has gone", func() bool {
			_, err := r.sched.index.Pods.Pods("ns").Get(gone.Name)
			return err != nil && r.waiting() == 0
		})
	}
	r.eventually("the gang is forgotten", func() bool { return r.sched.gangs.Len() == 0 && r.sched.reserved.Empty() })
}

// waiting returns the number of pods at Permit.
func (r *rig) waiting() int {
	count := 0
	r.plugin.handle.IterateOverWaitingPods(func(fwk.WaitingPod) { count++ })
	return count
}

// TestGangDissolves checks that no state of a gang remains after its members are deleted one by
// one. All members but one wait at Permit.
func TestGangDissolves(t *testing.T) {
	r := newRig(t, nodes(crowd/8, "8")...)
	r.gangOf("g", crowd, 0)
	all := members("g", crowd, "1", 0)
	r.create(all...)
	r.eventually("the gang is complete", func() bool { return len(r.active()) == 1 })
	for range crowd - 1 {
		r.cycle()
	}
	r.dissolve(func([]*corev1.Pod) int { return 0 }, all)
}

// TestGangThatDoesNotFitDissolves is like TestGangDissolves for a gang without room. Each time, the
// leader is deleted first.
func TestGangThatDoesNotFitDissolves(t *testing.T) {
	r := newRig(t, nodes(1, "8")...)
	r.gangOf("g", crowd-4, 0)
	all := members("g", crowd, "1", 0)
	r.create(all...)
	r.eventually("the gang is complete", func() bool { return len(r.active()) > 0 })
	r.cycle()
	r.dissolve(func(left []*corev1.Pod) int {
		leader := r.sched.gangs.Leader(gangKey(key("g")))
		return max(slices.IndexFunc(left, func(p *corev1.Pod) bool { return string(p.UID) == leader }), 0)
	}, all)
}
