package core

import (
	"math"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/core/fragmentation"
)

// Snapshot describes the cluster at one moment. Decide never changes it, so any number of decisions
// may share one snapshot.
type Snapshot struct {
	// Resources are the names of the entries of all Amounts, for messages.
	Resources []string
	// Nodes are the schedulable nodes, in any order. The search compares names where nodes are
	// otherwise equal.
	Nodes []Node
	// Units are the preemption units that run on Nodes, without terminating pods.
	Units []Unit
	// Leaving are the terminating pods: deleted pods, and pods that an order will delete. They
	// occupy room until they are gone. Waiting for them costs nothing.
	Leaving []Pod
	// Budgets are the disruption budgets. Pods refer to them by index.
	Budgets []Budget
	// Queues has the queues of units and preemptors; nil without queues.
	Queues *Queues

	// ranks and orders replace the units' priorities in a restricted search; nil in others.
	ranks  []int32
	orders []int64
	// bands replace priorities in the order of units; nil for none.
	bands bands
	// gangs has the gangs that are whole and whose members are preempted one by one; nil without an
	// index.
	gangs gangIndex
	// losses computes the lost work of units; nil if lost work does not count.
	losses *losses
	// stopped has the stops that count, at most maxStops, by unit; nil if stops do not count.
	stopped map[int32]int
	// columns belong to the Cluster that made the snapshot; nil for a snapshot without a Cluster.
	columns *columns
}

// Node is one node of a Snapshot.
type Node struct {
	// Name identifies the node.
	Name string
	// Free is the capacity for pods, minus the requests of all pods on the node (terminating ones
	// included) and minus the reserved room on it. It may be negative.
	Free Amounts
	// Allocatable is the total capacity for pods.
	Allocatable Amounts
	// Ref is the caller's own object for the node, for its Oracle. The core does not read it.
	Ref any

	// gone marks an entry that belongs to no node and that the Cluster may use again.
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
	// Start is the time when the pod started, in nanoseconds since 1970; 0 if it has not started.
	Start int64
	// RefusedUntil is the time until which a refused deletion protects the pod, in nanoseconds
	// since 1970; 0 if no deletion was refused.
	RefusedUntil int64
	// Progress describes the work that the eviction of the pod would lose.
	Progress Progress
	// Budgets are the indexes of the disruption budgets that select the pod.
	Budgets []int
	// Ref is the caller's own object for the pod, for its Oracle. The core does not read it.
	Ref any
}

// Unit is the smallest set of pods that is preempted as a whole: a pod, or a PodGroup in disruption
// mode PodGroup.
type Unit struct {
	// Namespace, Name and UID identify the unit's pod or PodGroup.
	Namespace string
	Name      string
	UID       string
	// PodGroup is the UID of the PodGroup that is the unit, or that the unit's pod belongs to. It
	// is empty for a pod without a PodGroup.
	PodGroup string
	// GroupName is the name of that PodGroup, for messages. Its namespace is the unit's.
	GroupName string
	// Role is the unit's role in its gang; nil for a gang without roles and for other units.
	Role *Role
	// Priority is the priority of the PodGroup, or of a pod without a PodGroup. RaisedBy is its
	// excess over the PodGroup's scheduling priority.
	Priority int32
	RaisedBy int64
	// Group is true for a whole PodGroup, false for a single pod.
	Group bool
	// Running is true for a gang member that runs. A member that only has a node does not count for
	// a whole gang.
	Running bool
	// Static marks a pod that the kubelet of its node runs without the API server. It is never a
	// victim.
	Static bool
	// Surplus marks a member that its gang does not need: past minCount, and past the needs of its
	// role. It is evicted before other units of the same priority.
	Surplus bool
	// Lacks is the number of members that the unit's gang has lost and not replaced; 0 for other
	// units.
	Lacks int32
	// Stale marks a gang that has lacked members for too long. It is one unit in either disruption
	// mode. Its Priority is lower than the PodGroup's by one, so that work of equal priority may
	// preempt it.
	Stale bool
	// Stops has the preemptions that stopped the unit's group. They count for preemptors with
	// CountsStops only.
	Stops Stops
	// RefusedUntil is the latest RefusedUntil of the unit's pods; 0 if no deletion was refused.
	RefusedUntil int64
	// Start is the time when the unit started, in nanoseconds since 1970; 0 if it has not started.
	Start int64
	// Toleration protects the unit from preemptors of low priority, some units for a time only; nil
	// for none.
	Toleration *Toleration
	// Membership holds the unit's queue and its gang's minCount; nil for a unit without either.
	Membership *QueueMembership
	// Since is the start of the run time for min-runtimes: the time when the group was first whole,
	// or when the pod was scheduled. It is in nanoseconds since 1970; 0 if the run time does not
	// count yet.
	Since int64
	// MinRuntime protects the unit if its queues have no setting. It has the defaults of the
	// profile that schedules the unit. If that profile is unknown, it is nil and the preemptor's
	// defaults apply. Units may share equal values.
	MinRuntime *MinRuntime
	// Pods are all running pods of the unit, at least one.
	Pods []Pod
}

// QueueMembership holds the queue and the minCount of units. Units may share equal values.
type QueueMembership struct {
	// Queue is the name of the leaf queue.
	Queue string
	// MinCount is the number of members that make the gang whole, if its members are preempted one
	// by one; 0 otherwise.
	MinCount int32
}

// Queues has the tree of queues and their fair shares at the moment of a Snapshot.
type Queues struct {
	Tree *fairshare.Tree
	// Shares are the queues' fair shares, by index in the tree. See [fairshare.Tree.FairShares].
	Shares []Amounts
	// used is the usage of each queue, with all queues below it included; nil until it is computed.
	used []int64
}

