package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

func gangKey(name types.NamespacedName) workload.Key { return gang.KeyOf(name) }

// podKey returns the workload key of a pod that is scheduled alone.
func podKey(pod *corev1.Pod) workload.Key {
	return workload.Key{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}

// nameOf returns the namespace and name of a workload's PodGroup or single pod.
func nameOf(key workload.Key) types.NamespacedName { return gang.NameOf(key) }

// typed converts UIDs of the engine to the type of the API.
func typed(pods []engine.UID) []types.UID {
	out := make([]types.UID, len(pods))
	for i, uid := range pods {
		out[i] = types.UID(uid)
	}
	return out
}

// keyOf returns the key of a pod's workload: its gang, or the single pod.
func (r *clusterIndex) keyOf(pod *corev1.Pod) workload.Key {
	if g := r.gangOf(pod); g != nil {
		return gangKey(g.Key)
	}
	return podKey(pod)
}

// standingOf returns the standing of a pod. While a pause forbids the pod's workload to preempt
// (see [engine.PreemptionPause]), the standing has the lowest priority.
func (b *ledger) standingOf(pod *corev1.Pod) workload.Standing {
	standing := workload.Standing{Priority: b.index.priorityOf(pod), Queue: b.queueOf(pod)}
	if b.backsOff(b.index.keyOf(pod)) {
		standing.Priority = workload.LowestPriority
	}
	return standing
}

// podOf returns the pod of a single-pod workload from the informer; false if it does not exist.
func (r *clusterIndex) podOf(key workload.Key) (*corev1.Pod, bool) {
	pod, err := r.pods.Pods(key.Namespace).Get(key.Name)
	return pod, err == nil && string(pod.UID) == key.UID
}

// latest returns the informer's version of a pod. It returns the given version of a pod that has
// been deleted or replaced.
func (r *clusterIndex) latest(pod *corev1.Pod) *corev1.Pod {
	if now, err := r.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && now.UID == pod.UID {
		return now
	}
	return pod
}

// hasMoved reports whether a pod belongs to another workload now than in the given version.
func (r *clusterIndex) hasMoved(pod *corev1.Pod) bool {
	now := r.latest(pod)
	return now != pod && r.keyOf(now) != r.keyOf(pod)
}
