package queue

import (
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/features"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Amounts are quantities by resource, in the scheduler's units: milli-CPUs, bytes of memory, and
// whole units of all other resources. Pods count as one unit of the resource pods.
type Amounts map[corev1.ResourceName]int64

// AmountsOf converts a ResourceList. Parts of a unit count as a whole unit.
func AmountsOf(list corev1.ResourceList) Amounts {
	out := make(Amounts, len(list))
	for name, q := range list {
		units := int64(1)
		if name == corev1.ResourceCPU {
			units = 1000
		}
		switch {
		case q.CmpInt64(math.MaxInt64/units) >= 0:
			// The value may overflow an int64, because the sum of several containers is not
			// limited.
			out[name] = fairshare.MaxAmount
		case name == corev1.ResourceCPU:
			out[name] = q.MilliValue()
		default:
			out[name] = q.Value()
		}
	}
	return out
}

// grantOf converts a quota or a limit. Parts of a unit do not count, so a limit of 500m of a device
// admits no device. The API server refuses such quantities of devices and pods, but accepted them in
// earlier versions.
func grantOf(list corev1.ResourceList) Amounts {
	out := AmountsOf(list)
	for name, q := range list {
		if name != corev1.ResourceCPU && q.CmpInt64(out[name]) < 0 {
			out[name]--
		}
	}
	return out
}

// RequestOf returns the amounts that a pod occupies on its node, as the scheduler counts them.
// During a resize, for example, the larger amount counts.
func RequestOf(pod *corev1.Pod) Amounts {
	gates := utilfeature.DefaultFeatureGate
	out := AmountsOf(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		UseStatusResources: gates.Enabled(features.InPlacePodVerticalScaling),
		InPlacePodLevelResourcesVerticalScalingEnabled: gates.Enabled(features.InPlacePodLevelResourcesVerticalScaling),
		SkipPodLevelResources:                          !gates.Enabled(features.PodLevelResources),
		UseDRANodeAllocatableResourceClaimStatus:       gates.Enabled(features.DRANodeAllocatableResources),
	}))
	out[corev1.ResourcePods] = 1
	for name, v := range out {
		out[name] = fairshare.Usage(v)
	}
	return out
}

// mostRequested is the largest amount that the ledger counts for one pod.
const mostRequested = fairshare.MaxUsage

// mostOffered is the largest amount that the ledger counts for one node. The sum over 2^13 nodes
// fits in an int64.
const mostOffered = int64(1) << 49

// roomOf returns the amounts that a node offers.
func roomOf(node *corev1.Node) Amounts {
	out := AmountsOf(node.Status.Allocatable)
	for name, v := range out {
		out[name] = min(v, mostOffered)
	}
	return out
}

// Add adds other to a. Sums are limited to the range of int64.
func (a Amounts) Add(other Amounts) {
	for name, v := range other {
		if a[name] = fairshare.Add(a[name], v); a[name] == 0 {
			delete(a, name)
		}
	}
}

// Times returns the amounts of n pods that each have a. No amount exceeds fairshare.MaxAmount.
func (a Amounts) Times(n int) Amounts {
	out := make(Amounts, len(a))
	for name, v := range a {
		out[name] = min(fairshare.Times(v, n), fairshare.MaxAmount)
	}
	return out
}

// add adds other, multiplied by sign, and removes resources whose sum is 0. The amounts of pods and
// nodes are small enough for exact sums.
func (a Amounts) add(other Amounts, sign int64) {
	for name, v := range other {
		if a[name] += sign * v; a[name] == 0 {
			delete(a, name)
		}
	}
}

func (a Amounts) clone() Amounts {
	if a == nil {
		return Amounts{}
	}
	return maps.Clone(a)
}

// vector returns the amounts of the named resources, in this order. Resources that are missing in a
// get the value absent.
func (a Amounts) vector(names []string, absent int64) fairshare.Amounts {
	out := make(fairshare.Amounts, len(names))
	for r, name := range names {
		v, ok := a[corev1.ResourceName(name)]
		if !ok {
			v = absent
		}
		out[r] = v
	}
	return out
}

// limits is vector for limits: a resource that the list does not name is unlimited.
func limits(list corev1.ResourceList, names []string) fairshare.Amounts {
	return grantOf(list).vector(names, fairshare.Unlimited)
}
