package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// awaitOutcome keeps the reservations of a pod's gang until the result of the pod is known. It
// applies to a pod on a node that is not marked for deletion and has not finished: the pod may have
// ended by itself.
func (h *Scheduler) awaitOutcome(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	if key, ok := h.groupOf(pod); ok {
		h.gangs.AwaitResult(gangKey(key), string(pod.UID), engine.Ended{Pod: pod, Until: h.clock.Now().Add(engine.ShortTime)})
	}
}

// membersAsReserved returns the members of a gang as they count for existing reservations. Members
// with an unknown result count as succeeded. New reservations do not use this. If the result
// arrived before the end of the pod, membersAsReserved uses that result.
func (h *Scheduler) membersAsReserved(key types.NamespacedName) gang.Members {
	awaited := h.gangs.Ended(gangKey(key), h.clock.Now())
	members := h.members(key)
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
