package whatif

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Cost is the loss that the eviction of pods causes.
type Cost struct {
	// Pods counts the evicted pods. Groups counts the PodGroups that are evicted as a whole.
	Pods   int `json:"pods"`
	Groups int `json:"groups"`
	// GPUHours and CPUHours are the hours that the pods have been given since they started. Work
	// that cannot resume loses them.
	GPUHours float64 `json:"gpuHours"`
	CPUHours float64 `json:"cpuHours"`
	// LostDeviceHours is the work that is lost: device-hours since the last checkpoints. It
	// includes the work of other members of gangs that fall below minCount.
	LostDeviceHours float64 `json:"lostDeviceHours"`
}

// Add adds another cost.
func (c *Cost) Add(other Cost) {
	c.Pods += other.Pods
	c.Groups += other.Groups
	c.GPUHours += other.GPUHours
	c.CPUHours += other.CPUHours
	c.LostDeviceHours += other.LostDeviceHours
}

// costOf returns the cost of evicting a pod now.
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
