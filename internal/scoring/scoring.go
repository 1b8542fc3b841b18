package scoring

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core/fragmentation"
)

// MixOf converts the typical workloads of a profile to amounts of resources. Amounts of CPU are
// millicores, others are in the base unit. It returns nil without typical workloads, or if
// resources lacks the profile's device.
//
// The last of the resources stands for all resources outside the list. No node has it, so a typical
// pod that requests such a resource fits nowhere.
func MixOf(args *configv1alpha1.PlacementArgs, resources []string) *fragmentation.Mix {
	known := resources[:len(resources)-1]
	device := slices.Index(known, *args.Device)
	if len(args.Workloads) == 0 || device < 0 {
		return nil
	}
	mix := &fragmentation.Mix{Device: device}
	for _, w := range args.Workloads {
		shape := fragmentation.Shape{Request: make([]int64, len(resources)), Weight: w.Weight}
		for name, quantity := range w.Requests {
			value := quantity.Value()
			if name == string(corev1.ResourceCPU) {
				value = quantity.MilliValue()
			}
			at := slices.Index(known, name)
			if at < 0 {
				at = len(known)
			}
			shape.Request[at] = max(shape.Request[at], value)
		}
		if pods := slices.Index(known, string(corev1.ResourcePods)); pods >= 0 {
			shape.Request[pods] = 1
		}
		mix.Shapes = append(mix.Shapes, shape)
	}
	return mix
}

// Scorer computes the criterion of fragmentation for a profile. It never changes.
type Scorer struct {
	mix *fragmentation.Mix
	// resources are the names of the resources in amounts, by index. The last name is "": no node
	// has it.
	resources []string
}

// New returns the Scorer of a profile; nil if the profile does not use the criterion.
func New(args *configv1alpha1.PlacementArgs) *Scorer {
	names := map[string]bool{*args.Device: true, string(corev1.ResourcePods): true}
	for _, w := range args.Workloads {
		for name := range w.Requests {
			names[name] = true
		}
	}
	s := &Scorer{resources: append(slices.Sorted(maps.Keys(names)), "")}
	if s.mix = MixOf(args, s.resources); s.mix == nil {
		return nil
	}
	return s
}

// Request returns the amounts that a pod requests, for [Scorer.Score].
func (s *Scorer) Request(pod *corev1.Pod) []int64 {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	out := make([]int64, len(s.resources))
	for r, name := range s.resources {
		quantity := requests[corev1.ResourceName(name)]
		switch corev1.ResourceName(name) {
		case corev1.ResourcePods:
			out[r] = 1
		case corev1.ResourceCPU:
			out[r] = quantity.MilliValue()
		default:
			out[r] = quantity.Value()
		}
	}
	return out
}

// free returns the free amounts of a node, in the order of the field resources.
func (s *Scorer) free(node fwk.NodeInfo) []int64 {
	room, used := node.GetAllocatable(), node.GetRequested()
	out := make([]int64, len(s.resources))
	for r, name := range s.resources {
		switch name := corev1.ResourceName(name); name {
		case corev1.ResourcePods:
			out[r] = int64(room.GetAllowedPodNumber() - len(node.GetPods()))
		case corev1.ResourceCPU:
			out[r] = room.GetMilliCPU() - used.GetMilliCPU()
		case corev1.ResourceMemory:
			out[r] = room.GetMemory() - used.GetMemory()
		case corev1.ResourceEphemeralStorage:
			out[r] = room.GetEphemeralStorage() - used.GetEphemeralStorage()
		default:
			out[r] = room.GetScalarResources()[name] - used.GetScalarResources()[name]
		}
	}
	return out
}

// Score returns the decrease of a node's fragmentation if a pod with this request is placed there.
// It is negative for an increase.
func (s *Scorer) Score(node fwk.NodeInfo, request []int64) int64 {
	return -s.mix.Rise(s.free(node), request)
}

// Normalize scales the scores to the framework's range. Only the nodes with the best unscaled
// score get the highest score. If all unscaled scores are equal, all nodes get the highest score.
func Normalize(scores fwk.NodeScoreList) {
	if len(scores) == 0 {
		return
	}
	byScore := func(a, b fwk.NodeScore) int { return int(min(max(a.Score-b.Score, -1), 1)) }
	least, most := slices.MinFunc(scores, byScore).Score, slices.MaxFunc(scores, byScore).Score
	for i := range scores {
		if scores[i].Score == most {
			scores[i].Score = fwk.MaxScore
			continue
		}
		scores[i].Score = min(int64(float64(scores[i].Score-least)/float64(most-least)*float64(fwk.MaxScore)), fwk.MaxScore-1)
	}
}
