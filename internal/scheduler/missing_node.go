package scheduler

import corev1 "k8s.io/api/core/v1"

// isOnMissingNode reports whether a pod names a node that does not exist. Anyone who may create
// pods can name any node, and such a pod uses no room. A pod whose node was deleted may still run,
// so it counts until the pod is gone.
func (b *ledger) isOnMissingNode(pod *corev1.Pod) bool {
	node := pod.Spec.NodeName
	// Without informers, every node may exist.
	return node != "" && b.nodes != nil && !b.hasNode(node) && !b.quotas.IsOn(pod.UID, node)
}

// chargeOn charges the pods on a node to their queues. The node may have appeared after the pods.
func (h *Scheduler) chargeOn(node string) {
	if !h.quotas.Used() {
		return
	}
	for _, pod := range h.podsOn(node) {
		h.recharge(pod)
	}
}
