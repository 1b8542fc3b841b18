package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

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
