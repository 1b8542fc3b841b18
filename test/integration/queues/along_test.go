package queues

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// withCPUs returns a function that adds a CPU request to a pod with GPUs.
func withCPUs(cpus string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		asks := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}
		if gpus := pod.Spec.Containers[0].Resources.Requests[gpu]; !gpus.IsZero() {
			asks[gpu] = gpus
		}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: asks, Limits: asks}
	}
}

// TestQuotaWithWhatGoesAlong reclaims GPUs on a node with 8 GPUs and 64 CPUs. Only the GPUs have a
// quota. The reclaim must succeed, regardless of the CPUs that the pods request in addition.
func TestQuotaWithWhatGoesAlong(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	several := func(c *cluster, prefix, queue string, count, gpus int, cpus string) {
		for i := range count {
			c.pod(fmt.Sprintf("%s-%d", prefix, i), gpus, "", map[string]string{v1alpha1.LabelQueue: queue}, withCPUs(cpus))
		}
	}
	c.scene("CPUs that its quota does not name, and all others ask for", func(c *cluster) {
		c.queue("guaranteed", "quota: {nvidia.com/gpu: 4}", "overQuotaWeight: 0")
		c.queue("borrower", "priority: 1")
		c.known("guaranteed", "borrower")
		several(c, "borrowed", "borrower", 8, 1, "8")
		c.Runs("borrowed", 8)
		several(c, "waiting", "borrower", 4, 0, "16")
		several(c, "claim", "guaranteed", 4, 1, "8")
		c.Runs("claim", 4)
		c.Runs("borrowed", 4)
	})
	c.scene("from work that has few of those that its own quota names", func(c *cluster) {
		for _, name := range []string{"guaranteed", "borrower"} {
			c.queue(name, "quota: {nvidia.com/gpu: 4, cpu: 32}")
		}
		c.known("guaranteed", "borrower")
		several(c, "borrowed", "borrower", 8, 1, "1")
		c.Runs("borrowed", 8)
		several(c, "claim", "guaranteed", 4, 1, "1")
		c.Runs("claim", 4)
		c.Runs("borrowed", 4)
	})
}
