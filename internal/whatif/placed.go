package whatif

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// QueueOfPlaced returns the leaf queue that a pod counts towards once it has a node; "" for none.
// For a victim it is the queue that the pod counted towards before its eviction, according to the
// current objects. Conditions that block the waiting pod are ignored. The pod may have finished.
func (c *Cluster) QueueOfPlaced(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		placed := *pod
		placed.Spec.NodeName = "any"
		pod = &placed
	}
	return c.queueOf(pod)
}

// QueueOfPlacedGroup is QueueOfPlaced for a group and one of its members. The member is nil if the
// group has none.
func (c *Cluster) QueueOfPlacedGroup(group types.NamespacedName, member *corev1.Pod) string {
	if member == nil {
		member = c.memberOf(group)
	}
	return c.QueueOfPlaced(member)
}

// memberOf returns a pod that stands for a group without members. Its profile is set only if there
// is a single profile.
func (c *Cluster) memberOf(group types.NamespacedName) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace, Labels: map[string]string{v1alpha1.LabelPodGroup: group.Name}}}
	if len(c.plugins) == 1 {
		for profile := range c.plugins {
			pod.Spec.SchedulerName = profile
		}
	}
	return pod
}
