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
			// The sum of several containers has no limit, so the value may exceed an int64.
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
// admits no device. The API server rejects fractions of devices and pods. Earlier versions of
// Reprieve accepted them, so a Queue may still have one.
func grantOf(list corev1.ResourceList) Amounts {
	out := AmountsOf(list)
	for name, q := range list {
		if name != corev1.ResourceCPU && q.CmpInt64(out[name]) < 0 {
			out[name]--
		}
	}
	return out
}

// RequestOf returns the amounts that a pod occupies on its node, computed as in the scheduler. For
// example, the larger amount counts during a resize.
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

// mostRequested is the maximum amount that the ledger counts for one pod.
const mostRequested = fairshare.MaxUsage

// mostOffered is the maximum amount that the ledger counts for one node. With this maximum, the sum
// over 2^13 nodes fits in an int64.
const mostOffered = int64(1) << 49

// roomOf returns the amounts that a node offers.
func roomOf(node *corev1.Node) Amounts {
	out := AmountsOf(node.Status.Allocatable)
	for name, v := range out {
		out[name] = min(v, mostOffered)
	}
	return out
}

// Add adds other to a. A sum that would overflow an int64 becomes the largest int64.
func (a Amounts) Add(other Amounts) {
	for name, v := range other {
		if a[name] = fairshare.Add(a[name], v); a[name] == 0 {
			delete(a, name)
		}
	}
}

// Times returns n times a. No amount exceeds fairshare.MaxAmount.
func (a Amounts) Times(n int) Amounts {
	out := make(Amounts, len(a))
	for name, v := range a {
		out[name] = min(fairshare.Times(v, n), fairshare.MaxAmount)
	}
	return out
}

// add adds other, multiplied by sign (1 or -1), and removes resources whose sum is 0. The sums do
// not overflow, because the amounts of pods and nodes have maximums.
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

// vector returns the amounts of the named resources, in the order of names. The value absent is
// used for resources that a does not have.
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

// limits converts a list of limits to a vector. A resource that the list does not have is
// unlimited.
func limits(list corev1.ResourceList, names []string) fairshare.Amounts {
	return grantOf(list).vector(names, fairshare.Unlimited)
}
