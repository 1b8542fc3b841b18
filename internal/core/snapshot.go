package core

import (
	"math"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Snapshot is a picture of the cluster at one moment. Decide reads it and never changes it, so one snapshot
// may serve any number of decisions at once.
type Snapshot struct {
	// Resources names the dimensions of every Amounts, for messages.
	Resources []string
	// Nodes are the nodes that may take work, in any order: ties are broken by name.
	Nodes []Node
	// Units are the preemption units that run on Nodes, terminating pods left out.
	Units []Unit
	// Leaving are the pods that are terminating. They occupy room until they are gone, at no cost.
	Leaving []Pod
	// Budgets are the disruption budgets that pods refer to by index.
	Budgets []Budget
	// Queues are the queues that units and preemptors are in; nil where there are none.
	Queues *Queues

	// ranks and orders stand for the units' priorities in a restricted view; nil everywhere else.
	ranks  []int32
	orders []int64
	// gangs are the whole gangs of members that are preempted one by one; nil where they have not
	// been looked for.
	gangs gangIndex
	// columns are kept by the Cluster that the snapshot belongs to; nil for a snapshot made by hand.
	columns *columns
}

// Node is one place for pods.
type Node struct {
	// Name identifies the node.
	Name string
	// Free is what the node's pods, leaving ones included, and held room leave over. It may be negative.
	Free Amounts
	// Allocatable is what the node has in all.
	Allocatable Amounts
	// Ref is the caller's own handle on the node, for its Oracle. The core never looks at it.
	Ref any

	// gone marks a slot of a Cluster that no node holds.
	gone bool
}

// Pod is one running or leaving pod.
type Pod struct {
	Namespace string
	Name      string
	UID       string
	// Node is an index into Snapshot.Nodes, or -1 where the node is not part of the snapshot.
	Node int
	// Request is what the pod occupies.
	Request Amounts
	// Start is when the pod started, in nanoseconds since 1970; 0 if it has not.
	Start int64
	// RefusedUntil is the last moment at which the pod is left alone because its deletion was refused, in nanoseconds since 1970; 0 for
	// others.
	RefusedUntil int64
	// Budgets are the indices of the disruption budgets that an eviction of this pod draws on.
	Budgets []int
	// Ref is the caller's own handle on the pod, for its Oracle. The core never looks at it.
	Ref any
}

// Unit is what is preempted as a whole: a pod, or a PodGroup in disruption mode PodGroup.
type Unit struct {
	// Namespace, Name and UID are those of the pod, or of the PodGroup.
	Namespace string
	Name      string
	UID       string
	// PodGroup is the UID of the PodGroup that the unit is, or belongs to; empty for a pod without one.
	PodGroup string
	// GroupName is the name of that PodGroup, for messages. Its namespace is the unit's.
	GroupName string
	// Role is the unit's role in its gang; nil for a gang without roles, and for others.
	Role *Role
	// Priority is the unit's: the PodGroup's where there is one, the pod's own otherwise.
	Priority int32
	// Group tells a whole PodGroup from a single pod.
	Group bool
	// Running is true for a member of a gang that is running, not just placed. Others do not make a gang whole.
	Running bool
	// Static marks a pod that the kubelet of its node runs by itself. It is never taken.
	Static bool
	// Surplus marks a member past the minCount of its gang, and past the needs of its role: it goes
	// before others of the same priority.
	Surplus bool
	// Lacks is how many members the unit's gang lacks that it had; 0 for others.
	Lacks int32
	// Stale marks a gang that has lacked members for too long, which is one unit then in either
	// disruption mode. Its Priority is one lower than that of the PodGroup: work of equal priority
	// may take it.
	Stale bool
	// RefusedUntil is the latest of its pods'; 0 where no deletion was refused.
	RefusedUntil int64
	// Start is when the unit started, in nanoseconds since 1970; 0 if it has not.
	Start int64
	// Toleration protects the unit from low priorities for a time; nil where nothing does.
	Toleration *Toleration
	// QueueMembership is what the unit has of its queue and its gang; nil for a unit without either.
	Membership *QueueMembership
	// Since is when the clock of min-runtimes began for the unit, in nanoseconds since 1970: when its group was
	// first whole, or the pod was scheduled. 0 where it has not begun.
	Since int64
	// MinRuntime protects the unit where its queues say nothing of their own: the defaults of the
	// profile that schedules it. It is nil for work of no profile, which the preemptor's defaults
	// protect. Equal ones may be shared.
	MinRuntime *MinRuntime
	// Pods are all pods of the unit that are running, at least one.
	Pods []Pod
}

// QueueMembership is what units have of their queue and their gang. Equal ones may be shared.
type QueueMembership struct {
	// Queue is the name of the leaf queue.
	Queue string
	// MinCount is how many members make the gang whole, for one that is not preempted as a whole; 0 for others.
	MinCount int32
}

// Queues are the queues as they stand at the moment of a Snapshot.
type Queues struct {
	Tree *fairshare.Tree
	// Shares are the queues' fair shares, by index in the tree; see [fairshare.Tree.FairShares].
	Shares []Amounts
	// used is what runs in the queues and below them; nil to be worked out.
	used []int64
}

// Toleration exempts a unit from preemption by low priorities (proposal "Preemption Toleration").
type Toleration struct {
	// Below is the lowest priority that is not tolerated.
	Below int32
	// Until is the last moment of it, in nanoseconds since 1970, or Forever.
	Until int64
	// Lasts is how long it lasts, in nanoseconds, where its clock has not begun and Until is not known; 0 elsewhere.
	Lasts int64
	// ClassNotFound is true where the unit's PriorityClass does not exist, so that what it tolerates is not known.
	ClassNotFound bool
}

// Forever is the end of a protection that has none.
const Forever = math.MaxInt64

// queue is the name of the unit's leaf queue, empty for none.
func (u *Unit) queue() string {
	if u.Membership == nil {
		return ""
	}
	return u.Membership.Queue
}

// OwnPriority is the priority of the unit's PodGroup or pod, of which a stale gang stands one
// lower.
func (u *Unit) OwnPriority() int32 {
	if u.Stale {
		return u.Priority + 1
	}
	return u.Priority
}

// Key is the unit's name for people: namespace/name.
func (u *Unit) Key() string { return u.Namespace + "/" + u.Name }

// Budget is one disruption budget.
type Budget struct {
	// Key is the budget's namespace/name.
	Key string
	// Allowed is how many more pods may be evicted before the budget is broken; it may be negative.
	Allowed int32
}

// Preemptor is the pod or gang that looks for room.
type Preemptor struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Gang tells a PodGroup from a single pod.
	Gang bool `json:"gang"`
	// Priority is the preemptor's: the PodGroup's for a gang.
	Priority int32 `json:"priority"`
	// Never is true where the priority class forbids preempting (preemptionPolicy Never).
	Never bool `json:"never,omitempty"`
	// BacksOff is true where the preemptor may preempt nothing yet, because it could not be bound after earlier preemptions.
	BacksOff bool `json:"backsOff,omitempty"`
	// IgnoresTolerations is true where the victims' tolerations do not count.
	IgnoresTolerations bool `json:"ignoresTolerations,omitempty"`
	// Now is the time of the decision, in nanoseconds since 1970, against which protections are held.
	Now int64 `json:"now,omitempty"`
	// Queue is the name of the leaf queue, empty for none.
	Queue string `json:"queue,omitempty"`
	// MinRuntime protects victims of no profile whose queues say nothing of their own; see
	// Unit.MinRuntime.
	MinRuntime MinRuntime `json:"-"`
	// PodGroup is the UID of the PodGroup that the preemptor is or belongs to. Its members are never victims.
	PodGroup string `json:"podGroup,omitempty"`
	// MinCount is how many of the members must be placed. Members past it are surplus: they are placed where
	// room is left, and nothing is preempted for them.
	MinCount int `json:"minCount"`
	// Classes are the members, grouped by identical scheduling needs.
	Classes []Class `json:"-"`
	// Nominated are the places of an earlier decision, in their order. They are taken again where they hold, so that
	// victims which have gone for them have not gone for nothing. Members and nodes that are not there any more are
	// passed over.
	Nominated []Placement `json:"-"`
	// Limits bound the search; nil for DefaultLimits.
	Limits *Limits `json:"-"`
}

