package queues

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// cores are the resources of a node with so many CPUs.
func cores(cpus string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse("64Gi")}
}

// nic is a second kind of device.
const nic corev1.ResourceName = "example.com/nic"

// TestTurnForAnotherDevice has the queue a use more than its share of network cards, with its quota
// of GPUs free, and c use more GPUs than its quota. As a GPU becomes free, it is a's: c's pod would
// be evicted for a at once.
func TestTurnForAnotherDevice(t *testing.T) {
	t.Parallel()
	node, cards := cores("64"), cores("64")
	node[gpu], cards[nic] = resource.MustParse("4"), resource.MustParse("8")
	c := clusterOn(t, stage.New(t, playground.Options{NodeGroups: []playground.NodeGroup{
		{Count: 1, Resources: node}, {Prefix: "cards", Count: 1, Resources: cards},
	}}))
	c.queue("a", "quota: {nvidia.com/gpu: 2}")
	c.queue("c", "quota: {nvidia.com/gpu: 2}")
	c.queue("d")
	c.known("a", "c", "d")
	began := time.Now()
	several := func(prefix, queue string, count int, device corev1.ResourceName) {
		for i := range count {
			c.pod(fmt.Sprintf("%s-%d", prefix, i), 0, "", map[string]string{"reprieve.dev/queue": queue}, asking(device, 1))
		}
	}
	several("cards", "a", 7, nic)
	c.Runs("cards", 7)
	// It is too large for a share of 4, and makes network cards scarce.
	c.pod("large", 0, "", map[string]string{"reprieve.dev/queue": "d"}, asking(nic, 8))
	c.WaitsSaying("large", "0/2 nodes")
	several("own", "c", 2, gpu)
	c.Runs("own", 2)
	// With the node cordoned, both wait for the two GPUs that are left.
	c.patchNode("node-0", `{"spec":{"unschedulable":true}}`)
	several("beyond", "c", 2, gpu)
	several("claim", "a", 2, gpu)
	c.WaitsSaying("beyond-0", "0/2 nodes")
	c.patchNode("node-0", `{"spec":{"unschedulable":false}}`)
	c.within(soon, func() { c.Runs("claim", 2) })
	c.nobodyGoes(began)
}

// asking has a pod ask for so many pieces of a device.
func asking(device corev1.ResourceName, pieces int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		q := corev1.ResourceList{device: *resource.NewQuantity(pieces, resource.DecimalSI)}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: q, Limits: q}
	}
}
