package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// awaitOutcome handles a pod that was deleted before its result was known, without a deletion
// timestamp. Such a pod may have succeeded. Its gang keeps its reservations until the result is
// known.
func (o *placements) awaitOutcome(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	if key, ok := o.index.groupOf(pod); ok {
		o.gangs.AwaitResult(gangKey(key), string(pod.UID), engine.Ended{Pod: pod, Until: o.clock.Now().Add(engine.ShortTime)})
	}
}

// membersAsReserved returns the members of a gang for checks of existing reservations. A deleted
// member whose result is not known yet counts as succeeded. Checks for new reservations use the
// method members instead.
func (o *placements) membersAsReserved(key types.NamespacedName) gang.Members {
	awaited := o.gangs.Ended(gangKey(key), o.clock.Now())
	members := o.members(key)
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
