package whatif

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// QueueOfPlaced returns the leaf queue that a pod counts towards when it has a node. It is empty
// for none. For a victim, this is the queue before its eviction, according to the current objects.
// The result ignores conditions that block the pod while it waits. The pod may have finished.
func (c *Cluster) QueueOfPlaced(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		placed := *pod
		placed.Spec.NodeName = "any"
		pod = &placed
	}
	return c.queueOf(pod)
}

// QueueOfPlacedGroup works like QueueOfPlaced, for a group and one of its members. The member is
// nil if the group has none.
func (c *Cluster) QueueOfPlacedGroup(group types.NamespacedName, member *corev1.Pod) string {
	if member == nil {
		member = c.memberOf(group)
	}
	return c.QueueOfPlaced(member)
}

// memberOf returns a pod that represents a group without members. The pod has a scheduler name only
// if there is exactly one profile.
func (c *Cluster) memberOf(group types.NamespacedName) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace, Labels: map[string]string{v1alpha1.LabelPodGroup: group.Name}}}
	if len(c.plugins) == 1 {
		for profile := range c.plugins {
			pod.Spec.SchedulerName = profile
		}
	}
	return pod
}
