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
func (h *Scheduler) awaitOutcome(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	if key, ok := h.index.groupOf(pod); ok {
		h.gangs.AwaitResult(gangKey(key), string(pod.UID), engine.Ended{Pod: pod, Until: h.clock.Now().Add(engine.ShortTime)})
	}
}

// membersAsReserved returns the members of a gang for checks of existing reservations. A deleted
// member whose result is not known yet counts as succeeded. Checks for new reservations use the
// method members instead.
func (h *Scheduler) membersAsReserved(key types.NamespacedName) gang.Members {
	awaited := h.gangs.Ended(gangKey(key), h.clock.Now())
	members := h.placements.members(key)
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
