package core

import (
	"math"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/core/fragmentation"
)

// Snapshot describes the cluster at one moment. Decide never changes it, so any number of decisions
// may share one snapshot.
type Snapshot struct {
	// Resources are the names of the resources, in the order of the values in all Amounts.
	Resources []string
	// Nodes are the schedulable nodes, in any order. If the search finds two nodes equal, it
	// compares their names.
	Nodes []Node
	// Units are the preemption units that run on Nodes, without terminating pods.
	Units []Unit
	// Leaving are the terminating pods: deleted pods, and pods that the scheduler has decided to
	// delete. They occupy room until they are gone. In the search, waiting for them has no cost.
	Leaving []Pod
	// Budgets are the disruption budgets. Pods refer to them by index.
	Budgets []Budget
	// Queues has the queues of units and preemptors; nil without queues.
	Queues *Queues

	// ranks and orders replace the units' priorities in a restricted search; nil in other searches.
	ranks  []int32
	orders []int64
	// bands replace priorities in the order of units; nil for none.
	bands bands
	// gangs has the whole gangs whose members are preempted one by one; nil until it is computed.
	gangs gangIndex
	// losses computes the lost work of units; nil if the search does not compare lost work.
	losses *losses
	// stopped maps a unit to the number of its stops that count, at most maxStops; nil if the
	// search does not compare stops.
	stopped map[int32]int
	// columns belong to the Cluster that created the snapshot; nil for a snapshot without a
	// Cluster.
	columns *columns
}

// Node is one node of a Snapshot.
type Node struct {
	// Name identifies the node.
	Name string
	// Free is Allocatable minus the requests of all pods on the node, terminating pods included,
	// and minus the reserved room. It may be negative.
	Free Amounts
	// Allocatable is the total capacity for pods.
	Allocatable Amounts
	// Ref is an object of the caller for its Oracle. The core does not read it.
	Ref any

	// gone is true for an entry without a node. The Cluster may use the entry again.
	gone bool
}

// Pod is one running or terminating pod.
type Pod struct {
	Namespace string
	Name      string
	UID       string
	// Node is an index into Snapshot.Nodes; -1 if the node is not part of the snapshot.
	Node int
	// Request is the room that the pod occupies.
	Request Amounts
	// Start is the time when the pod started, in nanoseconds since 1970; 0 if it has not started.
	Start int64
	// RefusedUntil is the end of the protection after the API server rejected the deletion of the
	// pod. It is in nanoseconds since 1970; 0 if no deletion was rejected.
	RefusedUntil int64
	// Progress describes the work that the eviction of the pod would lose.
	Progress Progress
	// Budgets are the indexes of the disruption budgets that select the pod.
	Budgets []int
	// Ref is an object of the caller for its Oracle. The core does not read it.
	Ref any
}

// Unit is a preemption unit, the smallest set of pods that is evicted as a whole. It is a pod, or a
// PodGroup in disruption mode PodGroup.
type Unit struct {
	// Namespace, Name and UID identify the unit's pod or PodGroup.
	Namespace string
	Name      string
	UID       string
	// PodGroup is the UID of the PodGroup that the unit is, or that the unit's pod belongs to. It
	// is empty for a pod without a PodGroup.
	PodGroup string
	// GroupName is the name of the unit's PodGroup, for messages. Its namespace is the unit's
	// namespace.
	GroupName string
	// Role is the role of a gang member; nil for a gang without roles and for other units.
	Role *Role
	// Priority is the priority of the PodGroup, or of a pod without a PodGroup. RaisedBy is the
	// difference between Priority and the PodGroup's scheduling priority.
	Priority int32
	RaisedBy int64
	// Group is true for a whole PodGroup, false for a single pod.
	Group bool
	// Running is true for a gang member that runs. A gang is whole by its running members. Only if
	// too few members run, other members with a node count too.
	Running bool
	// Static is true for a static pod, which the kubelet of its node runs from a local file. It is
	// never a victim.
	Static bool
	// Local is true for a pod whose replacement can only run on the same node, such as the pod of a
	// DaemonSet. Among otherwise equal units, other pods are evicted first, because their
	// replacements can run elsewhere.
	Local bool
	// Surplus is true for a surplus member: its gang has more than minCount members, and enough
	// other members with the same role. Surplus members are evicted before other units of equal
	// priority.
	Surplus bool
	// Lacks is the number of members that the unit's gang has lost and that were not replaced.
	Lacks int32
	// Stale is true for a gang that has lacked members for too long. It is one unit in any
	// disruption mode. Its Priority is one lower than the PodGroup's, so that work of equal
	// priority may preempt it.
	Stale bool
	// Stops counts the preemptions that stopped the unit's group. Searches for preemptors without
	// CountsStops ignore it.
	Stops Stops
	// RefusedUntil is the latest RefusedUntil of the unit's pods; 0 if no deletion was rejected.
	RefusedUntil int64
	// Start is the time when the unit started, in nanoseconds since 1970; 0 if it has not started.
	Start int64
	// Toleration protects the unit from preemptors of low priority, for a time or forever; nil for
	// none.
	Toleration *Toleration
	// Membership has the unit's queue and its gang's minCount; nil for a unit with neither.
	Membership *QueueMembership
	// Since is the start of the run time for min-runtimes, in nanoseconds since 1970. It is the
	// time when the group was first whole, or when the pod was scheduled. It is 0 if the run time
	// does not count yet.
	Since int64
	// MinRuntime has the defaults of the scheduler profile of the unit. They protect the unit if
	// its queues have no setting. It is nil if the profile is unknown. In that case the preemptor's
	// defaults apply. Units may share one value.
	MinRuntime *MinRuntime
	// Pods are all running pods of the unit, at least one.
	Pods []Pod
}

