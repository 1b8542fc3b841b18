package core

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Cluster keeps, between decisions, the data that a search reads. So the cost of a decision depends
// on the changes since the last decision, not on the size of the cluster. The caller reports
// changed nodes one at a time and requests a [Snapshot] for each decision. Snapshots share the data
// of the Cluster and copy nothing.
//
// A Snapshot is valid until the next change of the Cluster. A removed unit leaves an entry without
// pods in Units. Only one goroutine may use a Cluster at a time.
type Cluster struct {
	s Snapshot
	c columns
	// slots maps the name of a node to its index in s.Nodes. idleNodes has the indexes of removed
	// nodes, and idleUnits the indexes of removed units. New nodes and units use them again.
	slots                map[string]int32
	idleNodes, idleUnits []int32
	// onNode lists the indexes of the units with a pod on a node, by the node's index.
	onNode [][]int32
	// whole maps the UID of each PodGroup that is preempted as a whole to its unit.
	whole map[string]int32
	// undated has the units of groups without a known start. The start of such a unit is the
	// earliest start of a member.
	undated map[int32]bool
	// side is the array behind the pod lists of one-pod units. All such units of a node share it,
	// to save memory.
	side []Pod
	// going has the terminating pods, by node index.
	going map[int32][]Pod
	// dirty has the indexes of nodes whose data in c is outdated.
	dirty                     map[int32]bool
	namesChanged, goingChange bool
	// guarded is the number of pods with disruption budgets. spanning is the number of units with
	// several pods.
	guarded, spanning int
	// queues are the queues of units, with their usage; nil without queues.
	queues *Queues
	// uneven has the UIDs of the gangs whose surplus members must be computed again.
	uneven map[string]bool
	// gangs has the gangs with at least minCount members whose members are preempted one by one.
	gangs gangIndex
	// held saves the free room of nodes before the last call of Snapshot subtracted Holds from it.
	held []room
	// known has the request vectors in use, by their encoded values. Pods with equal requests share
	// one vector.
	known map[string]Amounts
}

// NodeState is the complete state of a node.
type NodeState struct {
	Node
	// Pods are the running pods on the node. Leaving are its terminating pods. The Node field of
	// each pod is ignored.
	Pods    []RunningPod
	Leaving []Pod
}

// RunningPod is a pod that runs on a node. The Cluster creates the pod's Unit from these fields.
type RunningPod struct {
	Pod
	// Priority is the pod's own priority. For a pod in a group, the priority of the group applies
	// instead.
	Priority int32
	// Toleration is the pod's own toleration. For a pod in a group, the fields Toleration,
	// Membership, Since and MinRuntime of the group apply instead.
	Toleration *Toleration
	Membership *QueueMembership
	// Since is the time when the pod was scheduled, in nanoseconds since 1970; 0 for a pod that is
	// not scheduled.
	Since int64
	// Running is true once the pod's containers have been started.
	Running bool
	// Static is true for a static pod: the kubelet of its node runs it from a local file. A static
	// pod has no group.
	Static bool
	// Local is true for a pod whose replacement can only run on the same node.
	Local bool
	// Role is the pod's role in its gang; nil for a gang without roles and for other pods.
	Role *Role
	// MinRuntime has the min-runtimes of the scheduler profile of the pod; nil for none.
	MinRuntime *MinRuntime
	// Group is the pod's PodGroup, nil for none.
	Group *Group
}

// Group is a PodGroup, with the properties that all its pods share.
type Group struct {
	Namespace, Name, UID string
	// Workload is the UID of the root of the tree of groups that this group belongs to; "" for a
	// group outside of a tree. The members of a tree are one workload and never evict each other.
	Workload string
	// Priority is the priority of all members as potential victims. RaisedBy is the difference
	// between Priority and the group's scheduling priority; 0 for most groups.
	Priority int32
	RaisedBy int64
	// Whole is true in disruption mode PodGroup.
	Whole bool
	// Lacks is the number of members that the gang has lost and that were not replaced.
	Lacks int32
	// Stale is true if the gang has lacked members for too long. A stale gang is evicted as one
	// unit. Its priority as a victim is then Priority - 1.
	Stale bool
	// Stops counts the preemptions that stopped the group.
	Stops Stops
	// Start is the time when the group was first whole: it had minCount members. It is in
	// nanoseconds since 1970. If it is 0, the start of the earliest member applies.
	Start int64
	// Toleration and Membership apply to all members.
	Toleration *Toleration
	Membership *QueueMembership
	// Since is the start of the run time for min-runtimes, in nanoseconds since 1970; 0 if the run
	// time does not count yet.
	Since int64
	// MinRuntime has the min-runtimes of the scheduler profile of the members; nil for none.
	MinRuntime *MinRuntime
}

