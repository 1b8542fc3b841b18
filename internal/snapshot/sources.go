package snapshot

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// Sources are the sources that a Cache asks about pods, groups and queues. All are required. Only
// scheduling cycles call them, from [Cache.Level] and the methods of a [View].
type Sources struct {
	Membership  Membership
	Groups      Groups
	Disruptions Disruptions
	Tolerations Tolerations
	Queues      Queues
	Profiles    Profiles
	Delegation  Delegation
}

// Membership finds the PodGroup that a pod belongs to as a victim.
type Membership interface {
	// GroupOf returns the group of a pod; false for a pod without one.
	GroupOf(pod *corev1.Pod) (types.NamespacedName, bool)
}

// Groups provides the facts about PodGroups.
type Groups interface {
	// Group returns a group, which the Cache must not change; false if it does not exist.
	Group(key types.NamespacedName) (*gang.Group, bool)
	// WorkloadOf returns the group that the members of a group are scheduled with: the group
	// itself, or the group of its tree.
	WorkloadOf(key types.NamespacedName) (*gang.Group, bool)
	// Placed returns the members of a group that have a node or are assumed on one.
	Placed(key types.NamespacedName) []*corev1.Pod
	// RunOf returns the run of a group. The status of the group may not include it yet.
	RunOf(g *gang.Group) engine.Run
	// RoleOf returns the role of a gang member, with the number of members of this role that the
	// gang needs; nil for a gang without roles.
	RoleOf(g *gang.Group, pod *corev1.Pod) *core.Role
	// VictimPriority returns the priority of a group as a potential victim. scheduling is its
	// priority without a class for that purpose. placed is the queue of its running members; "" for
	// none.
	VictimPriority(g *gang.Group, scheduling int32, placed string) int32
	// NeverPreempts reports whether pods of a group may not preempt. g is nil for pods without a
	// group, or if the group does not exist.
	NeverPreempts(g *gang.Group, pods ...*corev1.Pod) bool
	// Degraded returns the number of members that a group has lost, with the time of the first
	// loss; zero if no member is missing.
	Degraded(g *gang.Group) Degraded
}

// Degraded describes the members that a gang has lost and not replaced.
type Degraded struct {
	// Since is the time of the first loss. Lacks is how many members are missing.
	Since time.Time
	Lacks int
	// Stale is true if members have been missing for so long that the gang may be evicted as a
	// whole.
	Stale bool
}

// Disruptions reports which pods are terminating, with or without a deletion timestamp, and which
// cannot be deleted.
type Disruptions interface {
	DepartureOf(pod *corev1.Pod) Departure
	// RefusedUntil returns the end of a pod's protection because its deletion was refused; zero for
	// other pods. Until then, the pod is no victim.
	RefusedUntil(pod *corev1.Pod) time.Time
}

// Departure says whether a pod is terminating.
type Departure int

const (
	// Stays: the pod is not terminating, so it may be a victim.
	Stays Departure = iota
	// Leaves: the pod was deleted, or is ordered to be deleted. Its room is free once it is gone,
	// and it is never a victim.
	Leaves
	// LeavesLate is like Leaves, for a pod with a longer grace period than decisions wait for. The
	// pod counts in its queue from the start of its deletion.
	LeavesLate
	// Overdue: the pod was deleted and should have terminated long ago. Decisions do not count on
	// its room, and it cannot be deleted again.
	Overdue
)

// IsLeaving reports whether decisions count the room of the pod as free in the future.
func (d Departure) IsLeaving() bool { return d == Leaves || d == LeavesLate }

// Tolerations returns the protection of pods and groups from low priorities; nil for no protection.
type Tolerations interface {
	// OfPod returns a pod's own toleration. It is used if the pod has no group.
	OfPod(pod *corev1.Pod) *core.Toleration
	// OfGroup returns the toleration of a group. priority is the priority of the group, and start
	// the time since when the group counts as whole.
	OfGroup(g *gang.Group, priority int32, start time.Time) *core.Toleration
	// OfClass returns the toleration of work that has a class. start is the begin of the
	// protection.
	OfClass(name string, start time.Time) *core.Toleration
}

// Queues maps work to leaf queues, "" for none. It also returns the state of the queues.
type Queues interface {
	QueueOf(pod *corev1.Pod) string
	QueueOfGroup(g *gang.Group) string
	// Standing returns the tree of queues with their fair shares, in the given resources; nil
	// without queues.
	Standing(resources []string) *queue.Snapshot
}

// Profiles returns the min-runtimes that protect work if its queues have no setting. They come from
// the profile that schedules the work; nil if that profile is unknown. Results may be shared.
type Profiles interface {
	// MinRuntimeOf returns the min-runtimes of a pod. They are used if the pod has no group.
	MinRuntimeOf(pod *corev1.Pod) *core.MinRuntime
	// MinRuntimeOfGroup returns the min-runtimes of the members of a group.
	MinRuntimeOfGroup(key types.NamespacedName) *core.MinRuntime
}

// Delegation reports which resources DynamicResources decides about on nodes that have none of
// them.
type Delegation interface {
	// Delegates reports whether a DeviceClass maps a resource. Unlike other sources, it is asked at
	// every Level.
	Delegates(name corev1.ResourceName) bool
}
