package whatif

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Cost is the loss that evictions cause.
type Cost struct {
	// Pods is the number of evicted pods. Groups is the number of PodGroups that are evicted as a
	// whole.
	Pods   int `json:"pods"`
	Groups int `json:"groups"`
	// GPUHours and CPUHours are the resources that the evicted pods have used since their start, in
	// hours of one GPU or CPU. They are lost if the work cannot resume.
	GPUHours float64 `json:"gpuHours"`
	CPUHours float64 `json:"cpuHours"`
	// LostDeviceHours is the lost work in device-hours, counted from the last checkpoints. It
	// includes the work of other members of gangs that fall below minCount.
	LostDeviceHours float64 `json:"lostDeviceHours"`
}

// Add adds other to c.
func (c *Cost) Add(other Cost) {
	c.Pods += other.Pods
	c.Groups += other.Groups
	c.GPUHours += other.GPUHours
	c.CPUHours += other.CPUHours
	c.LostDeviceHours += other.LostDeviceHours
}

// costOf returns the cost of evicting a pod at the time now.
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
