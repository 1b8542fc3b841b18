package inputs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// Seen holds the inputs of a decision that only the scheduler has. The Recorder gets all other
// inputs from informers.
type Seen struct {
	// Now is the current time for the decision.
	Now time.Time
	// Nodes holds the nodes of the scheduling cycle's snapshot. It must not be changed.
	Nodes []fwk.NodeInfo
	// Pods holds the pending pods that the decision is about. They must not be changed.
	Pods []*corev1.Pod
	// Promised holds all reservations.
	Promised []ReservedRoom
	// Leaving holds the UIDs of pods that the scheduler is evicting and whose status does not show
	// that yet, in a fixed order.
	Leaving []types.UID
}

// ReservedRoom is the reservation of room for a pod on a node.
type ReservedRoom struct {
	Pod  *corev1.Pod
	Node string
}
