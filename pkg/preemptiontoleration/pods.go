package preemptiontoleration

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// CanToleratePreemption reports whether a pod tolerates preemption by another pod. A pod whose
// class has no policy does not. If the policy of the class is malformed, the error is a
// *MalformedError and the pod does not tolerate preemption. Another error means that the class
// cannot be read. If the class was deleted, its policy is unknown. The pod then tolerates all
// preemptors as in [MissingClass], and the error is a NotFound.
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

// ScheduledAt is when a pod was scheduled: the transition of its PodScheduled condition; zero while
// that is absent or not True.
func ScheduledAt(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
