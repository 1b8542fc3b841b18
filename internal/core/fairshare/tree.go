package fairshare

import (
	"cmp"
	"math"
	"slices"
)

// Unlimited is the value of a limit for a resource that is not limited.
const Unlimited = math.MaxInt64

// Unset is the value of a min-runtime that a queue inherits from its ancestors.
const Unset = int64(-1)

// Queue is the configuration of one queue.
type Queue struct {
	// Name identifies the queue. Parent is the queue's parent, empty at the top of the tree.
	Name, Parent string
	// Quota is the amount that the queue can always reclaim. Nil is an empty quota. An amount of 0
	// counts as not named, so an amount may accompany the quota's other resources ([Bundles]).
	Quota Amounts
	// Limit is the maximum usage of the queue's running work; Unlimited for no limit. Nil sets no
	// limits.
	Limit Amounts
	// Priority orders siblings for the capacity that no quota claims. Higher priorities are served
	// first.
	Priority int32
	// Weight is the queue's part of the unclaimed capacity, relative to its siblings of equal
	// priority.
	Weight int64
	// PreemptMinRuntime is the time that work runs before work of the queue may preempt it.
	// ReclaimMinRuntime is the same for reclaim by another queue. Both are in nanoseconds; Unset to
	// inherit.
	PreemptMinRuntime, ReclaimMinRuntime int64
	// SilentWorkCap is the longest run time, in nanoseconds, that counts as lost work for pods that
	// have saved nothing. Nil inherits the parent's cap; at the top of the tree it means no cap.
	SilentWorkCap *int64
}

// Fault is a configuration error of one queue.
type Fault struct {
	Queue string
	Kind  FaultKind
	// Other is the parent that causes the fault: it is missing, or its quota is smaller.
	Other string
	// Resource is the index of the resource whose quota is too large, for FaultQuota.
	Resource int
}

// FaultKind is the kind of a fault.
type FaultKind string

const (
	// FaultMissingParent: the queue's parent does not exist. The queue and all queues below it are
	// ignored.
	FaultMissingParent FaultKind = "ParentNotFound"
	// FaultCycle: the queue is its own ancestor, or below such a queue. It is ignored.
	FaultCycle FaultKind = "ParentCycle"
	// FaultQuota: the quota is larger than the parent's. The parent's quota applies instead.
	FaultQuota FaultKind = "QuotaAboveParent"
)

// Tree has the valid queues as a tree. It never changes, so any goroutine may use it.
type Tree struct {
	dims int
	// nodes are the queues, parents before children, and siblings sorted by name.
	nodes []treeNode
	index map[string]int32
	top   []int32
	// silent has the cap on the lost work of silent pods that applies to each queue, own or
	// inherited, by name.
	silent map[string]int64
}

type treeNode struct {
	Queue
	parent   int32
	children []int32
	depth    int
}

// NewTree returns a tree of queues, and the faults sorted by queue. Queues that cannot be part of a
// tree are ignored. Of several queues with one name, the first is used. Queues without a name are
// ignored.
func NewTree(dims int, queues []Queue) (*Tree, []Fault) {
	b := &treeBuilder{t: &Tree{dims: dims, index: make(map[string]int32)}, byName: make(map[string]*Queue), below: make(map[string][]string)}
	for i := range queues {
		q := &queues[i]
		if _, twice := b.byName[q.Name]; !twice && q.Name != "" {
			b.byName[q.Name] = q
			b.below[q.Parent] = append(b.below[q.Parent], q.Name)
		}
	}
	b.t.top = b.add("", -1, 0)
	for name, q := range b.byName {
		if _, sound := b.t.index[name]; !sound {
			b.faults = append(b.faults, b.whyOut(q))
		}
	}
	slices.SortFunc(b.faults, func(x, y Fault) int {
		return cmp.Or(cmp.Compare(x.Queue, y.Queue), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Resource, y.Resource))
	})
	return b.t, b.faults
}

type treeBuilder struct {
	t      *Tree
	byName map[string]*Queue
	below  map[string][]string
	faults []Fault
}

// add adds all queues below a queue and returns its children.
func (b *treeBuilder) add(name string, parent int32, depth int) []int32 {
	names := b.below[name]
	slices.Sort(names)
	children := make([]int32, 0, len(names))
	for _, n := range names {
		children = append(children, b.node(b.byName[n], parent, depth))
	}
	// Children come after all siblings of their parent. The order is by depth, so parents come
	// first.
	for i, n := range names {
		grandchildren := b.add(n, children[i], depth+1)
		b.t.nodes[children[i]].children = grandchildren
	}
	return children
}

func (b *treeBuilder) node(q *Queue, parent int32, depth int) int32 {
	n := treeNode{Queue: *q, parent: parent, depth: depth}
	n.Quota, n.Limit = make(Amounts, b.t.dims), make(Amounts, b.t.dims)
	for r := range b.t.dims {
		n.Limit[r] = Unlimited
		if r < len(q.Limit) {
			n.Limit[r] = max(q.Limit[r], 0)
		}
		if r < len(q.Quota) {
			n.Quota[r] = min(max(q.Quota[r], 0), MaxAmount)
		}
		if parent >= 0 && n.Quota[r] > b.t.nodes[parent].Quota[r] {
			n.Quota[r] = b.t.nodes[parent].Quota[r]
			b.faults = append(b.faults, Fault{Queue: q.Name, Kind: FaultQuota, Other: q.Parent, Resource: r})
		}
	}
	n.Weight = max(q.Weight, 0)
	b.capSilence(q)
	at := int32(len(b.t.nodes))
	b.t.nodes = append(b.t.nodes, n)
	b.t.index[q.Name] = at
	return at
}

