package gang

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Trees is a Source that combines PodGroups and CompositePodGroups into trees. For a key of a
// CompositePodGroup, it returns a Group with the whole tree below it. The PodGroups below the
// topmost group with the gang policy are placed together, as one workload. PodGroups without a
// parent stay as they are. Trees is safe for concurrent use.
type Trees struct {
	source Source
	// members finds the PodGroups of pods.
	members Membership
	// parented is the number of groups with a parent. While it is 0, lookups return without a lock.
	parented atomic.Int64

	// changing serializes calls of Changed, which several informers make. Each call compares the
	// workloads with the workloads that the last call stored.
	changing sync.Mutex

	mu sync.RWMutex
	// parents maps each group to its parent.
	parents map[types.NamespacedName]types.NamespacedName
	// children maps each parent to its groups.
	children map[types.NamespacedName]sets.Set[types.NamespacedName]
	// workloads maps each PodGroup with a parent to its workload at the last call of Changed.
	workloads map[types.NamespacedName]types.NamespacedName
	// known caches the assembled groups of each namespace.
	known map[string]map[types.NamespacedName]*Group
	// changes counts the changes of groups in each namespace.
	changes map[string]uint64
}

var _ Source = (*Trees)(nil)

// NewTrees returns the trees of a Source that has PodGroups and CompositePodGroups. The caller must
// call Changed for each group that exists or changes.
func NewTrees(source Source) *Trees {
	return &Trees{
		source: source, members: Named{}, parents: make(map[types.NamespacedName]types.NamespacedName), children: make(map[types.NamespacedName]sets.Set[types.NamespacedName]),
		workloads: make(map[types.NamespacedName]types.NamespacedName), known: make(map[string]map[types.NamespacedName]*Group), changes: make(map[string]uint64),
	}
}

// DeriveFrom sets the Membership that finds the PodGroup of a pod. The default is [Named]. Call
// DeriveFrom before any other method.
func (t *Trees) DeriveFrom(members Membership) { t.members = members }

// PodGroupOf returns the PodGroup of a pod, regardless of its tree; false for none.
func (t *Trees) PodGroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	return t.members.GroupOf(pod)
}

// Move is a PodGroup whose workload has changed from From to To.
type Move struct{ PodGroup, From, To types.NamespacedName }

// Changed records that a group was created, changed or deleted. It returns the workloads that the
// change affects, and the PodGroups whose workload has changed. The workloads do not include a
// PodGroup that has moved into a tree, because it is no workload any more.
func (t *Trees) Changed(key types.NamespacedName) (workloads []types.NamespacedName, moves []Move) {
	t.changing.Lock()
	defer t.changing.Unlock()
	g, exists := t.source.Group(key)
	t.mu.Lock()
	_, was := t.parents[key]
	if !IsTree(key) && !was && (!exists || g.Parent.Name == "") {
		t.mu.Unlock()
		return []types.NamespacedName{key}, nil
	}
	leaves := sets.New(t.leavesBelow(t.topOf(key))...)
	t.relate(key, g)
	delete(t.known, key.Namespace)
	t.changes[key.Namespace]++
	leaves.Insert(t.leavesBelow(t.topOf(key))...)
	t.mu.Unlock()
	out := sets.New[types.NamespacedName]()
	if IsTree(key) {
		out.Insert(key)
	}
	for leaf := range leaves {
		now := t.WorkloadOf(leaf)
		t.mu.Lock()
		before, known := t.workloads[leaf]
		if !known {
			// A PodGroup without a parent is its own workload, even before it exists.
			before = leaf
		}
		if _, ok := t.parents[leaf]; ok {
			t.workloads[leaf] = now
		} else {
			delete(t.workloads, leaf)
		}
		t.mu.Unlock()
		if out.Insert(now); before != now {
			if IsTree(before) {
				out.Insert(before)
			}
			moves = append(moves, Move{PodGroup: leaf, From: before, To: now})
		}
	}
	slices.SortFunc(moves, func(a, b Move) int { return byName(a.PodGroup, b.PodGroup) })
	return slices.SortedFunc(slices.Values(out.UnsortedList()), byName), moves
}

// topOf returns the highest known ancestor of a group, or the group itself if it has no parent. The
// caller holds the lock.
func (t *Trees) topOf(key types.NamespacedName) types.NamespacedName {
	for range longestLine {
		parent, ok := t.parents[key]
		if !ok {
			break
		}
		key = parent
	}
	return key
}

