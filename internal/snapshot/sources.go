package snapshot

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// Sources are what a Cache asks about pods, groups and queues. All of them are needed, and are asked by scheduling
// cycles only, from [Cache.Level].
type Sources struct {
	Membership  Membership
	Groups      Groups
	Disruptions Disruptions
	Tolerations Tolerations
	Queues      Queues
	Profiles    Profiles
	Delegation  Delegation
}

// Membership tells which PodGroup a pod counts for as a victim.
type Membership interface {
	// GroupOf names the group; false for a pod that counts for itself.
	GroupOf(pod *corev1.Pod) (types.NamespacedName, bool)
}

// Groups has the facts about PodGroups.
type Groups interface {
	// Group finds a group, which the Cache does not change; false where there is none.
	Group(key types.NamespacedName) (*gang.Group, bool)
	// Placed are the members of a group that have a node, or are assumed to have one.
	Placed(key types.NamespacedName) []*corev1.Pod
	// StartOf is since when a group is whole, which its status may not say yet; zero where it is not.
	StartOf(g *gang.Group) time.Time
	// RoleOf is the role of a member of a gang, of which the gang needs some; nil for a gang
	// without roles.
	RoleOf(g *gang.Group, pod *corev1.Pod) *core.Role
	// Degraded says how a group lacks members that it had; the zero Degraded where it lacks none.
	Degraded(g *gang.Group) Degraded
}

// Degraded is how a gang lacks members that it had.
type Degraded struct {
	// Since is the time of the first loss, and Lacks how many members are missing.
	Since time.Time
	Lacks int
	// Stale is true where members have been missing for so long that the gang may be taken as a
	// whole.
	Stale bool
}

// Disruptions tells which pods are on their way out, whether their objects say so or not, and which cannot be told to go.
type Disruptions interface {
	DepartureOf(pod *corev1.Pod) Departure
	// RefusedUntil is the last moment at which a pod is no victim because its deletion was refused; zero for others.
	RefusedUntil(pod *corev1.Pod) time.Time
}

// Departure says whether a pod goes.
type Departure int

const (
	// Stays: nothing has it go, so it may be a victim.
	Stays Departure = iota
	// Leaves: it is on its way out. Its room is free once it has gone, and it is no preemptor's victim.
	Leaves
	// Overdue: it was told to go, and should have gone long ago. Its room is not counted on, and it cannot be told again.
	Overdue
)

// Tolerations tells which preemptors a pod or a group is protected from, and until when; nil for no protection.
type Tolerations interface {
	// OfPod is a pod's own. It counts where the pod has no group.
	OfPod(pod *corev1.Pod) *core.Toleration
	// OfGroup is that of a group of that priority which has been whole since start.
	OfGroup(g *gang.Group, priority int32, start time.Time) *core.Toleration
}

// Queues tells which leaf queue work is in, "" for none, and how the queues stand.
type Queues interface {
	QueueOf(pod *corev1.Pod) string
	QueueOfGroup(g *gang.Group) string
	// Standing is the tree of queues with their fair shares, in these resources; nil where there are no queues.
	Standing(resources []string) *queue.Standing
}

// Profiles tells which min-runtimes protect work whose queues say nothing of their own: those of
// the profile that schedules it, which may be shared; nil for work of no profile.
type Profiles interface {
	// MinRuntimeOf returns that of a pod. It counts where the pod has no group.
	MinRuntimeOf(pod *corev1.Pod) *core.MinRuntime
	// MinRuntimeOfGroup returns that of the members of a group.
	MinRuntimeOfGroup(key types.NamespacedName) *core.MinRuntime
}

// Delegation tells which resources are left to DynamicResources on nodes that have none of them.
type Delegation interface {
	// Delegates reports whether a DeviceClass maps a resource. Unlike what other sources say, it is asked for at every Level.
	Delegates(name corev1.ResourceName) bool
}
