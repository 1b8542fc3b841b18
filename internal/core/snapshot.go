package core

import (
	"math"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/core/fragmentation"
)

// Snapshot describes the cluster at one moment. Decide never changes it, so any number of decisions
// may share one snapshot.
type Snapshot struct {
	// Resources names the dimensions of all Amounts, for messages.
	Resources []string
	// Nodes are the schedulable nodes, in any order: ties are broken by name.
	Nodes []Node
	// Units are the preemption units that run on Nodes, without terminating pods.
	Units []Unit
	// Leaving are the terminating pods: deleted, or ordered to be deleted. They occupy room until
	// they are gone, and waiting for them costs nothing.
	Leaving []Pod
	// Budgets are the disruption budgets. Pods refer to them by index.
	Budgets []Budget
	// Queues are the queues of units and preemptors; nil without queues.
	Queues *Queues

	// ranks and orders replace the units' priorities in a restricted view; nil otherwise.
	ranks  []int32
	orders []int64
	// bands replace the units' priorities in the order of units; nil for none.
	bands bands
	// gangs are the whole gangs whose members are preempted one by one; nil without an index.
	gangs gangIndex
	// losses has the lost work of units; nil if lost work does not count.
	losses *losses
	// columns belong to the Cluster that made the snapshot; nil for a snapshot made by hand.
	columns *columns
}

// Node is one node of a Snapshot.
type Node struct {
	// Name identifies the node.
	Name string
	// Free is the capacity for pods minus the requests of the node's pods, terminating pods
	// included, and minus the holds on the node. It may be negative.
	Free Amounts
	// Allocatable is the total capacity for pods.
	Allocatable Amounts
	// Ref is the caller's handle on the node, for its Oracle. The core never reads it.
	Ref any

	// gone marks a slot of a Cluster that no node uses.
	gone bool
}

// Pod is one running or terminating pod.
type Pod struct {
	Namespace string
	Name      string
	UID       string
	// Node is an index into Snapshot.Nodes, or -1 if the node is not part of the snapshot.
	Node int
	// Request is the room that the pod occupies.
	Request Amounts
	// Start is when the pod started, in nanoseconds since 1970; 0 if it has not.
	Start int64
	// RefusedUntil is the last moment when the pod is protected because its deletion was
	// refused, in nanoseconds since 1970; 0 otherwise.
	RefusedUntil int64
	// Progress is the information about the work that an eviction would lose.
	Progress Progress
	// Budgets are the indices of the disruption budgets that an eviction of this pod draws on.
	Budgets []int
	// Ref is the caller's handle on the pod, for its Oracle. The core never reads it.
	Ref any
}

// Unit is the smallest set of pods that is preempted as a whole: a pod, or a PodGroup in disruption
// mode PodGroup.
type Unit struct {
	// Namespace, Name and UID identify the pod, or the PodGroup.
	Namespace string
	Name      string
	UID       string
	// PodGroup is the UID of the PodGroup that the unit is, or belongs to; empty for a pod without
	// one.
	PodGroup string
	// GroupName is the name of that PodGroup, for messages. Its namespace is the unit's.
	GroupName string
	// Role is the unit's role in its gang; nil for a gang without roles and for other units.
	Role *Role
	// Priority is the priority of the PodGroup, or of a pod without a PodGroup. RaisedBy is the
	// part of it that the PodGroup has as a potential victim only, above its scheduling priority.
	Priority int32
	RaisedBy int64
	// Group is true for a whole PodGroup, false for a single pod.
	Group bool
	// Running is true for a gang member that runs. A member that is only placed does not make a
	// gang whole.
	Running bool
	// Static marks a pod that the kubelet of its node runs without the API server. It is never a
	// victim.
	Static bool
	// Surplus marks a member past the minCount of its gang and past the needs of its role. It is
	// evicted before other units of the same priority.
	Surplus bool
	// Lacks is the number of members that the unit's gang had and lacks now; 0 for other units.
	Lacks int32
	// Stale marks a gang that has lacked members for too long. It is one unit in either disruption
	// mode. Its Priority is one lower than the PodGroup's, so work of equal priority may preempt
	// it.
	Stale bool
	// RefusedUntil is the latest RefusedUntil of its pods; 0 if no deletion was refused.
	RefusedUntil int64
	// Start is when the unit started, in nanoseconds since 1970; 0 if it has not.
	Start int64
	// Toleration protects the unit from low priorities for a time; nil for none.
	Toleration *Toleration
	// Membership holds the unit's queue and its gang's minCount; nil for a unit without either.
	Membership *QueueMembership
	// Since is the time when the clock of min-runtimes began for the unit: when its group was first
	// whole, or when the pod was scheduled. It is in nanoseconds since 1970; 0 if the clock has not
	// begun.
	Since int64
	// MinRuntime protects the unit if its queues have no setting. It has the defaults of the
	// profile that schedules the unit. For work of no profile it is nil, and the preemptor's
	// defaults apply. Units may share equal values.
	MinRuntime *MinRuntime
	// Pods are all running pods of the unit, at least one.
	Pods []Pod
}

