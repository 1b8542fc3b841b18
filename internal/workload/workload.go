package workload

import "cmp"

// Key names a workload: a PodGroup that is a gang, or a pod that is scheduled by itself. A pod and a gang of the same
// name are two workloads, and so are two pods that have the name one after the other. A gang is the same as long as there
// are members, whatever becomes of its PodGroup.
type Key struct {
	Gang            bool
	Namespace, Name string
	// UID is the pod's; "" for gangs.
	UID string
}

// String is "namespace/name", as log lines and messages have it.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys by namespace, then name, then UID.
func (k Key) Compare(other Key) int {
	return cmp.Or(
		cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Name, other.Name), cmp.Compare(k.UID, other.UID),
	)
}

// SystemCritical is the lowest priority that goes by priority everywhere, whatever the queues say.
const SystemCritical = 2_000_000_000

// Standing is how a workload stands that has been promised room, or wants some.
type Standing struct {
	// Priority is the one that counts: the group's, where there is one.
	Priority int32
	// Queue is the name of the leaf queue, "" for none.
	Queue string
}

// KeepsFrom reports whether what a workload of this standing has been promised is not free for another. Between queues
// priority does not count: what one queue has reclaimed would go back to the queue that it was taken from, and so on in
// turns.
func (s Standing) KeepsFrom(other Standing) bool {
	if s.Queue != "" && other.Queue != "" && s.Queue != other.Queue && other.Priority < SystemCritical {
		return true
	}
	return s.Priority >= other.Priority
}
