package whatif

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// QueueOfPlaced names the leaf queue that a pod counts for once it has a node; "" for none. Of a victim it is the one that it counted
// for, as far as objects tell now: what keeps it out while it waits again does not matter. Any pod will do, finished ones too.
func (c *Cluster) QueueOfPlaced(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		placed := *pod
		placed.Spec.NodeName = "any"
		pod = &placed
	}
	return c.queueOf(pod)
}

// QueueOfPlacedGroup is QueueOfPlaced for a group and a member of it, nil for a group without.
func (c *Cluster) QueueOfPlacedGroup(group types.NamespacedName, member *corev1.Pod) string {
	if member == nil {
		member = c.memberOf(group)
	}
	return c.QueueOfPlaced(member)
}

// memberOf is like a pod of a group that has none. Which profile those were of is known where there is but one.
func (c *Cluster) memberOf(group types.NamespacedName) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace, Labels: map[string]string{v1alpha1.LabelPodGroup: group.Name}}}
	if len(c.plugins) == 1 {
		for profile := range c.plugins {
			pod.Spec.SchedulerName = profile
		}
	}
	return pod
}
