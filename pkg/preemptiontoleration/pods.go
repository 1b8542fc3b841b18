package preemptiontoleration

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// CanToleratePreemption reports whether a pod tolerates preemption by another pod at the time now.
// A pod tolerates no preemption if it has no PriorityClass, or if its class has no policy. Errors:
//
//   - The class does not exist: the error is a NotFound, and the result follows [MissingClass]. The
//     pod tolerates every preemptor that is not system-critical.
//   - The policy is malformed: the error is a *MalformedError, and the result is false.
//   - The class could not be read for another reason: the result is false.
func CanToleratePreemption(victimCandidate, preemptor *corev1.Pod, classes schedulinglisters.PriorityClassLister, now time.Time) (bool, error) {
	if victimCandidate.Spec.PriorityClassName == "" {
		return false, nil
	}
	class, err := classes.Get(victimCandidate.Spec.PriorityClassName)
	if err != nil {
		tolerates := false
		if apierrors.IsNotFound(err) {
			tolerates, _ = MissingClass().Tolerates(corev1helpers.PodPriority(preemptor), ScheduledAt(victimCandidate), now)
		}
		return tolerates, fmt.Errorf("get PriorityClass %s: %w", victimCandidate.Spec.PriorityClassName, err)
	}
	policy, err := FromPriorityClass(class)
	if err != nil {
		return false, err
	}
	tolerates, _ := policy.Tolerates(corev1helpers.PodPriority(preemptor), ScheduledAt(victimCandidate), now)
	return tolerates, nil
}

// ScheduledAt returns the time when a pod was scheduled, from its PodScheduled condition. It
// returns the zero time if the condition is absent or not True.
func ScheduledAt(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
