package queues

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestTurnForAnotherDevice tests which of two queues gets the only two free GPUs. The queue
// "entitled" uses more of another device, nics, than its quota. Its pod needs both GPUs, which are
// within its quota of GPUs. A pod of the queue "borrower" needs one GPU, which is above the quota
// of "borrower". If this pod got the GPU, "entitled" would reclaim the GPU at once. So the pod of
// "entitled" must get both GPUs first.
func TestTurnForAnotherDevice(t *testing.T) {
	t.Parallel()
	const nic corev1.ResourceName = "example.com/nic"
	c := clusterOn(t, stage.New(t, playground.Options{NodeGroups: []playground.NodeGroup{{Count: 1, Resources: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
		gpu: resource.MustParse("3"), nic: resource.MustParse("4"),
	}}}}))
	nics := func(prefix, queue string) {
		for i := range 4 {
			c.pod(fmt.Sprintf("%s-%d", prefix, i), 0, "", map[string]string{v1alpha1.LabelQueue: queue}, asking(nic, 1))
		}
	}
	// The queue "entitled" will use more nics than its fair share. Its min-runtime protects its
	// work for an hour.
	c.queue("entitled", "quota: {nvidia.com/gpu: 2}", "reclaimMinRuntime: 1h")
	c.queue("nics")
	c.queue("borrower", "quota: {nvidia.com/gpu: 1}")
	c.known("entitled", "nics", "borrower")
	nics("nic", "entitled")
	c.pods("has", "borrower", 1, 1, "")
	c.Runs("nic", 4)
	c.Runs("has", 1)
	nics("waits", "nics")
	c.WaitsSaying("waits-3")
	// Create both pods while no scheduler runs. So both are queued when the scheduler starts.
	c.restart(func() {
		c.pods("borrow", "borrower", 1, 1, "")
		c.pods("claim", "entitled", 1, 2, "")
	})
	c.Runs("claim", 1)
	c.WaitsSaying("borrow-0")
	if n := len(c.EventsOf(c.Context(), "Pod/borrow-0", "Preempted")); n > 0 {
		t.Error("the borrower got a GPU first and was preempted")
	}
}
