package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// membershipChanged handles a pod whose derived group has changed, because more is known about the
// owner of the pod. It retries the pod if the pod waited for this. The argument before is the
// previous PodGroup, and was is false if there was none.
func (pw *podWatch) membershipChanged(listed *corev1.Pod, before types.NamespacedName, was bool) {
	if was && pw.index.Trees != nil {
		before = pw.index.Trees.WorkloadOf(before)
	}
	pw.workloadChanged(listed, before, was)
}

// workloadChanged handles a pod that may belong to another workload than before. was is false if
// the pod belonged to no group.
//
// listed may be an outdated version of the pod. The pod may have been changed or deleted since, and
// the informer's handler may have run before this call.
func (pw *podWatch) workloadChanged(listed *corev1.Pod, before types.NamespacedName, was bool) {
	pod, exists := pw.index.PodOf(podKey(listed))
	if !exists {
		pod = listed
	}
	now, is := pw.index.GroupOf(pod)
	if was != is || before != now {
		pw.memberships.regrouped(pod, before, was)
		if is {
			pw.cluster.GroupChanged(now)
		}
		switch {
		case pod.Spec.NodeName != "":
			pw.cluster.NodeChanged(pod.Spec.NodeName)
		case pw.records.IsAssumed(string(pod.UID)):
			// Only the scheduler's cache has the node of an assumed pod, so the whole snapshot is
			// read again.
			pw.cluster.Invalidate()
		}
	}
	for exists {
		pw.changed(pod, pod.Spec.NodeName == "")
		var after *corev1.Pod
		if after, exists = pw.index.PodOf(podKey(pod)); after == pod {
			break
		} else if exists {
			pod = after
		}
	}
	switch {
	case !exists:
		pw.deleted(pod)
	case pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil:
		pw.retries.activate(pod)
	}
}