// Toleration protects a unit from preemption by low priorities (proposal "Preemption Toleration").
type Toleration struct {
	// Below is the lowest priority of preemptors that may preempt the unit in spite of the
	// toleration.
	Below int32
	// Until is the end of the protection, in nanoseconds since 1970, or Forever.
	Until int64
	// Lasts is the length of the protection, in nanoseconds, if it has not begun and Until is not
	// known yet; 0 otherwise.
	Lasts int64
	// ClassNotFound is true if the unit's PriorityClass does not exist, so its toleration is
	// unknown.
	ClassNotFound bool
}

// Forever is the time that stands for a protection without an end.
const Forever = math.MaxInt64

// queue returns the name of the unit's leaf queue; empty for none.
func (u *Unit) queue() string {
	if u.Membership == nil {
		return ""
	}
	return u.Membership.Queue
}

// OwnPriority returns the priority of the unit's PodGroup or pod. For a stale gang it is higher
// than Priority by one.
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
	// Allowed is the number of pods that may be evicted before the budget is broken. It may be
	// negative.
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
	// BacksOff is true if the preemptor must not preempt for now, because earlier preemptions for
	// it did not lead to a binding.
	BacksOff bool `json:"backsOff,omitempty"`
	// IgnoresTolerations is true if the victims' tolerations do not protect them.
	IgnoresTolerations bool `json:"ignoresTolerations,omitempty"`
	// Now is the time of the decision, in nanoseconds since 1970. It determines which protections
	// have ended.
	Now int64 `json:"now,omitempty"`
	// Queue is the name of the leaf queue, empty for none.
	Queue string `json:"queue,omitempty"`
	// MinRuntime protects victims of unknown profile if their queues have no setting. See
	// Unit.MinRuntime.
	MinRuntime MinRuntime `json:"-"`
	// PodGroup is the UID of the PodGroup that the preemptor is or belongs to. Its members are
	// never victims.
	PodGroup string `json:"podGroup,omitempty"`
	// MinCount is the number of members that must be placed. Further members are surplus: they are
	// placed if there is room, and no unit is evicted for them.
	MinCount int `json:"minCount"`
	// Classes are the members, grouped by identical scheduling needs.
	Classes []Class `json:"-"`
	// Domain confines the members of a gang to one domain; nil for a gang without that rule.
	Domain *RequiredDomain `json:"domain,omitempty"`
	// Preferred are the levels whose domains the members of a gang should share, the nearest first.
	// LevelRule compares nearer levels with lower costs.
	Preferred []PreferredLevel `json:"preferred,omitempty"`
	LevelRule LevelRule        `json:"levelRule,omitempty"`
	// Nominated are the placements of an earlier decision, in their order. They are used again if
	// they still fit, so that earlier evictions are not wasted. Members and nodes that no longer
	// exist are skipped.
	Nominated []Placement `json:"-"`
	// Mix is the workload that free devices are kept usable for. Members that fit without victims
	// use the nodes where the fragmentation rises least. If it is nil, they use the fullest nodes.
	Mix *fragmentation.Mix `json:"-"`
	// Order selects the criteria for the comparison of victims, and their order.
	Order Order `json:"order,omitempty"`
	// CountsStops adds a criterion before the start of victims. Among sets that otherwise cost the
	// same, it prefers workloads that were stopped less often since they made progress.
	CountsStops bool `json:"countsStops,omitempty"`
	// Cascade selects whether the decision also counts the evictions by the replacements of its
	// victims.
	Cascade CascadeMode `json:"cascade,omitempty"`
	// Bands are ranges of priorities that count as equal when victims are compared. They are
	// disjoint and in ascending order. No band has priorities on both sides of the lowest
	// system-critical one, 2000000000.
	Bands []Band `json:"-"`
	// Devices has, for each of Snapshot.Resources, the number of milli-devices that one unit of it
	// counts as, for lost work. If it is empty, no resource counts as a device.
	Devices Amounts `json:"-"`
	// Restart is the run time that the restart of a pod loses, in nanoseconds, for lost work. It
	// applies to pods without a setting of their own; see [Progress.Restart].
	Restart int64 `json:"-"`
	// Limits bound the search; nil for DefaultLimits.
	Limits *Limits `json:"-"`
}

// MinRuntime is the time that work runs before it may be evicted, if no queue has a setting.
type MinRuntime struct {
	// Preempt applies to preemption by priority, and Reclaim to reclaim between queues. Both are in
	// nanoseconds; 0 for no min-runtime.
	Preempt, Reclaim int64
	// Resolve selects the queue whose setting applies to reclaim. The zero value is ResolveLCA.
	Resolve ResolveMethod
}

// ResolveMethod selects the queue where the upward search for the min-runtime for reclaim starts.
type ResolveMethod string

const (
	// ResolveLCA starts one step below the lowest common ancestor of the two leaf queues, in the
	// victim's branch.
	ResolveLCA ResolveMethod = "LCA"
	// ResolveQueue starts at the victim's leaf queue.
	ResolveQueue ResolveMethod = "Queue"
)

// Limits bound the bin packing in a search. Larger cases use only simple orders of placement. If
// these fail, the case counts as one without room.
type Limits struct {
	// All placements are tried for gangs of at most PackingMembers members in clusters of at most
	// PackingNodes nodes.
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
	// role, the search places as many members as the first MinCount members by rank contain.
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
	// Rank orders the members of all classes. If only some members can be placed, those with lower
	// ranks come first.
	Rank int
}
