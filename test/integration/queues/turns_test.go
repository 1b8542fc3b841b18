package queues

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestTurnForAnotherDevice checks that a queue which borrows one device gets its quota of another:
// when a GPU becomes free, it goes to that queue, and not to a queue that would borrow it.
func TestTurnForAnotherDevice(t *testing.T) {
	t.Parallel()
	const nic corev1.ResourceName = "example.com/nic"
	c := clusterOn(t, stage.New(t, playground.Options{NodeGroups: []playground.NodeGroup{{Count: 1, Resources: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
		gpu: resource.MustParse("4"), nic: resource.MustParse("4"),
	}}}}))
	inQueue := func(name string) map[string]string { return map[string]string{v1alpha1.LabelQueue: name} }
	c.queue("entitled", "quota: {nvidia.com/gpu: 4}", "reclaimMinRuntime: 1h")
	c.queue("nics")
	c.queue("borrower")
	c.known("entitled", "nics", "borrower")
	for i := range 4 {
		c.pod(fmt.Sprintf("nic-%d", i), 0, "", inQueue("entitled"), asking(nic, 1))
	}
	c.Runs("nic", 4)
	for i := range 4 {
		c.pod(fmt.Sprintf("wants-%d", i), 0, "", inQueue("nics"), asking(nic, 1))
	}
	for i := range 4 {
		c.pod(fmt.Sprintf("outside-%d", i), 1, "", nil)
	}
	c.Runs("outside", 4)
	for round := range 4 {
		claim, borrow := fmt.Sprintf("claim%d", round), fmt.Sprintf("borrow%d", round)
		c.pods(claim, "entitled", 1, 4, "")
		c.WaitsSaying(claim + "-0")
		// The claim fails again with each GPU that becomes free, and backs off for longer.
		for i := range round {
			c.delete(fmt.Sprintf("outside-%d", i))
		}
		c.pods(borrow, "borrower", 1, 4, "")
		c.WaitsSaying(borrow + "-0")
		c.Eventually("the borrower has backed off", func(ctx context.Context) string {
			if ago := time.Since(scheduledAt(c.Find(ctx, borrow+"-0"))); ago < 1200*time.Millisecond {
				return fmt.Sprintf("it failed %v ago", ago)
			}
			return ""
		})
		for i := round; i < 4; i++ {
			c.delete(fmt.Sprintf("outside-%d", i))
		}
		c.Runs(claim, 1)
		for _, pod := range c.Pods(c.Context(), borrow) {
			if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
				t.Errorf("round %d: %s got the GPUs first", round, pod.Name)
			}
		}
		if n := len(c.EventsOf(c.Context(), "Pod/"+borrow+"-0", "Preempted")); n > 0 {
			t.Errorf("round %d: %s-0 got the GPUs first and was preempted", round, borrow)
		}
		now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
		if err := c.Kube.CoreV1().Pods("default").Delete(c.Context(), borrow+"-0", now); err != nil {
			t.Fatal(err)
		}
		c.Gone(borrow + "-0")
		c.delete(claim + "-0")
		for i := range 4 {
			c.pod(fmt.Sprintf("outside-%d", i), 1, "", nil)
		}
		c.Runs("outside", 4)
	}
}
