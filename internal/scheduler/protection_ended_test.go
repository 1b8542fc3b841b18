package scheduler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestProtectionEndsEarly checks that a workload that waits for the end of a min-runtime is retried
// when the protected pod becomes surplus.
func TestProtectionEndsEarly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// running is the number of running members before change is called.
		running int
		// change makes one of the running members surplus.
		change func(r *rig, member *corev1.Pod)
	}{
		"minCount is lowered": {running: 4, change: func(r *rig, _ *corev1.Pod) {
			r.queuedGang("g", "a", 3)
			r.sched.GroupChanged(key("g"))
		}},
		"a member more runs": {running: 3, change: func(r *rig, member *corev1.Pod) {
			member = member.DeepCopy()
			member.Status.Phase = corev1.PodRunning
			if _, err := r.client.CoreV1().Pods("ns").UpdateStatus(r.t.Context(), member, metav1.UpdateOptions{}); err != nil {
				r.t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(1, "4")...)
			q := limitedQueue("a", "8")
			q.Spec.PreemptMinRuntime = &metav1.Duration{Duration: time.Hour}
			r.sched.QueueSet(q)
			r.queuedGang("g", "a", c.running)
			all := members("g", 4, "1", 0)
			for i, member := range all {
				if i < c.running {
					member.Status.Phase = corev1.PodRunning
				}
				r.create(on(member, "node-0"))
			}
			r.sched.GroupChanged(key("g"))
			r.create(ofQueue("a", pod("p", "", "1", 10)))
			r.eventually("it has its turn", func() bool { return len(r.active()) > 0 })
			r.cycles()
			if len(r.evictor.orders) != 0 {
				t.Fatalf("%v go within their window", r.victims())
			}
			c.change(r, all[3])
			r.eventually("it is tried again", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
		})
	}
}
