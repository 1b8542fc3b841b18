package queue

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Ledger is the quota ledger of all Queues. It is safe for concurrent use. Calls make no API
// requests and wait only for the lock of the Ledger.
type Ledger struct {
	// used is true while a Queue exists.
	used atomic.Bool

	mu     sync.Mutex
	queues map[string]*v1alpha1.Queue
	// inner has the names of queues that have queues below them. deleted has the names of all
	// deleted queues.
	inner, deleted map[string]bool
	// kept maps deleted queues that the ledger keeps for their running work to the time when they
	// expire.
	kept map[string]time.Time
	pods map[types.UID]charge
	// misnamed has the running pods that name a queue that cannot hold work. They count for their
	// previous queue.
	misnamed sets.Set[types.UID]
	// going has the pods on nodes that are terminating and not overdue.
	going map[types.UID]bool
	nodes map[string]*nodeEntry
	// overfull has the nodes where pods that do not terminate use more than the capacity that comes
	// from the node.
	overfull map[string]*nodeEntry
	// accounts maps the queue names that work uses to usage and demand. A named queue may not
	// exist.
	accounts map[string]*account
	// pending has the pods without a node, by queue, group and kind.
	pending map[pendingKey]*pendingPods
	// groups has the state of the groups of pending pods.
	groups map[types.NamespacedName]*pendingGroup
	// unweighed is true after a change of nodes or limits, until weighAll computes the demand of
	// pending pods. weighAll also sets the next fields. kinds has the nodes that accept pods,
	// grouped by resources and taints. slots has the number of pods of a kind that fit on these
	// nodes. rooms has the room for several kinds together. listedByNodes has the resources that
	// any node lists.
	unweighed     bool
	kinds         map[string]*nodeKind
	slots         map[string]int64
	rooms         map[string]sharedRoom
	listedByNodes map[corev1.ResourceName]bool
	// limits maps the queues that have a limit to that limit.
	limits map[string]Amounts
	// tree is the hierarchy of the queues, without amounts; nil until it is needed.
	tree   *fairshare.Tree
	plenty plenty
	// wholeGroups has the usage of groups that are evicted as a whole or not at all.
	wholeGroups map[wholeGroupKey]groupUse
	// allocated maps each queue to its usage, and waiting maps it to its demand by pods without a
	// node. Both include all queues below the queue.
	allocated, waiting map[string]Amounts
	// capacity and beyond are the sums of the fields counted and beyond over all nodes; see
	// [nodeEntry]. A Snapshot subtracts beyond from capacity.
	capacity, beyond Amounts
	// nodesWith maps each resource to the sum of all resources of the nodes that list this
	// resource.
	nodesWith map[corev1.ResourceName]Amounts
	// tainted groups the nodes with repelling taints by their taints. tolerances counts the waiting
	// pods by queue and tolerations. unreached is true if either map has changed since
	// [Ledger.reach] marked the shunned nodes.
	tainted    map[string]*taintedNodes
	tolerances map[tolerance]*tolerant
	unreached  bool
	// layout divides the nodes into pools. It is valid if laid is true, and nil if there are too
	// many classes, nodes or pools. crowded is true if a layout may become possible when some
	// pending pods are gone. laidKinds is the highest number of kinds of pending pods since the
	// layout failed.
	layout    *layout
	laid      bool
	crowded   bool
	laidKinds int
	// listed counts the changes of queues. rehomed counts the changes of the default queues of
	// namespaces. counted counts all changes that may affect fair shares.
	listed, rehomed, counted uint64
	standings                []*Snapshot
	// resources is the last result of Resources.
	resources knownResources
	// namespaces and classes have the cluster's namespaces and PriorityClasses. accesses caches the
	// access rules of queues by name, and accessOrder by index in the tree.
	namespaces  map[string]tenant
	classes     map[string]int32
	accesses    map[string]*access
	accessOrder []*access
}

// charge is the entry of one pod in the ledger: its queue, its request and its state.
type charge struct {
	queue, node string
	Membership
	request Amounts
	// terms are the pod's requirements on a node, apart from its request.
	terms *terms
	// kind is the pod's kind; see [KindOf].
	kind string
	// namespace is the pod's namespace.
	namespace string
	// repels has the namespaces of pods that the pod's required anti-affinity may repel.
	repels []string
	// placed is true for a pod on a node. going is true if the pod is also terminating and not
	// overdue. A going pod counts as usage of its queue, but not as demand.
	placed, going bool
}