// relate updates the recorded parent of a group. g is nil for a group that does not exist. The
// caller holds the lock.
func (t *Trees) relate(key types.NamespacedName, g *Group) {
	before, was := t.parents[key]
	if g != nil && g.Parent == before && was {
		return
	}
	if was {
		t.parented.Add(-1)
		delete(t.parents, key)
		if t.children[before].Delete(key); t.children[before].Len() == 0 {
			delete(t.children, before)
		}
	}
	if g == nil || g.Parent.Name == "" {
		return
	}
	t.parented.Add(1)
	t.parents[key] = g.Parent
	if t.children[g.Parent] == nil {
		t.children[g.Parent] = sets.New[types.NamespacedName]()
	}
	t.children[g.Parent].Insert(key)
}

// leavesBelow lists the PodGroups below a CompositePodGroup. For a PodGroup, it returns the
// PodGroup itself. The caller holds the lock.
func (t *Trees) leavesBelow(key types.NamespacedName) []types.NamespacedName {
	var out []types.NamespacedName
	for next := range t.below(key) {
		if !IsTree(next) {
			out = append(out, next)
		}
	}
	slices.SortFunc(out, byName)
	return out
}

// below returns a group and all groups below it. It terminates even if the groups form a cycle. The
// caller holds the lock.
func (t *Trees) below(key types.NamespacedName) sets.Set[types.NamespacedName] {
	out := sets.New[types.NamespacedName]()
	todo := []types.NamespacedName{key}
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !out.Has(next) {
			out.Insert(next)
			todo = append(todo, t.children[next].UnsortedList()...)
		}
	}
	return out
}

// Below returns a group and all groups below it, sorted by name.
func (t *Trees) Below(key types.NamespacedName) []types.NamespacedName {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.SortedFunc(slices.Values(t.below(key).UnsortedList()), byName)
}

// childrenOf lists the groups directly below a group, sorted by name.
func (t *Trees) childrenOf(key types.NamespacedName) []types.NamespacedName {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.SortedFunc(slices.Values(t.children[key].UnsortedList()), byName)
}

// Leaves lists the PodGroups below a CompositePodGroup. For a PodGroup, it returns the PodGroup
// itself.
func (t *Trees) Leaves(key types.NamespacedName) []types.NamespacedName {
	if !IsTree(key) {
		return []types.NamespacedName{key}
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.leavesBelow(key)
}

// WorkloadOf returns the workload of a PodGroup: its topmost ancestor with the gang policy, or the
// PodGroup itself. If the tree has a flaw, it returns a CompositePodGroup that is never placed,
// such as the root or a missing ancestor.
func (t *Trees) WorkloadOf(podGroup types.NamespacedName) types.NamespacedName {
	if t.parented.Load() == 0 {
		return podGroup
	}
	g, ok := t.source.Group(podGroup)
	if !ok || g.Parent.Name == "" {
		return podGroup
	}
	l := t.lineOf(g)
	if l.flaw != (Verdict{}) {
		return l.top
	}
	if root := l.above[len(l.above)-1]; root.MinGroupCount == 0 {
		// The parts of a root with the basic policy are placed independently, but a flaw of the
		// tree blocks all of them.
		if whole, ok := t.Group(root.Key); ok && whole.Flaw != (Verdict{}) {
			return root.Key
		}
	}
	out := podGroup
	for _, above := range l.above {
		if above.MinGroupCount > 0 {
			// The last assignment wins: the topmost ancestor with the gang policy. A basic group
			// below such an ancestor would be a flaw.
			out = above.Key
		}
	}
	return out
}

// UnitOf returns the group that is the preemption unit of a PodGroup's members:
//
//   - The highest ancestor within the workload that has disruption mode All.
//   - Without such an ancestor, the PodGroup itself if its mode is PodGroup, or if an ancestor is
//     missing.
//   - Otherwise, the workload. Its members are evicted one by one.
func (t *Trees) UnitOf(podGroup types.NamespacedName) types.NamespacedName {
	workload := t.WorkloadOf(podGroup)
	if workload == podGroup {
		return podGroup
	}
	g, ok := t.source.Group(podGroup)
	if !ok {
		return workload
	}
	l, unit := t.lineOf(g), workload
	if g.Whole || l.flaw.Reason == v1alpha1.ReasonParentNotFound {
		// If the parent is missing, evict the PodGroup by itself: the intent of an eviction needs
		// an object, and a missing CompositePodGroup has none.
		unit = podGroup
	}
	for _, above := range l.above {
		if above.Whole {
			unit = above.Key
		}
		if above.Key == workload {
			break
		}
	}
	return unit
}

// KeysOf returns a PodGroup and all CompositePodGroups above it.
func (t *Trees) KeysOf(podGroup types.NamespacedName) []types.NamespacedName {
	out := []types.NamespacedName{podGroup}
	if g, ok := t.source.Group(podGroup); ok && g.Parent.Name != "" {
		for _, above := range t.lineOf(g).above {
			out = append(out, above.Key)
		}
	}
	return out
}

// PartOf returns the name and the minCount of the PodGroup of a pod; false for a pod that is not in
// a tree.
func (t *Trees) PartOf(pod *corev1.Pod) (name string, minCount int, ok bool) {
	if t.parented.Load() == 0 {
		return "", 0, false
	}
	key, ok := t.members.GroupOf(pod)
	if !ok || t.WorkloadOf(key) == key {
		return "", 0, false
	}
	g, exists := t.source.Group(key)
	if !exists {
		return "", 0, false
	}
	return key.Name, g.MinCount, true
}

// Membership wraps a Membership so that the pods of a tree belong to the workload of the tree.
func (t *Trees) Membership(of Membership) Membership { return inTrees{of, t} }

type inTrees struct {
	Membership
	trees *Trees
}

// GroupOf is part of Membership.
func (m inTrees) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	key, ok := m.Membership.GroupOf(pod)
	if !ok {
		return key, false
	}
	return m.trees.WorkloadOf(key), true
}

