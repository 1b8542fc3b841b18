package deploy

import (
	"context"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// testQueues has a queue that nobody uses, and its status filled in.
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