// account is the usage and demand of the work in one queue.
type account struct {
	allocated, requested Amounts
	// demand is the part of requested that the cluster can serve. waiting is the part of demand
	// that belongs to pods without a node.
	demand, waiting Amounts
	// staying is the part of allocated that belongs to pods that do not terminate.
	staying Amounts
	// pods is the number of pods, and placed is the number of pods on nodes.
	pods, placed int
	// changed is the value of Ledger.counted when the account last changed.
	changed uint64
	// leaf is the index of the account's leaf queue in the tree, and negative if there is no such
	// leaf. It is valid if found is the present value of Ledger.listed, the count of queue changes.
	leaf  int32
	found uint64
}

// leafIn returns the index of the account's leaf queue in a tree; negative if the tree does not
// have the leaf. The result is cached: trees with the same queues have the same order.
func (a *account) leafIn(tree *fairshare.Tree, queue string, listed uint64) int32 {
	if a.found != listed {
		a.leaf, a.found = -1, listed
		if i, ok := tree.Find(queue); ok && tree.Leaf(i) {
			a.leaf = i
		}
	}
	return a.leaf
}

// NewLedger returns an empty Ledger.
func NewLedger() *Ledger {
	return &Ledger{
		queues: make(map[string]*v1alpha1.Queue), inner: make(map[string]bool), deleted: make(map[string]bool), kept: make(map[string]time.Time),
		pods: make(map[types.UID]charge), misnamed: sets.New[types.UID](), going: make(map[types.UID]bool), nodes: make(map[string]*nodeEntry), overfull: make(map[string]*nodeEntry),
		accounts: make(map[string]*account), allocated: make(map[string]Amounts), waiting: make(map[string]Amounts),
		capacity: make(Amounts), beyond: make(Amounts), nodesWith: make(map[corev1.ResourceName]Amounts), tolerances: make(map[tolerance]*tolerant),
		pending: make(map[pendingKey]*pendingPods), groups: make(map[types.NamespacedName]*pendingGroup), limits: make(map[string]Amounts), unweighed: true,
		wholeGroups: make(map[wholeGroupKey]groupUse),
		namespaces:  make(map[string]tenant), classes: make(map[string]int32), accesses: make(map[string]*access),
		plenty: newPlenty(),
	}
}

// Used reports whether any Queue exists. If not, callers need not charge pods.
func (b *Ledger) Used() bool { return b.used.Load() }

// SetQueue adds or updates a Queue. The caller must not change the object afterwards.
//
// If first is true, this is the only Queue. The caller must then charge all existing pods and call
// [Ledger.AllCharged]. If confining is true, access to queues may have changed. The caller must
// then charge all waiting pods again, and all pods that now count for another queue.
func (b *Ledger) SetQueue(q *v1alpha1.Queue) (first, confining bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first = len(b.queues) == 0
	before := b.queues[q.Name]
	b.queues[q.Name] = q
	delete(b.deleted, q.Name)
	delete(b.kept, q.Name)
	b.used.Store(true)
	b.relisted()
	b.plenty.partial = b.plenty.partial || first
	return first, b.isConfining(before, q) || b.misnamed.Len() > 0
}

// CountsFor returns the queue that a pod counts for; "" for none.
func (b *Ledger) CountsFor(uid types.UID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pods[uid].queue
}

// IsOn reports whether a pod counts as usage on this node.
func (b *Ledger) IsOn(uid types.UID, node string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.pods[uid]
	return ok && c.placed && c.node == node
}

// AllCharged records that the caller has charged all pods after SetQueue returned first.
func (b *Ledger) AllCharged() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plenty.partial = false
}

// DeleteQueue removes a Queue. If no Queue is left, it also removes all pods. It reports whether
// access to other queues may have changed; see SetQueue.
func (b *Ledger) DeleteQueue(name string) (confining bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.deleteQueue(name)
}

