package scheduler

import corev1 "k8s.io/api/core/v1"

// isOnMissingNode reports whether a pod names a node that does not exist. It is false if the quota
// ledger has already charged the pod as a pod on that node. Users who may create pods can name any
// node, and such a pod uses no room. If a node was deleted, its pods may still run, so they count
// until they are gone.
func (b *ledger) isOnMissingNode(pod *corev1.Pod) bool {
	node := pod.Spec.NodeName
	// Without an informer for nodes, assume that every node exists.
	return node != "" && b.index.nodes != nil && !b.index.hasNode(node) && !b.quotas.IsOn(pod.UID, node)
}

// chargeOn charges the pods on a node to their queues. It is called when the node appears, because
// its pods may have appeared first.
func (ns *nodeWatch) chargeOn(node string) {
	if !ns.quotas.Used() {
		return
	}
	for _, pod := range ns.index.podsOn(node) {
		ns.ledger.recharge(pod)
	}
}