// Hold is room on a node that is reserved for other pods. The preemptor of a Snapshot cannot use
// it, because these pods have precedence.
type Hold struct {
	// Node is the node's name; empty for a hold that only adds to the usage of a queue.
	Node    string
	Request Amounts
	// Queue is the leaf queue that the request is added to; empty for none.
	Queue string
}

// NewCluster returns an empty cluster with the given resources. They cannot change: to add a
// resource, create a new Cluster.
func NewCluster(resources []string) *Cluster {
	return &Cluster{
		s: Snapshot{Resources: slices.Clone(resources)},
		c: columns{
			lent: &sync.Pool{},
			dims: len(resources), perPriority: make(map[int32]int), groups: make(map[string][]int32),
			having: newTraitIndex(), minRuntimes: make(minRuntimeIndex), losses: newLossTables(),
		},
		slots: make(map[string]int32), whole: make(map[string]int32), undated: make(map[int32]bool),
		going: make(map[int32][]Pod), gangs: make(gangIndex), dirty: make(map[int32]bool), uneven: make(map[string]bool), known: make(map[string]Amounts),
	}
}

// Resources returns the names of the resources, in the order of the values in all Amounts.
func (c *Cluster) Resources() []string { return c.s.Resources }

// SetBudgets replaces the disruption budgets. Pods refer to a budget by its index. A budget must
// keep its index until SetNode has replaced every pod that refers to it.
func (c *Cluster) SetBudgets(budgets []Budget) {
	n := len(c.s.Budgets)
	c.s.Budgets = append(c.s.Budgets[:0:0], budgets...)
	c.padBudgets(n)
}

// padBudgets grows the list of budgets to n entries. A pod may refer to a budget before SetBudgets
// adds it; until then, the new entry allows every eviction.
func (c *Cluster) padBudgets(n int) {
	for len(c.s.Budgets) < n {
		c.s.Budgets = append(c.s.Budgets, Budget{Allowed: math.MaxInt32})
	}
}

// SetQueues replaces the tree of queues and their fair shares. The tree and the shares must have
// the resources of the cluster. A nil tree means that there are no queues. The call is cheap if
// only the shares changed.
func (c *Cluster) SetQueues(tree *fairshare.Tree, shares []Amounts) {
	switch {
	case tree == nil:
		c.queues, c.c.index = nil, nil
	case c.queues != nil && c.queues.Tree == tree:
		c.queues.Shares = shares
	default:
		c.s.Queues = &Queues{Tree: tree}
		c.c.index = newLeafIndex(&c.s)
		c.queues = &Queues{Tree: tree, Shares: shares, used: usedBy(&c.s, c.c.index.leaves)}
		c.s.Queues = nil
	}
}

// SetNode adds a node or replaces its state. If it returns an error, the node is unchanged. The
// error wraps ErrBadInput.
func (c *Cluster) SetNode(st *NodeState) error {
	if err := c.check(st); err != nil {
		return err
	}
	slot, ok := c.slots[st.Name]
	if ok {
		c.empty(slot)
	} else {
		slot = c.newSlot(st.Name)
	}
	n := &c.s.Nodes[slot]
	n.Free, n.Allocatable, n.Ref = slices.Clone(st.Free), c.intern(st.Allocatable), st.Ref
	c.side = make([]Pod, 0, countAlone(st.Pods))
	for i := range st.Pods {
		c.addPod(slot, &st.Pods[i])
	}
	c.side = nil
	if len(st.Leaving) > 0 {
		pods := slices.Clone(st.Leaving)
		for i := range pods {
			pods[i].Node = int(slot)
		}
		c.going[slot], c.goingChange = pods, true
	}
	c.dirty[slot] = true
	return nil
}

// countAlone returns the number of pods that are units by themselves.
func countAlone(pods []RunningPod) (count int) {
	for i := range pods {
		if g := pods[i].Group; g == nil || !g.Whole {
			count++
		}
	}
	return count
}

// RemoveNode removes a node and its pods.
func (c *Cluster) RemoveNode(name string) {
	slot, ok := c.slots[name]
	if !ok {
		return
	}
	c.empty(slot)
	delete(c.slots, name)
	delete(c.dirty, slot)
	c.s.Nodes[slot] = Node{gone: true}
	c.c.nodes[slot], c.c.sound[slot] = nodeColumn{}, false
	c.idleNodes = append(c.idleNodes, slot)
	c.namesChanged = true
}

// Snapshot returns the current state of the cluster, with the room in held counted as used. It is
// valid until the next change of the Cluster or the next call of Snapshot. Snapshots copy nothing:
// the held room is subtracted from the data of the Cluster itself, and the next call of Snapshot
// adds it back.
func (c *Cluster) Snapshot(held ...Hold) *Snapshot {
	c.letGo()
	c.refresh()
	for _, h := range held {
		if slot, ok := c.slots[h.Node]; ok && len(h.Request) == c.c.dims {
			c.hold(slot, h.Request)
		}
	}
	s := c.s
	s.columns, s.Queues, s.gangs = &c.c, c.queuesWith(held), c.gangs
	return &s
}

