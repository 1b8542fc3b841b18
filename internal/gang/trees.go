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

// Trees is a Source that also has the trees of groups, by the keys of their CompositePodGroups. The
// topmost group with the gang policy is a workload: its PodGroups are placed together. A PodGroup
// without a parent is unchanged. Trees is safe for concurrent use.
type Trees struct {
	source Source
	// parented is the number of groups with a parent. Without any, every question costs one load.
	parented atomic.Int64

	// changing is held during Changed. Several informers call it, and each call compares with the
	// workloads that the last one stored.
	changing sync.Mutex

	mu sync.RWMutex
	// parents has the parent of each group, and children the reverse.
	parents  map[types.NamespacedName]types.NamespacedName
	children map[types.NamespacedName]sets.Set[types.NamespacedName]
	// workloads has the workload of each PodGroup at its last change.
	workloads map[types.NamespacedName]types.NamespacedName
	// known has the assembled groups of each namespace. changes counts the changes of a namespace.
	known   map[string]map[types.NamespacedName]*Group
	changes map[string]uint64
}

var _ Source = (*Trees)(nil)

// NewTrees returns the trees of a Source that has PodGroups and CompositePodGroups. Call Changed
// with each group.
func NewTrees(source Source) *Trees {
	return &Trees{
		source: source, parents: make(map[types.NamespacedName]types.NamespacedName), children: make(map[types.NamespacedName]sets.Set[types.NamespacedName]),
		workloads: make(map[types.NamespacedName]types.NamespacedName), known: make(map[string]map[types.NamespacedName]*Group), changes: make(map[string]uint64),
	}
}

// Move is a PodGroup whose pods belong to another workload than before.
type Move struct{ PodGroup, From, To types.NamespacedName }

// Changed records that a group was created, changed or deleted. It returns the workloads that the
// change concerns, and the PodGroups that have moved. A PodGroup that moves into a tree is no
// workload any more.
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

// topOf returns the highest known ancestor of a group, or the group itself. The caller holds the
// lock.
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

// relate updates the parent of a group; nil for a group that does not exist. The caller holds the
// lock.
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

// leavesBelow lists the PodGroups below a group, or the PodGroup itself. The caller holds the lock.
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

// below returns a group and all groups below it. The groups may form a cycle. The caller holds the
// lock.
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

// Below returns a group and all groups below it, by name.
func (t *Trees) Below(key types.NamespacedName) []types.NamespacedName {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.SortedFunc(slices.Values(t.below(key).UnsortedList()), byName)
}

// childrenOf lists the groups directly below a group, by name.
func (t *Trees) childrenOf(key types.NamespacedName) []types.NamespacedName {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.SortedFunc(slices.Values(t.children[key].UnsortedList()), byName)
}

// Leaves lists the PodGroups of a tree. It returns the PodGroup itself if the key is the
// key of a PodGroup.
func (t *Trees) Leaves(key types.NamespacedName) []types.NamespacedName {
	if !IsTree(key) {
		return []types.NamespacedName{key}
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.leavesBelow(key)
}

// WorkloadOf returns the workload of a PodGroup: the topmost group that is placed together with it.
// If the tree has a flaw, the workload is a group that is never placed: the root, or a missing
// ancestor.
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
		// The parts of the root are placed independently, but none if the tree has a flaw.
		if whole, ok := t.Group(root.Key); ok && whole.Flaw != (Verdict{}) {
			return root.Key
		}
	}
	out := podGroup
	for _, above := range l.above {
		if above.MinGroupCount > 0 {
			// A basic group below it is a flaw.
			out = above.Key
		}
	}
	return out
}

// UnitOf returns the group that the members of a PodGroup are evicted with. That is the highest
// ancestor in disruption mode All within the workload, or the PodGroup itself in mode PodGroup. It
// returns the workload if no group has such a mode. Below a missing ancestor, it returns an
// existing group.
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
		// A missing workload has no object for the intent of an eviction.
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

// PartOf returns the PodGroup of a pod and its minCount, for a pod in a tree.
func (t *Trees) PartOf(pod *corev1.Pod) (name string, minCount int, ok bool) {
	if t.parented.Load() == 0 {
		return "", 0, false
	}
	key, named := GroupOf(pod)
	if !named || t.WorkloadOf(key) == key {
		return "", 0, false
	}
	g, exists := t.source.Group(key)
	if !exists {
		return "", 0, false
	}
	return key.Name, g.MinCount, true
}

// Membership returns a Membership that maps the pods of a tree to their workload.
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

// Group returns the group with a key; false if no group has it. The group of a CompositePodGroup
// has the facts of its whole tree. A missing CompositePodGroup exists as long as a group names it
// as its parent, so that its members are known.
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

// line is the line of ancestors of a group.
type line struct {
	// above are the existing ancestors, the parent first.
	above []*Group
	// flaw says why the line does not end at a root. top then identifies all groups with this flaw.
	flaw Verdict
	top  types.NamespacedName
}

// longestLine bounds the ancestors that are looked at. A tree has far fewer levels.
const longestLine = 32

// lineOf returns the ancestors of a group.
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

// cycle ends a line that leads back to one of its groups. whole is true if that is the group at the
// beginning.
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
