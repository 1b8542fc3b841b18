package queue

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Board has the books of all queues. It is safe for concurrent use, and no call blocks on anything but its lock.
type Board struct {
	// used is true while there is any Queue.
	used atomic.Bool

	mu     sync.Mutex
	queues map[string]*v1alpha1.Queue
	// inner are the names of queues with others below them, deleted those of queues that were there once.
	inner, deleted map[string]bool
	pods           map[types.UID]charge
	// misnamed are those of the pods that name a queue which no work can be in, and count for the one that they had.
	misnamed sets.Set[types.UID]
	// going are those of the pods that are on a node and terminating.
	going map[types.UID]bool
	nodes map[string]*nodeEntry
	// overfull are the nodes on which more stays than they add to the capacity.
	overfull map[string]*nodeEntry
	// accounts are by the name that the work gives, whether there is such a queue or not.
	accounts map[string]*account
	// pending are what pods without a node ask for, and groups how their groups stand.
	pending map[pendingKey]*pendingPods
	groups  map[types.NamespacedName]*pendingGroup
	// unweighed is true where nodes or limits have changed since pending pods were weighed by what follows: the nodes that
	// take pods, by what they have, how many pods of a kind they could hold, and the resources that any node lists.
	unweighed     bool
	kinds         map[string]*nodeKind
	slots         map[string]int64
	listedByNodes map[corev1.ResourceName]bool
	// limits are those of queues that have any.
	limits map[string]Amounts
	// tree is what the queues are to each other, without their resources; nil as long as it has not been asked for.
	tree   *fairshare.Tree
	plenty plenty
	// wholeGroups are what groups have that go as a whole.
	wholeGroups map[wholeGroupKey]groupUse
	// allocated is what is placed in each queue and below it, and waiting what is demand there of what pods without a node ask for.
	allocated, waiting map[string]Amounts
	// capacity is what the nodes have, and beyond what of that is behind taints that no work tolerates which waits in a queue.
	capacity, beyond Amounts
	// nodesWith is what the nodes that list a resource have, of that and of all else.
	nodesWith map[corev1.ResourceName]Amounts
	// tainted are the nodes whose taints keep pods off, by these, and tolerances what waits in queues by what it tolerates. Unreached is true
	// where either has changed since nodes were told apart by them.
	tainted    map[string]*taintedNodes
	tolerances map[tolerance]*tolerant
	unreached  bool
	// layout is who can reach which nodes, as long as laid is true; nil where there is too much to tell apart.
	layout *layout
	laid   bool
	// listed counts the changes of queues, rehomed those of the defaults of namespaces, and counted those of anything that shares depend on.
	listed, rehomed, counted uint64
	standings                []*Standing
	// resources are what Resources said last.
	resources knownResources
	// namespaces and classes are those of the cluster, and accesses is the access to each queue, as far as that has been asked; accessOrder
	// has it by index in the tree.
	namespaces  map[string]tenant
	classes     map[string]int32
	accesses    map[string]*access
	accessOrder []*access
}

// charge is what one pod counts for.
type charge struct {
	queue, node string
	Membership
	request Amounts
	// terms are what the pod needs of a node beside room, and kind says that and what it requests.
	terms *terms
	kind  string
	// namespace is the pod's, and repels where it keeps others off by anti-affinity.
	namespace string
	repels    []string
	// placed is true on a node, going while it is terminating, and not overdue: it asks for nothing any more then.
	placed, going bool
}

// account is what the work in one queue has and asks for.
type account struct {
	allocated, requested Amounts
	// demand is what is requested and can be served, and waiting is what pods without a node ask for of that.
	demand, waiting Amounts
	// staying is what is allocated and not on its way out.
	staying Amounts
	// pods are all that count, placed those on a node.
	pods, placed int
	// changed is when any of that changed last, as a value of Board.counted.
	changed uint64
	// leaf is the index of its leaf in the trees of Board.listed as that was at found; negative where there is none.
	leaf  int32
	found uint64
}

// leafIn is the index of the account's leaf in a tree of all queues, which are in the same order whatever the tree's resources; negative where
// there is none.
func (a *account) leafIn(tree *fairshare.Tree, queue string, listed uint64) int32 {
	if a.found != listed {
		a.leaf, a.found = -1, listed
		if i, ok := tree.Find(queue); ok && tree.Leaf(i) {
			a.leaf = i
		}
	}
	return a.leaf
}

// NewBoard returns an empty Board.
func NewBoard() *Board {
	return &Board{
		queues: make(map[string]*v1alpha1.Queue), inner: make(map[string]bool), deleted: make(map[string]bool),
		pods: make(map[types.UID]charge), misnamed: sets.New[types.UID](), going: make(map[types.UID]bool), nodes: make(map[string]*nodeEntry), overfull: make(map[string]*nodeEntry),
		accounts: make(map[string]*account), allocated: make(map[string]Amounts), waiting: make(map[string]Amounts),
		capacity: make(Amounts), beyond: make(Amounts), nodesWith: make(map[corev1.ResourceName]Amounts), tolerances: make(map[tolerance]*tolerant),
		pending: make(map[pendingKey]*pendingPods), groups: make(map[types.NamespacedName]*pendingGroup), limits: make(map[string]Amounts), unweighed: true,
		wholeGroups: make(map[wholeGroupKey]groupUse),
		namespaces:  make(map[string]tenant), classes: make(map[string]int32), accesses: make(map[string]*access),
		plenty: newPlenty(),
	}
}