// Group returns the group with a key; false if there is none. For a CompositePodGroup, the Group
// has the facts of the whole tree. A missing CompositePodGroup has a Group as long as some group
// names it as its parent. So the scheduler can report to the members that their parent is missing.
func (t *Trees) Group(key types.NamespacedName) (*Group, bool) {
	if !IsTree(key) {
		return t.source.Group(key)
	}
	t.mu.RLock()
	g, ok := t.known[key.Namespace][key]
	mark := t.changes[key.Namespace]
	t.mu.RUnlock()
	if ok {
		return g, true
	}
	if g, ok = t.assemble(key); !ok {
		return nil, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changes[key.Namespace] == mark {
		if t.known[key.Namespace] == nil {
			t.known[key.Namespace] = make(map[types.NamespacedName]*Group)
		}
		t.known[key.Namespace][key] = g
	}
	return g, true
}

// line is the chain of ancestors of a group.
type line struct {
	// above are the existing ancestors, from the parent upwards.
	above []*Group
	// flaw is the reason why the chain does not end at a root; zero if it does.
	flaw Verdict
	// top is the workload of all PodGroups whose chain ends in the same flaw, such as the missing
	// ancestor. It is zero if flaw is zero.
	top types.NamespacedName
}

// longestLine is the maximum number of ancestors that lineOf follows. Valid trees have far fewer
// levels.
const longestLine = 32

// lineOf returns the existing ancestors of a group, up to the root or to a flaw.
func (t *Trees) lineOf(g *Group) line {
	var l line
	for from := g; from.Parent.Name != ""; {
		if at := slices.IndexFunc(l.above, func(a *Group) bool { return a.Key == from.Parent }); at >= 0 || from.Parent == g.Key {
			return l.cycle(g, max(at, 0), at < 0)
		}
		parent, ok := t.source.Group(from.Parent)
		if !ok {
			l.top, l.flaw = from.Parent, notFoundAbove(from)
			return l
		}
		if len(l.above) == longestLine {
			l.top, l.flaw = parent.Key, tooDeep(parent.Key)
			return l
		}
		l.above = append(l.above, parent)
		from = parent
	}
	return l
}

// cycle returns the line with a flaw: an ancestor names a group of the line as its parent, so the
// groups form a cycle. The ancestors from the index at on are in the cycle. The argument whole is
// true if the cycle includes g itself.
func (l line) cycle(g *Group, at int, whole bool) line {
	members := slices.Clone(l.above[at:])
	if whole {
		members = append(members, g)
	}
	names := make([]types.NamespacedName, len(members))
	for i, m := range members {
		names[i] = m.Key
	}
	slices.SortFunc(names, byName)
	first, _ := CompositeOf(names[0])
	l.top = names[0]
	l.flaw = Verdict{
		Reason:  v1alpha1.ReasonParentCycle,
		Message: fmt.Sprintf("CompositePodGroup %s is its own ancestor, over %d levels; delete one of them and create it with another parent", first, len(names)),
	}
	return l
}

func notFoundAbove(child *Group) Verdict {
	parent, _ := CompositeOf(child.Parent)
	return Verdict{
		Reason: v1alpha1.ReasonParentNotFound,
		Message: fmt.Sprintf("%s names the parent %q, and namespace %s has no CompositePodGroup of that name; create it there",
			Title(child.Key), parent.Name, child.Key.Namespace),
	}
}

func tooDeep(key types.NamespacedName) Verdict {
	return Verdict{
		Reason:  v1alpha1.ReasonTreeTooDeep,
		Message: fmt.Sprintf("%s is at a level below the fourth of its tree; a tree has at most %d levels, its PodGroups included", Title(key), v1alpha1.MaxTreeDepth),
	}
}
