package invariants

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// hasNode reports whether a pod uses its request on a node: it has a node and has not finished.
func hasNode(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// isWaiting reports whether a pod is pending, has no node, and is not terminating.
func isWaiting(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending
}

// isStaying reports whether a pod uses its request on a node and is not terminating.
func isStaying(pod *corev1.Pod) bool { return hasNode(pod) && pod.DeletionTimestamp == nil }

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 || pod.Status.Conditions[i].Status != corev1.ConditionTrue {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// markOf returns the condition of a pod about its preemption, or nil.
func markOf(pod *corev1.Pod) *corev1.PodCondition {
	if c := conditionOf(pod, corev1.DisruptionTarget); c != nil && c.Reason == corev1.PodReasonPreemptionByScheduler {
		return c
	}
	return nil
}

// scheduledAt returns the time when a pod got its node. It returns false if the pod has no node.
func scheduledAt(pod *corev1.Pod) (time.Time, bool) {
	if c := conditionOf(pod, corev1.PodScheduled); c != nil {
		return c.LastTransitionTime.Time, true
	}
	return time.Time{}, false
}

// requested returns a pod's request for a resource, in thousandths of the unit.
func requested(pod *corev1.Pod, name corev1.ResourceName) int64 {
	sum := int64(0)
	for i := range pod.Spec.Containers {
		quantity := pod.Spec.Containers[i].Resources.Requests[name]
		sum += quantity.MilliValue()
	}
	return sum
}

// isWhole reports whether the disruption mode of a PodGroup is PodGroup.
func isWhole(pg *v1alpha1.PodGroup) bool {
	return ptr.Deref(pg.Spec.DisruptionMode, v1alpha1.DisruptionModePod) == v1alpha1.DisruptionModePodGroup
}

// minCountOf returns the minCount of a PodGroup, or 0 for the basic policy.
func minCountOf(pg *v1alpha1.PodGroup) int {
	if pg.Spec.SchedulingPolicy == nil || pg.Spec.SchedulingPolicy.Gang == nil {
		return 0
	}
	return int(pg.Spec.SchedulingPolicy.Gang.MinCount)
}

// unit is a single pod, a member of a PodGroup together with its PodGroup, or a PodGroup alone.
type unit struct {
	pod   *corev1.Pod
	group *group
	// placed has the facts from the time when the pod got its node. It is nil if the pod has no
	// node.
	placed *placement
}

func (c *Checker) unitOf(pod *corev1.Pod) unit {
	u := unit{pod: pod}
	if p, ok := c.placed[pod.UID]; ok {
		u.placed = &p
	}
	if key, ok := c.groupOf(pod); ok {
		if g := c.groups[key]; g != nil && !g.gone {
			u.group = g
		}
	}
	return u
}

// priority returns the priority of the PodGroup. If there is no PodGroup, it returns the priority
// of the pod.
func (u unit) priority() int32 {
	if u.group != nil {
		return ptr.Deref(u.group.Spec.Priority, 0)
	}
	return ptr.Deref(u.pod.Spec.Priority, 0)
}

func (u unit) class() string {
	if u.group != nil {
		return ptr.Deref(u.group.Spec.PriorityClassName, "")
	}
	return u.pod.Spec.PriorityClassName
}

// preempts reports whether the preemption policy of the unit permits preemption.
func (u unit) preempts() bool {
	if u.group != nil {
		return ptr.Deref(u.group.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) != corev1.PreemptNever
	}
	return ptr.Deref(u.pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) != corev1.PreemptNever
}

// queue returns the name of the unit's Queue, or "" if it is in none.
func (u unit) queue() string {
	if u.placed != nil {
		return u.placed.queue
	}
	if u.group != nil {
		return ptr.Deref(u.group.Spec.QueueName, "")
	}
	return u.pod.Labels[v1alpha1.LabelQueue]
}

// path returns a Queue and all its ancestors.
func (c *Checker) path(queue string) []*v1alpha1.Queue {
	var out []*v1alpha1.Queue
	for q := c.queues[queue]; q != nil && !slices.Contains(out, q); q = c.queues[ptr.Deref(q.Spec.Parent, "")] {
		out = append(out, q)
	}
	return out
}

// used returns the usage of a Queue, including the Queues below it, in thousandths of the unit.
func (c *Checker) used(q *v1alpha1.Queue, name corev1.ResourceName) int64 {
	sum := int64(0)
	for _, pod := range c.pods {
		if hasNode(pod) && slices.Contains(c.path(c.unitOf(pod).queue()), q) {
			sum += requested(pod, name)
		}
	}
	return sum
}

// checkLimits checks the limits of a pod's Queue and its ancestors. Call it when a pod has got a
// node.
func (c *Checker) checkLimits(at time.Time, pod *corev1.Pod) {
	for _, q := range c.path(c.unitOf(pod).queue()) {
		for name, limit := range q.Spec.Limit {
			c.counts.Judged[LimitExceeded]++
			if used := c.used(q, name); used > limit.MilliValue() {
				c.violate(LimitExceeded, at, "queue %s has %d.%03d %s of %s once pod %s is bound", q.Name, used/1000, used%1000, name, limit.String(), keyOf(pod))
			}
		}
	}
}
