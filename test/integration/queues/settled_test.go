package queues

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestFaultsSettle creates every kind of invalid Queue, and every kind of work that names a Queue
// wrongly. Other work runs or waits beside them. The scheduler must report each fault once. The
// stage checks that the scheduler writes nothing after that.
func TestFaultsSettle(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.classes()
	c.queue("lost", "parent: nowhere")
	c.queue("chicken", "parent: egg")
	c.queue("egg", "parent: chicken")
	c.queue("parent")
	c.queue("child", "parent: parent", "quota: {nvidia.com/gpu: 3}")
	c.queue("small", "limit: {nvidia.com/gpu: 1}")
	c.gang("runs", "child", 2, 2, 1)
	c.Runs("runs-", 2)
	c.pods("limited", "small", 2, 1, "")
	c.Runs("limited-", 1)
	c.gang("alone", "child", 1, 2, 1)
	c.gang("large", "child", 2, 2, 7)
	c.gang("nowhere", "missing", 2, 2, 1)
	c.pods("adrift", "lost", 1, 1, "")
	c.pods("inner", "parent", 1, 1, "high")

	c.queueCondition("lost", v1alpha1.ConditionQueueReady, metav1.ConditionFalse, `"nowhere"`)
	c.queueCondition("chicken", v1alpha1.ConditionQueueReady, metav1.ConditionFalse, "comes back")
	c.queueCondition("child", v1alpha1.ConditionQuotaServed, metav1.ConditionFalse, `"parent"`)
	c.groupSays("alone", v1alpha1.ReasonNotEnoughMembers)
	c.groupSays("large", v1alpha1.ReasonUnschedulable)
	c.groupSays("nowhere", v1alpha1.ReasonQueueNotFound)
	// A new node would not help these pods. So their condition must not have the reason
	// Unschedulable, which makes an autoscaler add nodes.
	c.WaitsFor("adrift-0", v1alpha1.ReasonQueueUnusable, `the parent "nowhere" of Queue "lost" does not exist`)
	c.WaitsFor("inner-0", v1alpha1.ReasonQueueNotLeaf, "other queues below it")
}