// Used reports whether there is any Queue. Where there is none, nothing need be charged.
func (b *Board) Used() bool { return b.used.Load() }

// SetQueue takes in a Queue, which may not be changed from now on. It reports whether it is the first: then all pods
// that there are have to be charged, and [Board.AllCharged] be told; and whether it may matter to the access to queues: then those have
// to be that wait, or count for another queue now.
func (b *Board) SetQueue(q *v1alpha1.Queue) (first, confining bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first = len(b.queues) == 0
	before := b.queues[q.Name]
	b.queues[q.Name] = q
	delete(b.deleted, q.Name)
	b.used.Store(true)
	b.relisted()
	b.plenty.partial = b.plenty.partial || first
	return first, b.isConfining(before, q) || b.misnamed.Len() > 0
}

// CountsFor is the queue that a pod counts for; "" for none.
func (b *Board) CountsFor(uid types.UID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pods[uid].queue
}

// AllCharged records that all pods have been charged that there were when the first Queue came.
func (b *Board) AllCharged() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plenty.partial = false
}

// DeleteQueue drops a Queue. With the last one, all that was charged is forgotten. It reports the same of the access to others.
func (b *Board) DeleteQueue(name string) (confining bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.queues[name]
	if before != nil {
		delete(b.queues, name)
		b.deleted[name] = true
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

// Listed counts the changes of queues, and of the defaults of namespaces: with equal counts, work that stays what it is has the same
// queue, and that says the same.
func (b *Board) Listed() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.listed + b.rehomed
}

// relisted starts over with what depends on the order of the queues.
func (b *Board) relisted() {
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
			b.limits[q.Name] = AmountsOf(q.Spec.Limit)
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

// addUp adds what a queue has to the sums of it and of all queues above it, or takes it away.
func (b *Board) addUp(sums map[string]Amounts, queue string, amounts Amounts, sign int64) {
	for _, name := range b.path(queue) {
		if sums[name] == nil {
			sums[name] = make(Amounts)
		}
		sums[name].add(amounts, sign)
	}
}

// Charge has a pod without a group count for the queue that its work names, "" for none. One that has finished, or gone,
// counts for nothing; see [Board.Forget].
func (b *Board) Charge(pod *corev1.Pod, queue string) Change {
	return b.ChargeMember(pod, queue, Membership{})
}

// Change is what has changed in the books with a pod.
type Change struct {
	// Any is whether anything has.
	Any bool
	// Moved is whether the pod counted for another queue before.
	Moved bool
	// Eased are the queues with a limit that have less placed in them and below them than they had.
	Eased []string
}

// Add is both of two changes.
func (c Change) Add(d Change) Change {
	out := Change{Any: c.Any || d.Any, Moved: c.Moved || d.Moved, Eased: c.Eased}
	for _, name := range d.Eased {
		if !slices.Contains(out.Eased, name) {
			out.Eased = append(slices.Clone(out.Eased), name)
		}
	}
	return out
}

// changeOf is what has changed with a pod that was known. The caller holds the lock.
func (b *Board) changeOf(before, now *charge) Change {
	change := Change{Any: true, Moved: before.queue != now.queue}
	if change.Moved || !now.placed || !covers(now.request, before.request) {
		change.Eased = b.easedWithout(before)
	}
	return change
}

// easedWithout are the queues with a limit that have less placed without a charge. The caller holds the lock.
func (b *Board) easedWithout(c *charge) []string {
	if !c.placed {
		return nil
	}
	return b.limitsOn(c.queue)
}

// covers reports whether amounts are as large as others in each resource.
func covers(a, b Amounts) bool {
	for name, v := range b {
		if a[name] < v {
			return false
		}
	}
	return true
}

// ChargeMember is Charge for a member of a group; see [Board.SetGroupState].
func (b *Board) ChargeMember(pod *corev1.Pod, queue string, of Membership) Change {
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

// equals reports whether two charges of a pod count for the same.
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

// Forget has a pod count for nothing, and returns what has changed with that.
func (b *Board) Forget(uid types.UID) Change {
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

// Going lists the pods on a node that are terminating. They count until they have gone.
func (b *Board) Going() []types.UID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.going))
}

// Request is [RequestOf] of a pod, taken over from its charge where it has one. The caller must not change it.
func (b *Board) Request(pod *corev1.Pod) Amounts {
	b.mu.Lock()
	c, ok := b.pods[pod.UID]
	b.mu.Unlock()
	if ok {
		return c.request
	}
	return RequestOf(pod)
}

// Knows reports whether a pod has been charged, and that its group is not held.
func (b *Board) Knows(uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.pods[uid]
	m := b.groups[c.Group]
	return ok && (m == nil || !m.Held)
}

// book adds a charge to its account, or takes it away.
func (b *Board) book(c charge, sign int) {
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

func (b *Board) account(queue string) *account {
	a := b.accounts[queue]
	if a == nil {
		a = &account{
			allocated: make(Amounts), requested: make(Amounts), demand: make(Amounts), waiting: make(Amounts), staying: make(Amounts),
		}
		b.accounts[queue] = a
	}
	return a
}
