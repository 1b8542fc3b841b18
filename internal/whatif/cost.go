package whatif

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Cost is what it costs to stop pods.
type Cost struct {
	// Pods counts them, and Groups the PodGroups that go whole.
	Pods   int `json:"pods"`
	Groups int `json:"groups"`
	// GPUHours and CPUHours are what they have been given since they started: what is lost of work that cannot go on where it
	// was.
	GPUHours float64 `json:"gpuHours"`
	CPUHours float64 `json:"cpuHours"`
}

// Add adds another cost.
func (c *Cost) Add(other Cost) {
	c.Pods += other.Pods
	c.Groups += other.Groups
	c.GPUHours += other.GPUHours
	c.CPUHours += other.CPUHours
}

// costOf is what it costs to stop a pod now.
func costOf(pod *corev1.Pod, now time.Time) Cost {
	cost := Cost{Pods: 1}
	if pod.Status.StartTime == nil {
		return cost
	}
	hours := max(now.Sub(pod.Status.StartTime.Time), 0).Hours()
	for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		switch {
		case name == corev1.ResourceCPU:
			cost.CPUHours += quantity.AsApproximateFloat64() * hours
		case workload.IsGPU(string(name)):
			cost.GPUHours += quantity.AsApproximateFloat64() * hours
		}
	}
	return cost
}
