package invariants

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestEntitled tests pods that wait although their queue has quota and room for them.
func TestEntitled(t *testing.T) {
	t.Parallel()
	only := func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"of": "tenants"} }
	tell := func(victim string, change ...func(*story)) func(*story) {
		return func(s *story) {
			node := nodeOf("n", 8)
			node.Labels = map[string]string{"of": "tenants"}
			s.SeeNode(node)
			s.SeeQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "borrows"}})
			s.SeeQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "owns"}, Spec: v1alpha1.QueueSpec{Quota: cpus(4)}})
			s.pod("v", victim, inQueue("borrows"), asking(8), only)
			s.bind("v")
			for _, c := range change {
				c(s)
			}
			s.wait(42)
		}
	}
	waits := func(n int64) func(*story) {
		return func(s *story) { s.pod("x", "low", inQueue("owns"), asking(n), only) }
	}
	run(t, map[string]caseOf{
		"within the quota":            {want: EntitlementDelayed, tell: tell("low", waits(4))},
		"past the quota":              {tell: tell("low", waits(5))},
		"not for long":                {tell: tell("low", waits(4), func(s *story) { s.wait(38); s.gone("v"); s.bind("x") })},
		"a class tolerates preemptor": {tell: tell("sturdy", waits(4))},
		"without preemption": {tell: tell("low", func(s *story) {
			s.pod("x", "low", inQueue("owns"), asking(4), only, func(pod *corev1.Pod) { pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) })
		})},
		"two that the quota is too small for": {tell: tell("low", waits(4), func(s *story) { s.pod("y", "low", inQueue("owns"), asking(1), only) })},
		"work outside of queues is there":     {tell: tell("low", waits(4), func(s *story) { s.pod("y", "low", only) })},
		"work outside of queues is elsewhere": {want: EntitlementDelayed, tell: tell("low", waits(4), func(s *story) {
			s.pod("y", "low", func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"of": "others"} })
		})},
		"the room is terminating": {want: EntitlementDelayed, tell: tell("low", waits(4), func(s *story) {
			s.change("v", func(pod *corev1.Pod) {
				pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(s.now)), ptr.To[int64](30)
			})
		})},
		"the room is terminating for years": {tell: tell("low", waits(4), func(s *story) {
			s.change("v", func(pod *corev1.Pod) {
				pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(s.now)), ptr.To[int64](1_000_000_000)
			})
		})},
		"the victim's queue has quota": {tell: tell("low", waits(4), func(s *story) {
			s.SeeQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "borrows"}, Spec: v1alpha1.QueueSpec{Quota: cpus(1)}})
		})},
	})
}
