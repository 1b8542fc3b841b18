package inputs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// Seen is what a decision went by, as far as it is the scheduler's own: all else are objects of the API.
type Seen struct {
	// Now is the moment that the decision went by.
	Now time.Time
	// Nodes are those of the cycle's snapshot, and Pods the pending pods that the decision was for. They must not be changed.
	Nodes []fwk.NodeInfo
	Pods  []*corev1.Pod
	// Promised is all room that is promised, by pod, and Leaving are the pods that are counted on to go and do not
	// say so themselves yet, in order.
	Promised []PromisedRoom
	Leaving  []types.UID
}

// PromisedRoom is the node of a pod that waits for its place.
type PromisedRoom struct {
	Pod  *corev1.Pod
	Node string
}
