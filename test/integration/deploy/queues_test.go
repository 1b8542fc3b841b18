package deploy

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// testQueues checks the status of a Queue without work.
func testQueues(t *testing.T, c *cluster) {
	c.create(t, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	eventually(t, "Queue team", func(ctx context.Context) string {
		var q v1alpha1.Queue
		if err := c.Get(ctx, client.ObjectKey{Name: "team"}, &q); err != nil {
			return err.Error()
		}
		if !apimeta.IsStatusConditionTrue(q.Status.Conditions, v1alpha1.ConditionQueueReady) {
			return "it is not ready"
		}
		return ""
	})
}

// testReclaim checks that a Queue reclaims its quota from a Queue without quota, even from work of
// higher priority.
func testReclaim(t *testing.T, c *cluster) {
	lender := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "lender"}}
	lender.Spec.Quota = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
	borrower := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "borrower"}}
	borrower.Spec.OverQuotaWeight = ptr.To[int32](0)
	c.create(t, lender, borrower)
	inQueue := func(queue string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Labels = map[string]string{v1alpha1.LabelQueue: queue} }
	}
	c.create(t, newPod("borrowed", "queues", high, inQueue("borrower"), asks("nvidia.com/gpu", "4")))
	c.waitRunning(t, "borrowed")
	// Fair shares restrict a Queue only if all Queues together request more than the cluster has.
	c.create(t, newPod("greedy", "queues", high, inQueue("borrower"), asks("nvidia.com/gpu", "1000")))
	c.create(t, newPod("claim", "queues", low, inQueue("lender"), asks("nvidia.com/gpu", "4")))
	c.waitRunning(t, "claim")
	c.waitGone(t, "borrowed")
	c.waitEvent(t, "Pod", "borrowed", "Preempted")
}