// QueueMembership holds the queue and the minCount of units. Units may share equal values.
type QueueMembership struct {
	// Queue is the name of the leaf queue.
	Queue string
	// MinCount is how many members make the gang whole, for a gang that is not preempted as a
	// whole; 0 otherwise.
	MinCount int32
}

// Queues are the queues at the moment of a Snapshot.
type Queues struct {
	Tree *fairshare.Tree
	// Shares are the queues' fair shares, by index in the tree. See [fairshare.Tree.FairShares].
	Shares []Amounts
	// used is the usage of each queue and all queues below it; nil until it is computed.
	used []int64
}

// Toleration exempts a unit from preemption by low priorities (proposal "Preemption Toleration").
type Toleration struct {
	// Below is the lowest priority that is not tolerated.
	Below int32
	// Until is the last moment of the exemption, in nanoseconds since 1970, or Forever.
	Until int64
	// Lasts is the length of the exemption, in nanoseconds, if its clock has not begun and Until is
	// not known; 0 otherwise.
	Lasts int64
	// ClassNotFound is true if the unit's PriorityClass does not exist, so its toleration is
	// unknown.
	ClassNotFound bool
}

// Forever is the end of a protection without an end.
const Forever = math.MaxInt64

// queue returns the name of the unit's leaf queue; empty for none.
func (u *Unit) queue() string {
	if u.Membership == nil {
		return ""
	}
	return u.Membership.Queue
}

// OwnPriority returns the priority of the unit's PodGroup or pod. For a stale gang it is one higher
// than Priority.
func (u *Unit) OwnPriority() int32 {
	if u.Stale {
		return u.Priority + 1
	}
	return u.Priority
}

// Key returns namespace/name, for messages.
func (u *Unit) Key() string { return u.Namespace + "/" + u.Name }

// Budget is one disruption budget.
type Budget struct {
	// Key is the budget's namespace/name.
	Key string
	// Allowed is how many more pods may be evicted before the budget is broken. It may be negative.
	Allowed int32
}