// QueueMembership has the queue and the minCount of a unit. Units may share one value.
type QueueMembership struct {
	// Queue is the name of the leaf queue.
	Queue string
	// MinCount is the minCount of a gang whose members are preempted one by one; 0 for other units.
	MinCount int32
}

// Queues has the tree of queues and their fair shares at the time of a Snapshot.
type Queues struct {
	Tree *fairshare.Tree
	// Shares are the queues' fair shares, by index in the tree. See [fairshare.Tree.FairShares].
	Shares []Amounts
	// used is the usage of each queue, including the queues below it; nil until it is computed.
	used []int64
}

// Toleration protects a unit from preemption by low priorities (proposal "Preemption Toleration").
type Toleration struct {
	// Below is the lowest priority of preemptors that may preempt the unit despite the toleration.
	Below int32
	// Until is the end of the protection, in nanoseconds since 1970, or Forever.
	Until int64
	// Lasts is the length of a protection that has not begun, in nanoseconds. Until is not known in
	// this case. Lasts is 0 for other tolerations.
	Lasts int64
	// ClassNotFound is true if the unit's PriorityClass does not exist, so its toleration is
	// unknown.
	ClassNotFound bool
	// Never is true if the end of the protection comes from the disruption mode Never of a part of
	// a tree.
	Never bool
}

// IsForever reports whether the protection has no end. A protection that has not begun has an end.
func (t *Toleration) IsForever() bool { return t.Until == Forever && t.Lasts == 0 }

// Forever is the value of Until for a protection without an end.
const Forever = math.MaxInt64

// queue returns the name of the unit's leaf queue; empty for none.
func (u *Unit) queue() string {
	if u.Membership == nil {
		return ""
	}
	return u.Membership.Queue
}

// OwnPriority returns the priority of the unit's PodGroup or pod. For a stale gang, this is
// Priority + 1.
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
	// Allowed is the number of evictions that the budget still allows. It may be negative.
	Allowed int32
}

