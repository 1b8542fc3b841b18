package scheduler

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestReclaimWhereOtherNodesAreFree checks that a pod of queue c reclaims from queue a, although
// another node has free room. On a node with six CPUs, four pods of a and two pods of b run. A
// tainted node has eight free CPUs. Only a large pod of queue a or d tolerates the taint, and it
// waits too.
func TestReclaimWhereOtherNodesAreFree(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"a", "d"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			far := node("node-1", "8")
			far.Spec.Taints = []corev1.Taint{{Key: "kept", Effect: corev1.TaintEffectNoSchedule}}
			r := newRig(t, node("node-0", "6"), far)
			for _, name := range []string{"a", "b", "c", "d"} {
				r.sched.QueueSet(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			r.create(on(pod("outside", "", "1", 0), "node-1"))
			for i, name := range []string{"a", "a", "a", "a", "b", "b"} {
				r.create(ofQueue(name, on(pod(fmt.Sprint(name, "-", i), "", "1", 0), "node-0")))
			}
			large := ofQueue(of, pod("large", "", "8", 0))
			large.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			r.create(large)
			r.eventually("the large pod asks for what it needs", func() bool { return r.sched.quotas.Knows(large.UID) })
			r.create(ofQueue("c", pod("c-0", "", "1", 0)))
			r.eventually("room is made", func() bool {
				r.cycles()
				return len(r.evictor.orders) > 0
			})
			order := r.evictor.orders[0]
			if got := order.Decision.Victims; order.Decision.Preemptor.Name != "c-0" || len(got) != 1 || !strings.HasPrefix(got[0].Name, "a-") {
				t.Errorf("%s takes %v, want c-0 to take one of a", order.Decision.Preemptor.Name, got)
			}
		})
	}
}
