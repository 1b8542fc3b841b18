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

// Sources has everything that a Cache asks about pods, groups and queues. All fields are required.
// Only scheduling cycles call the sources, in [Cache.Level] and in the methods of a [View].
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
	// PodGroupOf returns the PodGroup of a pod; false for a pod without a PodGroup. It does so even
	// if the members of a larger group of its tree are evicted together or have the same facts.
	PodGroupOf(pod *corev1.Pod) (types.NamespacedName, bool)
}

// Groups provides the facts about PodGroups.
type Groups interface {
	// Group returns a group; false if it does not exist. The Cache must not change the group.
	Group(key types.NamespacedName) (*gang.Group, bool)
	// NeverGroup returns the PodGroup with a key if its disruption mode Never may protect its
	// members; false otherwise.
	NeverGroup(key types.NamespacedName) (*gang.Group, bool)
	// WorkloadOf returns the group that the members of a group are scheduled with. It is the group
	// itself, or the group of its tree.
	WorkloadOf(key types.NamespacedName) (*gang.Group, bool)
	// Placed returns the members of a group that have a node or are assumed on one.
	Placed(key types.NamespacedName) []*corev1.Pod
	// RunOf returns the run of a group. It may be newer than the group's status.
	RunOf(g *gang.Group) engine.Run
	// RoleOf returns the role of a gang member, and how many members of this role the gang needs.
	// It returns nil if the gang has no roles.
	RoleOf(g *gang.Group, pod *corev1.Pod) *core.Role
	// VictimPriority returns the priority of a group as a potential victim. scheduling is the
	// priority of the group for scheduling, which applies if the group names no class for
	// preemption. placed is the queue of its running members; "" for none.
	VictimPriority(g *gang.Group, scheduling int32, placed string) int32
	// NeverPreempts reports whether the pods of a group must not preempt. g is nil for pods without
	// a group, and for a group that does not exist.
	NeverPreempts(g *gang.Group, pods ...*corev1.Pod) bool
	// Degraded describes the members that a group has lost and not replaced; zero for none.
	Degraded(g *gang.Group) Degraded
}

// Degraded describes the members that a gang has lost and not replaced.
type Degraded struct {
	// Since is the time when the first of the missing members was lost. Lacks is the number of
	// missing members.
	Since time.Time
	Lacks int
	// Stale is true if members have been missing for too long. The gang may then be evicted as a
	// whole.
	Stale bool
}

// Disruptions reports which pods terminate, with or without a deletion timestamp, and which pods
// cannot be deleted.
type Disruptions interface {
	DepartureOf(pod *corev1.Pod) Departure
	// RefusedUntil returns the time until which a pod is protected because its deletion was
	// refused; zero if it was not. Until then, the pod cannot be a victim.
	RefusedUntil(pod *corev1.Pod) time.Time
}

// Departure says whether and how a pod terminates.
type Departure int

const (
	// Stays: the pod does not terminate, so it may be a victim.
	Stays Departure = iota
	// Leaves: the pod was deleted, or its deletion is under way. Its room will be free. It cannot
	// be a victim.
	Leaves
	// LeavesLate is like Leaves, for a pod whose grace period is longer than decisions wait for.
	// The pod still counts as usage of its queue.
	LeavesLate
	// Overdue: the pod was deleted and should have terminated long ago. Decisions do not count on
	// its room. It cannot be a victim, because it cannot be deleted again.
	Overdue
)

// IsLeaving reports whether decisions count the room of the pod as free.
func (d Departure) IsLeaving() bool { return d == Leaves || d == LeavesLate }

// Tolerations returns the tolerations that protect pods and groups from preemptors of low priority;
// nil for no protection.
type Tolerations interface {
	// OfPod returns the toleration of a pod without a group.
	OfPod(pod *corev1.Pod) *core.Toleration
	// OfGroup returns the toleration of a group with this priority. start is the start of its
	// protection.
	OfGroup(g *gang.Group, priority int32, start time.Time) *core.Toleration
	// OfClass returns the toleration of work with this PriorityClass. start is the start of its
	// protection.
	OfClass(name string, start time.Time) *core.Toleration
	// OfNever returns the toleration of groups with this PriorityClass and the disruption mode
	// Never. start is the start of its protection.
	OfNever(name string, start time.Time) *core.Toleration
}

// Queues finds the leaf queues of pods and groups; "" for none. It also returns the state of the
// queues.
type Queues interface {
	QueueOf(pod *corev1.Pod) string
	QueueOfGroup(g *gang.Group) string
	// Standing returns the tree of queues with their fair shares, for the given resources. It
	// returns nil if there are no queues.
	Standing(resources []string) *queue.Snapshot
}

// Profiles returns the min-runtimes that protect work whose queues set none. They come from the
// profile that schedules the work. The result is nil if the profile is unknown, and must not be
// changed.
type Profiles interface {
	// MinRuntimeOf returns the min-runtimes of a pod without a group.
	MinRuntimeOf(pod *corev1.Pod) *core.MinRuntime
	// MinRuntimeOfGroup returns the min-runtimes of the members of a group.
	MinRuntimeOfGroup(key types.NamespacedName) *core.MinRuntime
}

// Delegation reports which resources are delegated. On nodes without a delegated resource,
// DynamicResources decides whether a request fits.
type Delegation interface {
	// Delegates reports whether a DeviceClass maps a resource. The Cache asks this in every call of
	// Level, so changes need not be reported.
	Delegates(name corev1.ResourceName) bool
}
