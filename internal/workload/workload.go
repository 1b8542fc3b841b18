package workload

import "cmp"

// Key identifies a workload: a gang, or a pod that is scheduled by itself. A pod and a gang of the
// same name are different workloads. Two pods that have the same name one after the other also
// differ, by UID. A gang keeps its identity while it has members, even if its PodGroup is deleted.
type Key struct {
	Gang            bool
	Namespace, Name string
	// UID is the pod's UID, and "" for gangs.
	UID string
}

// String returns "namespace/name", the form in logs and messages.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys by namespace, then name, then UID.
func (k Key) Compare(other Key) int {
	return cmp.Or(
		cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Name, other.Name), cmp.Compare(k.UID, other.UID),
	)
}

// SystemCritical is the lowest priority that takes precedence over queues.
const SystemCritical = 2_000_000_000

// Standing is the rank of a workload against others.
type Standing struct {
	// Priority is the effective priority: the group's, if the pod belongs to a group.
	Priority int32
	// Queue is the name of the leaf queue, or "" without a queue.
	Queue string
}

// KeepsFrom reports whether a reservation of a workload with this standing excludes another
// workload. Between different queues, priority does not count unless the other workload is
// system-critical. Otherwise two queues could reclaim the same room from each other in turns.
func (s Standing) KeepsFrom(other Standing) bool {
	if s.Queue != "" && other.Queue != "" && s.Queue != other.Queue && other.Priority < SystemCritical {
		return true
	}
	return s.Priority >= other.Priority
}
