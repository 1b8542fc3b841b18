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

// Amounts are quantities by resource, in the scheduler's units: milli for CPU, bytes for memory, pieces for all
// else. Pods count as one of the resource pods.
type Amounts map[corev1.ResourceName]int64

// AmountsOf reads a ResourceList.
func AmountsOf(list corev1.ResourceList) Amounts {
	out := make(Amounts, len(list))
	for name, q := range list {
		switch {
		case name != corev1.ResourceCPU:
			out[name] = q.Value()
		case q.CmpInt64(math.MaxInt64/1000) > 0:
			// In milli it is no int64.
			out[name] = fairshare.MaxAmount
		default:
			out[name] = q.MilliValue()
		}
	}
	return out
}

// RequestOf is what a pod occupies on its node, as the scheduler counts it: of a resize that is under way the larger of both, for instance.
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
		out[name] = min(max(v, 0), mostRequested)
	}
	return out
}

// mostRequested is the most that a pod counts with, far more than any node has: sums of it stay within range. What one
// pod asks for in vain is not to make what its queue asks for look like nothing.
const mostRequested = int64(1) << 46

// Add adds other.
func (a Amounts) Add(other Amounts) { a.add(other, 1) }

// add adds other, sign times, and drops what comes to nothing.
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

// vector lists the amounts of some resources, with another value where there is none.
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

// limits is vector for limits: what is not named has none.
func limits(list corev1.ResourceList, names []string) fairshare.Amounts {
	return AmountsOf(list).vector(names, fairshare.Unlimited)
}