// deleteQueue does the work of DeleteQueue. The caller holds the lock.
func (b *Ledger) deleteQueue(name string) (confining bool) {
	before := b.queues[name]
	if before != nil {
		delete(b.queues, name)
		b.deleted[name] = true
		delete(b.kept, name)
	}
	b.relisted()
	if len(b.queues) == 0 {
		b.used.Store(false)
		clear(b.pods)
		clear(b.misnamed)
		clear(b.going)
		clear(b.accounts)
		clear(b.pending)
		clear(b.tolerances)
		clear(b.groups)
		clear(b.wholeGroups)
		b.vacate()
		b.plenty.reset()
		b.standings = nil
	}
	return b.isConfining(before, nil) || b.misnamed.Len() > 0
}

// Listed returns the number of changes of queues and of the default queues of namespaces. As long
// as this number is the same, [Ledger.Check] returns the same result for unchanged work, and the
// work names the same queue.
func (b *Ledger) Listed() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.listed + b.rehomed
}

// relisted updates everything that depends on the hierarchy of queues or on their limits.
func (b *Ledger) relisted() {
	b.listed++
	b.counted++
	clear(b.allocated)
	clear(b.waiting)
	clear(b.inner)
	clear(b.limits)
	b.forgetAccesses()
	b.tree = nil
	b.unweigh()
	for _, q := range b.queues {
		if len(q.Spec.Limit) > 0 {
			b.limits[q.Name] = grantOf(q.Spec.Limit)
		}
		if p := q.Spec.Parent; p != nil && *p != q.Name {
			b.inner[*p] = true
		}
	}
	for name, a := range b.accounts {
		b.addUp(b.allocated, name, a.allocated, 1)
		b.addUp(b.waiting, name, a.waiting, 1)
	}
}

// addUp adds amounts, multiplied by sign (1 or -1), to the sums of a queue and all its ancestors.
func (b *Ledger) addUp(sums map[string]Amounts, queue string, amounts Amounts, sign int64) {
	for _, name := range b.path(queue) {
		if sums[name] == nil {
			sums[name] = make(Amounts)
		}
		sums[name].add(amounts, sign)
	}
}

// Charge records that a pod without a group counts for a queue; "" for none. If the pod has
// finished, Charge removes it; see [Ledger.Forget]. Charge also removes a pod without a node that
// is terminating or has scheduling gates.
func (b *Ledger) Charge(pod *corev1.Pod, queue string) Change {
	return b.ChargeMember(pod, queue, Membership{})
}

// Change describes the effect of a call on the ledger.
type Change struct {
	// Any is true if anything has changed.
	Any bool
	// Moved is true if the pod counted for another queue before the call.
	Moved bool
	// Eased lists the queues with a limit whose usage, including the queues below, has dropped.
	Eased []string
}

// Add returns the combination of two changes.
func (c Change) Add(d Change) Change {
	out := Change{Any: c.Any || d.Any, Moved: c.Moved || d.Moved, Eased: c.Eased}
	for _, name := range d.Eased {
		if !slices.Contains(out.Eased, name) {
			out.Eased = append(slices.Clone(out.Eased), name)
		}
	}
	return out
}

// changeOf returns the effect of replacing the charge of a pod. The caller holds the lock.
func (b *Ledger) changeOf(before, now *charge) Change {
	change := Change{Any: true, Moved: before.queue != now.queue}
	if change.Moved || !now.placed || !covers(now.request, before.request) {
		change.Eased = b.easedWithout(before)
	}
	return change
}

// easedWithout returns the queues with a limit whose usage drops when a charge is removed. The
// caller holds the lock.
func (b *Ledger) easedWithout(c *charge) []string {
	if !c.placed {
		return nil
	}
	return b.limitsOn(c.queue)
}

// covers reports whether a is at least b for each resource.
func covers(a, b Amounts) bool {
	for name, v := range b {
		if a[name] < v {
			return false
		}
	}
	return true
}