// capSilence records the cap on the lost work of silent pods that applies to a queue. Its parent
// must have been recorded before.
func (b *treeBuilder) capSilence(q *Queue) {
	most, isCapped := b.t.silent[q.Parent]
	if q.SilentWorkCap != nil {
		most, isCapped = max(*q.SilentWorkCap, 0), true
	}
	if !isCapped {
		return
	}
	if b.t.silent == nil {
		b.t.silent = make(map[string]int64)
	}
	b.t.silent[q.Name] = most
}

// whyOut returns the reason why a queue is not part of the tree. It looks at the queue's ancestors
// one after the other.
func (b *treeBuilder) whyOut(q *Queue) Fault {
	seen := map[string]bool{q.Name: true}
	for at := q; ; {
		parent, ok := b.byName[at.Parent]
		if !ok {
			return Fault{Queue: q.Name, Kind: FaultMissingParent, Other: at.Parent}
		}
		if seen[parent.Name] {
			return Fault{Queue: q.Name, Kind: FaultCycle, Other: at.Parent}
		}
		seen[parent.Name] = true
		at = parent
	}
}

// Dims returns the number of resources, which is the length of the queues' vectors.
func (t *Tree) Dims() int { return t.dims }

// Len returns the number of queues; 0 for a nil tree. Queues are identified by their index from 0
// on, parents before children.
func (t *Tree) Len() int {
	if t == nil {
		return 0
	}
	return len(t.nodes)
}

// Queue returns the queue at an index, with its quota limited to its parent's.
func (t *Tree) Queue(i int32) *Queue { return &t.nodes[i].Queue }

// Find returns the index of a queue.
func (t *Tree) Find(name string) (int32, bool) {
	i, ok := t.index[name]
	return i, ok
}

// Leaf reports whether a queue has no children, so that it may contain work.
func (t *Tree) Leaf(i int32) bool { return len(t.nodes[i].children) == 0 }

// LeafOf returns the index of the leaf queue with a name. It returns -1 if there is none, or if the
// tree is nil.
func (t *Tree) LeafOf(name string) int32 {
	if t == nil || name == "" {
		return -1
	}
	if i, ok := t.index[name]; ok && t.Leaf(i) {
		return i
	}
	return -1
}

// Parent returns the parent of a queue; -1 at the top.
func (t *Tree) Parent(i int32) int32 { return t.nodes[i].parent }

// Path lists a queue and its ancestors, from the queue upwards.
func (t *Tree) Path(i int32) []int32 {
	var path []int32
	for ; i >= 0; i = t.nodes[i].parent {
		path = append(path, i)
	}
	return path
}

// Top lists the queues without a parent, sorted by name. Callers must not change the list.
func (t *Tree) Top() []int32 { return t.top }

// Children lists the children of a queue, sorted by name. Callers must not change the list.
func (t *Tree) Children(i int32) []int32 { return t.nodes[i].children }

// Use adds the amounts of a pod, multiplied by sign, to the usage of a leaf queue and of all its
// ancestors. used has one row for each queue. With a leaf of -1, Use changes nothing. An amount
// above MaxUsage counts as MaxUsage.
func (t *Tree) Use(used []int64, leaf int32, a Amounts, sign int64) {
	for q := leaf; q >= 0; q = t.nodes[q].parent {
		row := used[int(q)*t.dims:][:t.dims]
		for r, v := range a {
			row[r] += sign * Usage(v)
		}
	}
}

// MinRuntime returns the first queue with a min-runtime, from a queue upwards, and the min-runtime.
// setting selects one of the two min-runtimes. If no queue has one, the result is -1 and the
// argument otherwise.
func (t *Tree) MinRuntime(from int32, otherwise int64, setting func(*Queue) int64) (queue int32, runtime int64) {
	for q := from; q >= 0; q = t.nodes[q].parent {
		if d := setting(&t.nodes[q].Queue); d >= 0 {
			return q, d
		}
	}
	return -1, otherwise
}

// PreemptSetting returns a queue's min-runtime for preemption, for [Tree.MinRuntime].
func PreemptSetting(q *Queue) int64 { return q.PreemptMinRuntime }

// ReclaimSetting returns a queue's min-runtime for reclaim, for [Tree.MinRuntime].
func ReclaimSetting(q *Queue) int64 { return q.ReclaimMinRuntime }

// LongestMinRuntime returns the longest min-runtime that protects work of a leaf queue from any
// preemptor, and the queue with the setting; -1 for a default. Work in no queue, -1, is never
// reclaimed. The search for the reclaim setting may start at any ancestor, depending on the
// reclaimer's queue, so all starts are considered. With fromLeaf, it starts only at the leaf.
func (t *Tree) LongestMinRuntime(leaf int32, preempt, reclaim int64, fromLeaf bool) (queue int32, runtime int64) {
	queue, runtime = t.MinRuntime(leaf, preempt, PreemptSetting)
	for from := leaf; from >= 0; from = t.nodes[from].parent {
		if q, d := t.MinRuntime(from, reclaim, ReclaimSetting); d > runtime {
			queue, runtime = q, d
		}
		if fromLeaf {
			break
		}
	}
	return queue, runtime
}

// SilentWorkCaps returns, by queue, the cap on the lost work of pods that have saved nothing, in
// nanoseconds. Queues without a cap are absent. The caller must not change the map.
func (t *Tree) SilentWorkCaps() map[string]int64 { return t.silent }

// Protects reports whether any queue has a min-runtime for preemption.
func (t *Tree) Protects() bool {
	for i := range t.Len() {
		if t.nodes[i].PreemptMinRuntime > 0 {
			return true
		}
	}
	return false
}