// MinRuntime is how long work runs before it may be taken, where no queue says otherwise.
type MinRuntime struct {
	// Preempt holds where units go by priority, Reclaim between queues. Both are in nanoseconds, 0 for none.
	Preempt, Reclaim int64
	// Resolve says whose setting counts for reclaim. The zero value is ResolveLCA.
	Resolve ResolveMethod
}

// ResolveMethod says from which queue on the way up the min-runtime for reclaim is looked for.
type ResolveMethod string

const (
	// ResolveLCA starts one step below the lowest common ancestor of the two leaf queues, in the victim's branch.
	ResolveLCA ResolveMethod = "LCA"
	// ResolveQueue starts at the victim's leaf queue.
	ResolveQueue ResolveMethod = "Queue"
)

// Limits bound the parts of the search that are bin packing: beyond them, a case in which simpler ways of
// packing fail counts as one without room.
type Limits struct {
	// PackingMembers and PackingNodes are the largest gang and cluster whose placements are searched through.
	PackingMembers, PackingNodes int
	// PackingSteps bounds one such search.
	PackingSteps int
}

// DefaultLimits are good for a decision in milliseconds.
func DefaultLimits() Limits { return Limits{PackingMembers: 16, PackingNodes: 64, PackingSteps: 4000} }

// Key is the preemptor's name for people: namespace/name.
func (p *Preemptor) Key() string { return p.Namespace + "/" + p.Name }

// Class is a set of members with identical scheduling needs.
type Class struct {
	// Role tells members apart of which one cannot stand in for another: of each role, as many have to be placed as there are among the first
	// MinCount by rank.
	Role string
	// Request is what one member occupies.
	Request Amounts
	// Members are the pending pods of this class.
	Members []Member
}

// Member is one pending pod of the preemptor.
type Member struct {
	Name string
	UID  string
	// Rank orders members over all classes: where only some can be placed, lower ranks go first.
	Rank int
}
