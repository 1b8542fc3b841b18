package queue

import (
	"maps"
	"slices"
	"strings"
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

// Standing is how the queues stand at one moment. It does not change, so any goroutine may use it.
type Standing struct {
	fairshare.Standing
	// Names are the resources of every vector.
	Names []string
	// Faults says what is wrong with queues.
	Faults []fairshare.Fault
	// Requested is by index in the tree, with everything below a queue counted.
	Requested []fairshare.Amounts
	// Waiting counts the pods without a node, by index as well.
	Waiting []int32
	// Orphaned is what runs and names a queue that is not in the tree, by that name.
	Orphaned map[string]fairshare.Amounts
	// OrphanedPods counts the pods of that.
	OrphanedPods int

	// accesses is the access to each queue, by index.
	accesses []*access
	// markets are the parts of the nodes that are shared each by itself; nil where all are shared together.
	markets *markets

	// leaves are the books of each leaf as vectors; nil for one without work. They are shared with later standings.
	leaves []*leafBooks

	listed, counted uint64
	// easing is by values of counted.
	easing *fairshare.Easing
}

// leafBooks are an account in the resources of a standing.
type leafBooks struct{ demand, allocated, requested fairshare.Amounts }

// Standing works out how the queues stand, in some resources; nil where there are no queues. It does so again only
// after something has changed.
func (b *Board) Standing(names []string) *Standing {
	if !b.Used() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queues) == 0 {
		return nil
	}
	at := slices.IndexFunc(b.standings, func(s *Standing) bool { return slices.Equal(s.Names, names) })
	var old *Standing
	if at >= 0 {
		if old = b.standings[at]; old.counted == b.counted {
			return old
		}
	}
	s := b.standing(names, old)
	switch {
	case at >= 0:
		b.standings[at] = s
	case len(b.standings) < mostStandings:
		b.standings = append(b.standings, s)
	default:
		b.standings = []*Standing{s}
	}
	return s
}

// mostStandings is how many sets of resources are remembered: those of each picture of the cluster, and of the status.
const mostStandings = 4

func (b *Board) standing(names []string, old *Standing) *Standing {
	if b.unweighed {
		b.weighAll()
	}
	b.reach()
	s := &Standing{Names: slices.Clone(names), listed: b.listed, counted: b.counted, Orphaned: make(map[string]fairshare.Amounts)}
	if old != nil && old.listed == b.listed {
		s.Tree, s.Faults = old.Tree, old.Faults
	} else {
		s.Tree, s.Faults = fairshare.NewTree(len(names), b.described(names))
	}
	queues, dims := s.Tree.Len(), len(names)
	demand, flat := make([]fairshare.Amounts, queues), make(fairshare.Amounts, 2*queues*dims)
	s.Allocated, s.Requested = make([]fairshare.Amounts, queues), make([]fairshare.Amounts, queues)
	s.Waiting, s.leaves = make([]int32, queues), make([]*leafBooks, queues)
	for i := range demand {
		s.Allocated[i], s.Requested[i] = flat[:dims:dims], flat[dims:2*dims:2*dims]
		flat = flat[2*dims:]
	}
	capacity, outside := b.capacity.clone(), sets.New[string]()
	capacity.add(b.beyond, -1)
	for name, a := range b.accounts {
		i := a.leafIn(s.Tree, name, b.listed)
		if i < 0 {
			// What is outside the queues, and stays, is not theirs to share.
			capacity.add(a.staying, -1)
			outside.Insert(name)
			if name != "" && len(a.allocated) > 0 {
				s.Orphaned[name] = a.allocated.vector(names, 0)
				s.OrphanedPods += a.placed
			}
			continue
		}
		own := s.booksOf(i, a, old)
		demand[i] = own.demand
		for q := i; q >= 0; q = s.Tree.Parent(q) {
			s.Waiting[q] += int32(a.pods - a.placed)
			for r := range names {
				s.Allocated[q][r] += own.allocated[r]
				s.Requested[q][r] += own.requested[r]
			}
		}
	}
	b.addBeyond(capacity, outside)
	s.accesses = b.accessesIn(s.Tree)
	s.Capacity = capacity.vector(names, 0)
	if s.markets = b.marketsOf(s); s.markets != nil {
		s.Shares = s.markets.Shares()
	} else {
		s.Shares = s.Tree.FairShares(s.Capacity, b.carried(names), demand)
	}
	var before *fairshare.Easing
	if old != nil {
		before = old.easing
	}
	s.easing = before.Next(&s.Standing, s.counted)
	return s
}

// booksOf has the account of a leaf as vectors, those of the standing before where nothing has changed since.
func (s *Standing) booksOf(leaf int32, a *account, old *Standing) *leafBooks {
	if old != nil && old.Tree == s.Tree && old.leaves[leaf] != nil && a.changed <= old.counted {
		s.leaves[leaf] = old.leaves[leaf]
	} else {
		s.leaves[leaf] = &leafBooks{
			demand: a.demand.vector(s.Names, 0), allocated: a.allocated.vector(s.Names, 0), requested: a.requested.vector(s.Names, 0),
		}
	}
	return s.leaves[leaf]
}

// described are the queues as the core knows them.
func (b *Board) described(names []string) []fairshare.Queue {
	out := make([]fairshare.Queue, 0, len(b.queues))
	for _, q := range b.queues {
		d := fairshare.Queue{
			Name: q.Name, Weight: 1, Quota: AmountsOf(q.Spec.Quota).vector(names, 0), Limit: limits(q.Spec.Limit, names),
			PreemptMinRuntime: fairshare.Unset, ReclaimMinRuntime: fairshare.Unset,
		}
		if p := q.Spec.Parent; p != nil {
			d.Parent = *p
		}
		if w := q.Spec.OverQuotaWeight; w != nil {
			d.Weight = int64(*w)
		}
		if p := q.Spec.Priority; p != nil {
			d.Priority = *p
		}
		if r := q.Spec.PreemptMinRuntime; r != nil {
			d.PreemptMinRuntime = max(r.Nanoseconds(), 0)
		}
		if r := q.Spec.ReclaimMinRuntime; r != nil {
			d.ReclaimMinRuntime = max(r.Nanoseconds(), 0)
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(x, y fairshare.Queue) int { return strings.Compare(x.Name, y.Name) })
	return out
}
