package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// AwaitOutcome handles a pod that was deleted before its result was known, without a deletion
// timestamp. Such a pod may have succeeded. Its gang keeps its reservations until the result is
// known.
func (o *Placements) AwaitOutcome(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	if key, ok := o.index.GroupOf(pod); ok {
		o.gangs.AwaitResult(gang.KeyOf(key), string(pod.UID), engine.Ended{Pod: pod, Until: o.clock.Now().Add(engine.ShortTime)})
	}
}

// MembersAsReserved returns the members of a gang for checks of existing reservations. A deleted
// member whose result is not known yet counts as succeeded. Checks for new reservations use the
// method Members instead.
func (o *Placements) MembersAsReserved(key types.NamespacedName) gang.Members {
	awaited := o.gangs.Ended(gang.KeyOf(key), o.clock.Now())
	members := o.Members(key)
	for _, ended := range awaited {
		pod, ok := ended.Pod.(*corev1.Pod)
		if !ok {
			continue
		}
		isIt := func(known *corev1.Pod) bool { return known.UID == pod.UID }
		if !slices.ContainsFunc(members.Succeeded, isIt) && !slices.ContainsFunc(members.Finished, isIt) {
			members.Succeeded = append(members.Succeeded, pod)
		}
	}
	return members
}