// Preemptor is the pod or gang that needs room.
type Preemptor struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Gang is true for a PodGroup, false for a single pod.
	Gang bool `json:"gang"`
	// Priority is the PodGroup's priority for a gang, otherwise the pod's.
	Priority int32 `json:"priority"`
	// Never is true if the priority class forbids preemption (preemptionPolicy Never).
	Never bool `json:"never,omitempty"`
	// BacksOff is true if the preemptor must preempt nothing for now, because it could not be bound
	// after earlier preemptions.
	BacksOff bool `json:"backsOff,omitempty"`
	// IgnoresTolerations is true if the victims' tolerations do not protect them.
	IgnoresTolerations bool `json:"ignoresTolerations,omitempty"`
	// Now is the time of the decision, in nanoseconds since 1970. Protections are compared with it.
	Now int64 `json:"now,omitempty"`
	// Queue is the name of the leaf queue, empty for none.
	Queue string `json:"queue,omitempty"`
	// MinRuntime protects victims of no profile if their queues have no setting. See
	// Unit.MinRuntime.
	MinRuntime MinRuntime `json:"-"`
	// PodGroup is the UID of the PodGroup that the preemptor is or belongs to. Its members are
	// never victims.
	PodGroup string `json:"podGroup,omitempty"`
	// MinCount is the number of members that must be placed. Further members are surplus: they are
	// placed if there is room, and nothing is preempted for them.
	MinCount int `json:"minCount"`
	// Classes are the members, grouped by identical scheduling needs.
	Classes []Class `json:"-"`
	// Domain confines the members of a gang to one domain; nil for none.
	Domain *RequiredDomain `json:"domain,omitempty"`
	// Preferred are the levels whose domains the members of a gang should share, the nearest first.
	// LevelRule weighs them against cost.
	Preferred []PreferredLevel `json:"preferred,omitempty"`
	LevelRule LevelRule        `json:"levelRule,omitempty"`
	// Nominated are the placements of an earlier decision, in their order. They are used again if
	// they still fit, so that the eviction of earlier victims is not wasted. Members and nodes that
	// no longer exist are skipped.
	Nominated []Placement `json:"-"`
	// Mix is the workload that free devices are kept usable for. Members that fit without victims
	// use the nodes where the fragmentation rises least. If it is nil, they use the fullest nodes.
	Mix *fragmentation.Mix `json:"-"`
	// Order is the order of the criteria that victims are compared by.
	Order Order `json:"order,omitempty"`
	// Cascade says whether the decision evaluates the evictions by replacements of its victims.
	Cascade CascadeMode `json:"cascade,omitempty"`
	// Bands are ranges of priorities that count as equal when victims are compared. They are
	// disjoint, in ascending order, and none has priorities below and above the lowest
	// system-critical one, 2000000000.
	Bands []Band `json:"-"`
	// Devices has the number of milli-devices for one unit of each of Snapshot.Resources, for lost
	// work. If it is empty, no resource is a device.
	Devices Amounts `json:"-"`
	// Restart is the run time that the restart of a pod loses, in nanoseconds, for lost work. It
	// applies to pods without a setting of their own; see [Progress.Restart].
	Restart int64 `json:"-"`
	// Limits bound the search; nil for DefaultLimits.
	Limits *Limits `json:"-"`
}

// MinRuntime is the time that work runs before it may be evicted, if no queue has a setting.
type MinRuntime struct {
	// Preempt applies to preemption by priority, Reclaim to reclaim between queues. Both are in
	// nanoseconds; 0 for none.
	Preempt, Reclaim int64
	// Resolve selects the queue whose setting applies to reclaim. The zero value is ResolveLCA.
	Resolve ResolveMethod
}

// ResolveMethod selects the queue where the upward lookup of the min-runtime for reclaim starts.
type ResolveMethod string

const (
	// ResolveLCA starts one step below the lowest common ancestor of the two leaf queues, in the
	// victim's branch.
	ResolveLCA ResolveMethod = "LCA"
	// ResolveQueue starts at the victim's leaf queue.
	ResolveQueue ResolveMethod = "Queue"
)

// Limits bound the parts of the search that are bin packing. Beyond them, a case counts as one
// without room if simpler ways of packing fail.
type Limits struct {
	// PackingMembers and PackingNodes are the largest gang and the largest cluster whose placements
	// are all tried.
	PackingMembers, PackingNodes int
	// PackingSteps bounds one such search.
	PackingSteps int
}

// DefaultLimits returns limits that keep a decision within milliseconds.
func DefaultLimits() Limits { return Limits{PackingMembers: 16, PackingNodes: 64, PackingSteps: 4000} }

// Key returns namespace/name, for messages.
func (p *Preemptor) Key() string { return p.Namespace + "/" + p.Name }

// Class is a set of members with identical scheduling needs.
type Class struct {
	// Role is the role of the members. A member cannot replace a member of another role. For each
	// role, the search places as many members as there are among the first MinCount members by
	// rank.
	Role string
	// Request is the room that one member occupies.
	Request Amounts
	// Members are the pending pods of this class.
	Members []Member
}

// Member is one pending pod of the preemptor.
type Member struct {
	Name string
	UID  string
	// Rank orders the members of all classes. If only some members can be placed, lower ranks come
	// first.
	Rank int
}