// queuesWith returns the queues, with the reserved room added to their usage.
func (c *Cluster) queuesWith(held []Hold) *Queues {
	if c.queues == nil {
		return nil
	}
	q := *c.queues
	cloned := false
	for _, h := range held {
		leaf := q.Tree.LeafOf(h.Queue)
		if leaf < 0 || len(h.Request) != c.c.dims {
			continue
		}
		if !cloned {
			q.used, cloned = slices.Clone(q.used), true
		}
		q.Tree.Use(q.used, leaf, h.Request, 1)
	}
	return &q
}

// room is a copy of a node's free room before a Hold was subtracted.
type room struct {
	slot        int32
	free, later []int64
}

// hold subtracts a request from a node's free room and saves the original.
func (c *Cluster) hold(slot int32, request Amounts) {
	free, later := c.room(slot)
	c.held = append(c.held, room{slot: slot, free: slices.Clone(free), later: slices.Clone(later)})
	for r, v := range request {
		free[r] = roomAmount(fairshare.Add(free[r], -fairshare.Used(v)))
		later[r] = roomAmount(fairshare.Add(later[r], -fairshare.Used(v)))
	}
}

// letGo undoes all calls of hold, the last one first.
func (c *Cluster) letGo() {
	for i := range slices.Backward(c.held) {
		h := &c.held[i]
		free, later := c.room(h.slot)
		copy(free, h.free)
		copy(later, h.later)
	}
	clear(c.held)
	c.held = c.held[:0]
}

func (c *Cluster) room(slot int32) (free, later []int64) {
	at := int(slot) * c.c.dims
	return c.c.free[at : at+c.c.dims], c.c.later[at : at+c.c.dims]
}

func (c *Cluster) check(st *NodeState) error {
	dims := len(c.s.Resources)
	if err := validateNode(&st.Node, dims); err != nil {
		return err
	}
	pod := func(p *Pod) error {
		if len(p.Request) != dims {
			return fmt.Errorf("%w: pod %s/%s has %d amounts for %d resources",
				ErrBadInput, p.Namespace, p.Name, len(p.Request), dims)
		}
		return validateBudgets(p, math.MaxInt32)
	}
	for i := range st.Pods {
		if err := pod(&st.Pods[i].Pod); err != nil {
			return err
		}
	}
	for i := range st.Leaving {
		if err := pod(&st.Leaving[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) newSlot(name string) int32 {
	c.namesChanged = true
	var slot int32
	if n := len(c.idleNodes); n > 0 {
		slot, c.idleNodes = c.idleNodes[n-1], c.idleNodes[:n-1]
	} else {
		slot = int32(len(c.s.Nodes))
		c.s.Nodes = append(c.s.Nodes, Node{})
		c.onNode = append(c.onNode, nil)
		c.c.free = append(c.c.free, make([]int64, c.c.dims)...)
		c.c.later = append(c.c.later, make([]int64, c.c.dims)...)
		c.c.grow(1)
	}
	c.s.Nodes[slot] = Node{Name: name}
	c.slots[name] = slot
	return slot
}

// refresh rebuilds the outdated columns.
func (c *Cluster) refresh() {
	c.tellSurplus()
	b := &columnBuilder{s: &c.s, dims: c.c.dims}
	c.c.sites = append(c.c.sites, make([]site, len(c.s.Units)-len(c.c.sites))...)
	var entries []entry
	for slot := range c.dirty {
		b.rows, entries = b.rows[:0], entries[:0]
		for _, at := range c.onNode[slot] {
			pods := c.s.Units[at].Pods
			for i := range pods {
				if pods[i].Node == int(slot) {
					entries = b.add(entries, at, pods[i].Request)
				}
			}
		}
		free, later := c.room(slot)
		for r, v := range c.s.Nodes[slot].Free {
			free[r], later[r] = roomAmount(v), roomAmount(v)
		}
		for i := range c.going[slot] {
			addTo(later, c.going[slot][i].Request)
		}
		c.c.set(slot, b, entries)
	}
	clear(c.dirty)
	c.c.budgeted, c.c.spanning = c.guarded > 0, c.spanning > 0
	if c.namesChanged {
		c.c.sortNodes(&c.s)
		c.namesChanged = false
	}
	if c.goingChange {
		c.s.Leaving = nil
		for _, slot := range slices.Sorted(maps.Keys(c.going)) {
			c.s.Leaving = append(c.s.Leaving, c.going[slot]...)
		}
		c.goingChange = false
	}
}