// Preemptor is the pod or gang that needs room.
type Preemptor struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Gang is true for a PodGroup, false for a single pod.
	Gang bool `json:"gang"`
	// Priority is the priority of the PodGroup, or of a single pod.
	Priority int32 `json:"priority"`
	// Never is true if the priority class forbids preemption (preemptionPolicy Never).
	Never bool `json:"never,omitempty"`
	// FurtherGroup is true for a group of a tree that already has minGroupCount other groups.
	// Nothing is preempted for such a group, so Never is also true, regardless of its
	// PriorityClass.
	FurtherGroup bool `json:"furtherGroup,omitempty"`
	// BacksOff is true if the preemptor must not preempt for now, because earlier preemptions for
	// it did not lead to a binding.
	BacksOff bool `json:"backsOff,omitempty"`
	// IgnoresTolerations is true if tolerations do not protect units from this preemptor.
	IgnoresTolerations bool `json:"ignoresTolerations,omitempty"`
	// Now is the time of the decision, in nanoseconds since 1970. Protections that end before Now
	// do not apply.
	Now int64 `json:"now,omitempty"`
	// Queue is the name of the leaf queue, empty for none.
	Queue string `json:"queue,omitempty"`
	// MinRuntime has the defaults of the preemptor's profile. They apply to units without their own
	// defaults; see Unit.MinRuntime.
	MinRuntime MinRuntime `json:"-"`
	// PodGroup is the UID of the PodGroup that the preemptor is or belongs to. Members of this
	// PodGroup are never victims.
	PodGroup string `json:"podGroup,omitempty"`
	// MinCount is the number of members that must be placed. Further members are surplus. They are
	// placed if there is room, but no unit is evicted for them.
	MinCount int `json:"minCount"`
	// Classes are the members to place, grouped by equal scheduling needs.
	Classes []Class `json:"-"`
	// Domain is the level that the gang requires: all members are in one of its domains. It is nil
	// for a gang without such a level.
	Domain *TopologyLevel `json:"domain,omitempty"`
	// Preferred are the levels whose domains the members of a gang should share, the nearest first.
	Preferred []TopologyLevel `json:"preferred,omitempty"`
	// LevelRule selects between a nearer level and a lower cost.
	LevelRule LevelRule `json:"levelRule,omitempty"`
	// Nominated are the placements of an earlier decision, in their original order. The search uses
	// them if they still fit, so that earlier evictions were not in vain. It skips members and
	// nodes that no longer exist.
	Nominated []Placement `json:"-"`
	// Mix is a typical workload. Members that fit without victims use the nodes where the
	// fragmentation for this workload increases least. If it is nil, they use the fullest nodes.
	Mix *fragmentation.Mix `json:"-"`
	// Order selects the criteria for the comparison of sets of victims, and the order of the
	// criteria.
	Order Order `json:"order,omitempty"`
	// CountsStops adds the criterion Score.Repeated: among sets of equal cost, the search prefers
	// victims that were stopped less often since they last made progress.
	CountsStops bool `json:"countsStops,omitempty"`
	// Cascade selects whether the decision also counts the evictions by the replacements of its
	// victims.
	Cascade CascadeMode `json:"cascade,omitempty"`
	// Bands are ranges of priorities that count as equal when victims are compared. They are
	// disjoint and in ascending order. A band with a system-critical priority, which is
	// 2000000000 or more, must contain no lower one.
	Bands []Band `json:"-"`
	// Devices has, for each of Snapshot.Resources, the milli-devices that one unit of the resource
	// counts as for lost work. If it is empty, no resource counts as a device.
	Devices Amounts `json:"-"`
	// Restart is the run time that the restart of a pod loses, in nanoseconds, for lost work. It
	// applies to pods whose [Progress.Restart] is 0.
	Restart int64 `json:"-"`
	// Step is the unit of run time for lost work, in nanoseconds: the comparison of victims counts
	// only whole steps. If it is 0, each second counts.
	Step int64 `json:"-"`
	// PodCost is the work of one device for this time, in nanoseconds. The comparison of victims
	// adds it for each pod that has run for at least a Step since its last checkpoint.
	PodCost int64 `json:"-"`
	// Limits are the limits of the search; nil for DefaultLimits.
	Limits *Limits `json:"-"`
}

// MinRuntime is the time that work must have run before it may be evicted, if no queue has a
// setting.
type MinRuntime struct {
	// Preempt applies to preemption by priority. Reclaim applies to reclaim between queues. They
	// are in nanoseconds; 0 means no min-runtime.
	Preempt, Reclaim int64
	// Resolve selects the queue whose setting applies to reclaim. The zero value means ResolveLCA.
	Resolve ResolveMethod
}

// ResolveMethod selects the first queue to look at for the min-runtime for reclaim. The search
// continues with the ancestors of this queue.
type ResolveMethod string

const (
	// ResolveLCA selects the queue just below the lowest common ancestor of the preemptor's and the
	// victim's leaf queue, on the victim's side.
	ResolveLCA ResolveMethod = "LCA"
	// ResolveQueue selects the victim's leaf queue.
	ResolveQueue ResolveMethod = "Queue"
)

// Limits are the limits for trying all placements of a gang. In larger cases, the search tries only
// simple orders of placement. If these fail, the gang counts as not fitting.
type Limits struct {
	// PackingMembers is the maximum number of members. PackingNodes is the maximum number of nodes.
	PackingMembers, PackingNodes int
	// PackingSteps is the maximum number of steps of one search.
	PackingSteps int
}

// DefaultLimits returns limits that keep the time of a decision within milliseconds.
func DefaultLimits() Limits { return Limits{PackingMembers: 16, PackingNodes: 64, PackingSteps: 4000} }

// Key returns namespace/name, for messages.
func (p *Preemptor) Key() string { return p.Namespace + "/" + p.Name }

// Class is a set of members with equal scheduling needs.
type Class struct {
	// Role is the role of the members. Members can replace only members of the same role. For each
	// role, the search must place as many members as are among the first MinCount members by rank.
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
	// Rank orders the members of all classes. If not all members can be placed, the search prefers
	// members with lower ranks.
	Rank int
}
