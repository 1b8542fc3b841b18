package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// reconciled reports whether an update resolved a contradiction: the pod named two different groups
// before, and names one now.
func reconciled(before, after *corev1.Pod) bool {
	return gang.Contradiction(before) != (gang.Verdict{}) && gang.Contradiction(after) == (gang.Verdict{})
}

// lowestPriority returns the lowest of the own priorities of pods; 0 without pods.
func lowestPriority(pods ...*corev1.Pod) int32 {
	if len(pods) == 0 {
		return 0
	}
	lowest := corev1helpers.PodPriority(pods[0])
	for _, pod := range pods[1:] {
		lowest = min(lowest, corev1helpers.PodPriority(pod))
	}
	return lowest
}

// isGateReason reports whether the gate blocks members for a reason, before any planning.
func isGateReason(reason string) bool {
	switch reason {
	case gang.ReasonPodGroupNotFound, gang.ReasonPodGroupNotMade, v1alpha1.ReasonBehindItsObject, v1alpha1.ReasonPriorityAbovePods, v1alpha1.ReasonNotEnoughMembers, v1alpha1.ReasonMixedSchedulerNames,
		v1alpha1.ReasonPriorityClassNotFound, v1alpha1.ReasonTemplateNotFound, v1alpha1.ReasonAmbiguousName,
		v1alpha1.ReasonParentNotFound, v1alpha1.ReasonParentCycle, v1alpha1.ReasonTreeTooDeep, v1alpha1.ReasonPriorityDiffers,
		v1alpha1.ReasonQueueDiffers, v1alpha1.ReasonNotEnoughGroups,
		v1alpha1.ReasonUnsupported, v1alpha1.ReasonQueueNotFound, v1alpha1.ReasonQueueNotLeaf, v1alpha1.ReasonQueueUnusable,
		v1alpha1.ReasonQueueNotAllowed, v1alpha1.ReasonPriorityAboveQueue, v1alpha1.ReasonQueueRequired,
		v1alpha1.ReasonDriversWithoutWorkers:
		return true
	default:
		return false
	}
}