// ChargeMember is like Charge, for a member of a group; see [Ledger.SetGroupState].
func (b *Ledger) ChargeMember(pod *corev1.Pod, queue string, of Membership) Change {
	if !b.Used() {
		return Change{}
	}
	c := charge{
		queue: queue, node: pod.Spec.NodeName, Membership: of, request: RequestOf(pod),
		placed: pod.Spec.NodeName != "", going: pod.DeletionTimestamp != nil && !of.Overdue, namespace: pod.Namespace, repels: repelledBy(pod),
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || !c.placed && (c.going || len(pod.Spec.SchedulingGates) > 0) {
		return b.Forget(pod.UID)
	}
	c.terms = termsOf(pod)
	c.kind = kindOf(c.request) + c.terms.key
	b.mu.Lock()
	defer b.mu.Unlock()
	change := Change{Any: true}
	before, ok := b.pods[pod.UID]
	expected := ok && b.isExpected(&before, &c)
	if ok {
		if before.equals(&c) {
			return Change{}
		}
		change = b.changeOf(&before, &c)
		b.lowerNeed(&before, &c)
		b.book(before, -1)
	}
	if len(b.queues) == 0 {
		return Change{}
	}
	b.pods[pod.UID] = c
	if c.going {
		b.going[pod.UID] = true
	} else {
		delete(b.going, pod.UID)
	}
	b.book(c, 1)
	if ok {
		b.plenty.count(&before, -1)
	}
	b.plenty.follow(&c, expected)
	return change
}

// equals reports whether two charges of the same pod have the same effect on the ledger.
func (c *charge) equals(d *charge) bool {
	return c.queue == d.queue && c.Membership == d.Membership && c.node == d.node && c.going == d.going &&
		sameTerms(c.terms, d.terms) && sameAmounts(c.request, d.request)
}

func sameTerms(a, b *terms) bool { return a == b || a != nil && b != nil && a.key == b.key }

func sameAmounts(a, b Amounts) bool {
	if len(a) != len(b) {
		return false
	}
	for name, v := range a {
		if w, ok := b[name]; !ok || v != w {
			return false
		}
	}
	return true
}

// Forget removes a pod from the ledger, and returns the effect of this.
func (b *Ledger) Forget(uid types.UID) Change {
	if !b.Used() {
		return Change{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.pods[uid]
	if !ok {
		return Change{}
	}
	b.book(c, -1)
	delete(b.pods, uid)
	delete(b.misnamed, uid)
	delete(b.going, uid)
	b.plenty.count(&c, -1)
	return Change{Any: true, Eased: b.easedWithout(&c)}
}

// Going returns the pods on nodes that are terminating and not overdue. They count as usage until
// they no longer exist.
func (b *Ledger) Going() []types.UID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.going))
}

// Request returns the same as [RequestOf]. It uses the charge of the pod if there is one, which is
// faster. The caller must not change the result.
func (b *Ledger) Request(pod *corev1.Pod) Amounts {
	b.mu.Lock()
	c, ok := b.pods[pod.UID]
	b.mu.Unlock()
	if ok {
		return c.request
	}
	return RequestOf(pod)
}

// Knows reports whether a pod is charged and its group, if any, is not held.
func (b *Ledger) Knows(uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.pods[uid]
	m := b.groups[c.Group]
	return ok && (m == nil || !m.Held)
}

// book adds a charge to the account of its queue, or subtracts it if sign is -1.
func (b *Ledger) book(c charge, sign int) {
	b.counted++
	b.chargeWhole(c, int64(sign))
	a := b.account(c.queue)
	a.changed = b.counted
	if !c.going {
		a.requested.add(c.request, int64(sign))
	}
	switch {
	case !c.placed:
		b.pend(c, int64(sign))
	case !c.going:
		a.demand.add(c.request, int64(sign))
		b.layRunning(&c, int64(sign))
	}
	if c.placed {
		a.placed += sign
		a.allocated.add(c.request, int64(sign))
		if !c.going {
			a.staying.add(c.request, int64(sign))
		}
		b.occupy(c, int64(sign))
		b.addUp(b.allocated, c.queue, c.request, int64(sign))
	}
	if a.pods += sign; a.pods == 0 {
		delete(b.accounts, c.queue)
	}
}

func (b *Ledger) account(queue string) *account {
	a := b.accounts[queue]
	if a == nil {
		a = &account{
			allocated: make(Amounts), requested: make(Amounts), demand: make(Amounts), waiting: make(Amounts), staying: make(Amounts),
		}
		b.accounts[queue] = a
	}
	return a
}
