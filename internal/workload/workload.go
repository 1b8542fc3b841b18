package workload

import (
	"cmp"
	"math"
)

// Key identifies a workload: a gang, or a single pod. A pod and a gang with the same name have
// different keys. A pod and a later pod of the same name differ by UID. The key of a gang does not
// change when its PodGroup is deleted and created again.
type Key struct {
	Gang            bool
	Namespace, Name string
	// UID is the pod's UID; "" for a gang.
	UID string
}

// String returns "namespace/name" for logs and messages.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys by namespace, then name, then UID.
func (k Key) Compare(other Key) int {
	return cmp.Or(
		cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Name, other.Name), cmp.Compare(k.UID, other.UID),
	)
}

// SystemCritical is the lowest priority of pods that ignore queues. Kubernetes reserves this value
// and higher ones for its own classes.
const SystemCritical = 2_000_000_000

// LowestPriority is the priority of a workload that must not preempt for now, in comparisons of
// reservations. All other workloads may use its reserved room, and it must respect all other
// reservations.
const LowestPriority = math.MinInt32

// Standing ranks a workload against other workloads.
type Standing struct {
	// Priority is the priority of the gang, or of the single pod.
	Priority int32
	// Queue is the name of the workload's leaf queue; "" for none.
	Queue string
}

// KeepsFrom reports whether a reservation of a workload with this standing excludes another
// workload from the reserved room. A reservation of one queue excludes workloads of other queues,
// unless their priority is SystemCritical or higher. Without this rule, two queues could take turns
// to reclaim the room from each other. In all other cases, a reservation excludes workloads of the
// same or a lower priority.
func (s Standing) KeepsFrom(other Standing) bool {
	if s.Queue != "" && other.Queue != "" && s.Queue != other.Queue && other.Priority < SystemCritical {
		return true
	}
	return s.Priority >= other.Priority
}
