package fairshare

import (
	"cmp"
	"math"
	"slices"
)

// Unlimited is the limit of a resource without a limit.
const Unlimited = math.MaxInt64

// Unset is a min-runtime that a queue inherits from its ancestors.
const Unset = int64(-1)

// Queue is the configuration of one queue.
type Queue struct {
	// Name identifies the queue. Parent is the name of the parent; empty for a queue at the top of
	// the tree.
	Name, Parent string
	// Quota is the amount that the queue can always reclaim; nil for an empty quota. A resource
	// with an amount of 0 is not named in the quota, so it may be a carried amount ([Bundles]).
	Quota Amounts
	// Limit is the maximum usage of the queue's running work, with Unlimited for a resource without
	// a limit. Nil means no limits.
	Limit Amounts
	// Priority orders siblings for the capacity that no quota claims, the highest priority first.
	Priority int32
	// Weight is the queue's part of the unclaimed capacity, relative to siblings with equal
	// priority.
	Weight int64
	// PreemptMinRuntime is the time that work must run before other work of the queue may preempt
	// it. ReclaimMinRuntime is the time that work must run before another queue may reclaim it.
	// They are in nanoseconds, with Unset to inherit.
	PreemptMinRuntime, ReclaimMinRuntime int64
	// SilentWorkCap is the maximum run time, in nanoseconds, that counts as lost work for a pod
	// without a checkpoint. Nil inherits the parent's value. At the top of the tree, nil means no
	// maximum.
	SilentWorkCap *int64
}

// Fault is a configuration error of one queue.
type Fault struct {
	Queue string
	Kind  FaultKind
	// Other is the parent that causes the fault: the missing parent, or the parent with the smaller
	// quota.
	Other string
	// Resource is the index of the resource whose quota is larger than the parent's, for
	// FaultQuota.
	Resource int
}

// FaultKind is the kind of a configuration error.
type FaultKind string

const (
	// FaultMissingParent: the queue's parent does not exist. The tree omits the queue and all
	// queues below it.
	FaultMissingParent FaultKind = "ParentNotFound"
	// FaultCycle: the queue is its own ancestor, or is below such a queue. The tree omits it.
	FaultCycle FaultKind = "ParentCycle"
	// FaultQuota: the quota is larger than the parent's quota. The parent's quota applies instead.
	FaultQuota FaultKind = "QuotaAboveParent"
)

// Tree has the valid queues as a tree. It never changes, so any goroutine may use it.
type Tree struct {
	dims int
	// nodes are the queues. Parents come before their children, and siblings are sorted by name.
	nodes []treeNode
	index map[string]int32
	top   []int32
	// silent maps the name of a queue to its SilentWorkCap, own or inherited. It has only queues
	// with a maximum.
	silent map[string]int64
}

type treeNode struct {
	Queue
	parent   int32
	children []int32
	depth    int
}

// NewTree returns the tree of queues, and the faults sorted by queue. The tree omits queues with
// FaultMissingParent or FaultCycle, and queues without a name. If several queues have the same
// name, it uses the first.
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

// add adds all queues below the queue with the given name, and returns the queue's children.
func (b *treeBuilder) add(name string, parent int32, depth int) []int32 {
	names := b.below[name]
	slices.Sort(names)
	children := make([]int32, 0, len(names))
	for _, n := range names {
		children = append(children, b.node(b.byName[n], parent, depth))
	}
	// Add grandchildren only after all children. So siblings are next to each other, and parents
	// come before children.
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

// capSilence sets the entry of a queue in silent. The entry of its parent must already be set.
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

// whyOut returns the reason why the tree omits a queue. It looks at one ancestor after the other.
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

// Dims returns the number of resources. All vectors of the tree have this length.
func (t *Tree) Dims() int { return t.dims }

// Len returns the number of queues; 0 for a nil tree. The indexes of queues are 0 to Len-1.
func (t *Tree) Len() int {
	if t == nil {
		return 0
	}
	return len(t.nodes)
}

// Queue returns the queue with index i. Its quota is limited to its parent's quota.
func (t *Tree) Queue(i int32) *Queue { return &t.nodes[i].Queue }

// Find returns the index of a queue.
func (t *Tree) Find(name string) (int32, bool) {
	i, ok := t.index[name]
	return i, ok
}

// Leaf reports whether a queue has no children. Only such a queue may contain work.
func (t *Tree) Leaf(i int32) bool { return len(t.nodes[i].children) == 0 }

// LeafOf returns the index of the leaf queue with the given name; -1 if there is no such leaf
// queue, or if the tree is nil.
func (t *Tree) LeafOf(name string) int32 {
	if t == nil || name == "" {
		return -1
	}
	if i, ok := t.index[name]; ok && t.Leaf(i) {
		return i
	}
	return -1
}

// Parent returns the index of a queue's parent; -1 for a queue at the top.
func (t *Tree) Parent(i int32) int32 { return t.nodes[i].parent }

// Path lists a queue and its ancestors. The queue comes first, the top last.
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

// Use adds the amounts of a pod, multiplied by sign, to the usage of a leaf queue and of its
// ancestors. used has one row of resources per queue. If leaf is -1, Use changes nothing. Amounts
// above MaxUsage count as MaxUsage.
func (t *Tree) Use(used []int64, leaf int32, a Amounts, sign int64) {
	for q := leaf; q >= 0; q = t.nodes[q].parent {
		row := used[int(q)*t.dims:][:t.dims]
		for r, v := range a {
			row[r] += sign * Usage(v)
		}
	}
}

// MinRuntime returns the first queue with a min-runtime, among a queue and its ancestors, and the
// min-runtime in nanoseconds. setting is PreemptSetting or ReclaimSetting. If no queue has one, the
// result is -1 and the value of otherwise.
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
// preemptor. It also returns the index of the queue with this setting; -1 for a default. preempt
// and reclaim are the defaults. Work in no queue (leaf -1) is never reclaimed. The search for the
// reclaim setting starts at a queue that depends on the preemptor's queue. So LongestMinRuntime
// tries the leaf and all its ancestors as the start, or only the leaf if fromLeaf is true.
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

// SilentWorkCaps maps the name of a queue to its SilentWorkCap in nanoseconds, own or inherited.
// Queues without a maximum are not in the map. The caller must not change the map.
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
