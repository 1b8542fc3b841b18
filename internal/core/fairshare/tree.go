package fairshare

import (
	"cmp"
	"math"
	"slices"
)

// Unlimited is the limit of a resource that has none.
const Unlimited = math.MaxInt64

// Unset is a min-runtime that a queue leaves to its ancestors.
const Unset = int64(-1)

// Queue is one queue as its administrator describes it.
type Queue struct {
	// Name identifies the queue; Parent is the queue that it is part of, empty at the top of the tree.
	Name, Parent string
	// Quota is what the queue can always get back. Of what it has 0 of, it names nothing, and may have what goes along with the
	// rest ([Bundles]). Nil is nothing at all.
	Quota Amounts
	// Limit is what the queue's running work never exceeds, Unlimited where it may. Nil is no limit.
	Limit Amounts
	// Priority orders siblings when what no quota claims is handed out; higher ones are served first.
	Priority int32
	// Weight is the queue's part of that, relative to its siblings of equal priority.
	Weight int64
	// PreemptMinRuntime and ReclaimMinRuntime are how long work runs, in nanoseconds, before it may be preempted
	// from within the queue, or its room be reclaimed by another one; Unset to go by the next ancestor.
	PreemptMinRuntime, ReclaimMinRuntime int64
}

// Fault is what is wrong with one queue.
type Fault struct {
	Queue string
	Kind  FaultKind
	// Other is the queue that the fault has to do with: the parent that is missing or whose quota is too small.
	Other string
	// Resource is the dimension that a quota is too large in, for FaultQuota.
	Resource int
}

// FaultKind tells faults of queues apart.
type FaultKind string

const (
	// FaultMissingParent: the queue names a parent that does not exist. It and all below it are out of use.
	FaultMissingParent FaultKind = "ParentNotFound"
	// FaultCycle: the queue is its own ancestor, or below one that is. It is out of use.
	FaultCycle FaultKind = "ParentCycle"
	// FaultQuota: the quota is larger than the parent's. The parent's counts then.
	FaultQuota FaultKind = "QuotaAboveParent"
)

// Tree is the sound part of the queues, as a tree. It never changes, so any goroutine may use it.
type Tree struct {
	dims int
	// nodes are the queues, parents before children, and siblings by name.
	nodes []treeNode
	index map[string]int32
	top   []int32
}

type treeNode struct {
	Queue
	parent   int32
	children []int32
	depth    int
}

// NewTree makes a tree of queues. Those that cannot be part of one are left out; the faults say why, and what else
// is wrong, by name of the queue. Of several queues with one name the first counts,
// and one without a name not at all.
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

// add adds all queues below one, and returns those right below it.
func (b *treeBuilder) add(name string, parent int32, depth int) []int32 {
	names := b.below[name]
	slices.Sort(names)
	children := make([]int32, 0, len(names))
	for _, n := range names {
		children = append(children, b.node(b.byName[n], parent, depth))
	}
	// Children come after all siblings of their parent: the order is by depth, so parents are always first.
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
	at := int32(len(b.t.nodes))
	b.t.nodes = append(b.t.nodes, n)
	b.t.index[q.Name] = at
	return at
}

// whyOut follows the parents of a queue that is not part of the tree.
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

// Dims is how many resources the vectors of the queues have.
func (t *Tree) Dims() int { return t.dims }

// Len is how many queues the tree has; 0 for a nil tree. They are known by their index from 0 on, parents before their
// children.
func (t *Tree) Len() int {
	if t == nil {
		return 0
	}
	return len(t.nodes)
}

// Queue is the queue of an index, with its quota cut down to its parent's.
func (t *Tree) Queue(i int32) *Queue { return &t.nodes[i].Queue }

// Find is the index of a queue.
func (t *Tree) Find(name string) (int32, bool) {
	i, ok := t.index[name]
	return i, ok
}

// Leaf reports whether a queue has no children, so that work can be in it.
func (t *Tree) Leaf(i int32) bool { return len(t.nodes[i].children) == 0 }

// LeafOf finds the leaf that a name stands for; -1 where there is none, and in a nil tree.
func (t *Tree) LeafOf(name string) int32 {
	if t == nil || name == "" {
		return -1
	}
	if i, ok := t.index[name]; ok && t.Leaf(i) {
		return i
	}
	return -1
}

// Parent is the queue above one; -1 at the top.
func (t *Tree) Parent(i int32) int32 { return t.nodes[i].parent }

// Path lists a queue and its ancestors, from the queue upwards.
func (t *Tree) Path(i int32) []int32 {
	var path []int32
	for ; i >= 0; i = t.nodes[i].parent {
		path = append(path, i)
	}
	return path
}

// Top lists the queues without a parent, by name. The list is not to be changed.
func (t *Tree) Top() []int32 { return t.top }

// Children lists the queues right below one, by name. The list is not to be changed.
func (t *Tree) Children(i int32) []int32 { return t.nodes[i].children }

// Use adds amounts, sign times, to what is used in a leaf and in all queues above it; used has a row for each queue. A
// leaf of -1 is none.
func (t *Tree) Use(used []int64, leaf int32, a Amounts, sign int64) {
	for q := leaf; q >= 0; q = t.nodes[q].parent {
		row := used[int(q)*t.dims:][:t.dims]
		for r, v := range a {
			row[r] += sign * Used(v)
		}
	}
}

// MinRuntime finds the first queue on the way up from one that has a setting, which is one of the two min-runtimes; -1
// and the default where none does.
func (t *Tree) MinRuntime(from int32, otherwise int64, setting func(*Queue) int64) (queue int32, runtime int64) {
	for q := from; q >= 0; q = t.nodes[q].parent {
		if d := setting(&t.nodes[q].Queue); d >= 0 {
			return q, d
		}
	}
	return -1, otherwise
}

// PreemptSetting and ReclaimSetting are the two min-runtimes that a queue sets, for [Tree.MinRuntime].
func PreemptSetting(q *Queue) int64 { return q.PreemptMinRuntime }

// ReclaimSetting is the other one.
func ReclaimSetting(q *Queue) int64 { return q.ReclaimMinRuntime }

// LongestMinRuntime is the longest that any min-runtime protects work of a leaf from any preemptor, and the queue that says so;
// -1 where it is one of two defaults. Work in no queue, -1, is preempted only. A reclaimer may come from beside any queue on the
// way up, so the setting is looked for from each of them, or always from the leaf.
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

// Protects reports whether any queue keeps its work from preemption for a time.
func (t *Tree) Protects() bool {
	for i := range t.Len() {
		if t.nodes[i].PreemptMinRuntime > 0 {
			return true
		}
	}
	return false
}
