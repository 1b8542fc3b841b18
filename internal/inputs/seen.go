package inputs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// Seen holds the inputs of a decision that only the scheduler has. All other inputs are objects of
// the API.
type Seen struct {
	// Now is the time that the decision used.
	Now time.Time
	// Nodes holds the nodes of the cycle's snapshot. Pods holds the pending pods of the decision.
	// They must not be changed.
	Nodes []fwk.NodeInfo
	Pods  []*corev1.Pod
	// Promised holds all reservations. Leaving holds, in order, the pods that the scheduler is
	// evicting and whose status does not show that yet.
	Promised []ReservedRoom
	Leaving  []types.UID
}

// ReservedRoom is the node of a pod's reservation.
type ReservedRoom struct {
	Pod  *corev1.Pod
	Node string
}
