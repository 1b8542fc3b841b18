package gang

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// assembly checks the groups of one tree and collects the facts that the group of the whole tree
// needs.
type assembly struct {
	trees *Trees
	// root is the root of the whole tree; nil if it does not exist.
	root *Group
	// flaw is the first reason why the tree is never placed. Only a change by a user can end it.
	flaw Verdict
	// waits is the first reason why a group of the tree cannot be placed yet.
	waits Verdict
	// first is the first PodGroup of the tree. All other PodGroups must name its queue.
	first *Group
	// highest is the highest priority of the groups in the tree; nil if no priority is resolved.
	highest *int32
	// seen holds the groups of the tree that have been visited. It ends the walk if the groups form
	// a cycle.
	seen sets.Set[types.NamespacedName]
}

// assemble returns the group of a CompositePodGroup, with the tree of all groups below it. It
// returns false if the CompositePodGroup does not exist and no group names it as its parent.
func (t *Trees) assemble(key types.NamespacedName) (*Group, bool) {
	own, exists := t.source.Group(key)
	children := t.childrenOf(key)
	if !exists && len(children) == 0 {
		return nil, false
	}
	// Make a UID for the missing group from its key, because preemption units are compared by UID.
	out, a, level := &Group{Key: key, UID: types.UID("missing/" + key.String()), Whole: true}, &assembly{trees: t, seen: sets.New[types.NamespacedName]()}, 1
	if exists {
		copied := *own
		out, a.root = &copied, own
		l := t.lineOf(own)
		if level += len(l.above); len(l.above) > 0 {
			a.root = l.above[len(l.above)-1]
		}
		out.Flaw = l.flaw
	} else if child, ok := t.source.Group(children[0]); ok {
		out.Flaw = notFoundAbove(child)
	}
	out.Tree = a.branch(key, level)
	out.Tree.members = t.members
	if out.Flaw = cmp.Or(out.Flaw, a.flaw); exists && own.MinGroupCount == 0 {
		return out, true
	}
	out.Flaw = cmp.Or(out.Flaw, a.waits)
	out.MinCount = out.Tree.leastMembers()
	if !exists {
		out.Priority = a.highest
	}
	if a.first != nil {
		out.Queue = queueNamed(a.first)
	}
	return out, true
}

// branch returns a group with the groups below it, each group once. level is 1 for a root.
func (a *assembly) branch(key types.NamespacedName, level int) *Tree {
	node := &Tree{Key: key}
	a.seen.Insert(key)
	if level > v1alpha1.MaxTreeDepth {
		a.fault(tooDeep(key))
	}
	g, ok := a.trees.source.Group(key)
	if ok {
		node.Whole = g.Whole
		a.compare(g)
	}
	if !IsTree(key) {
		if ok {
			node.Need = g.MinCount
			a.leaf(g)
		}
		return node
	}
	if ok {
		node.Need = g.MinGroupCount
	}
	for _, child := range a.trees.childrenOf(key) {
		if level > longestLine || a.seen.Has(child) {
			continue
		}
		if node.Need > 0 {
			a.belowGang(g, child)
		}
		node.Parts = append(node.Parts, a.branch(child, level+1))
	}
	return node
}

// fault records a flaw of the tree. It ignores all flaws after the first one.
func (a *assembly) fault(v Verdict) { a.flaw = cmp.Or(a.flaw, v) }

// compare checks that a group has the priority and the preemption policy of the root of its tree.
func (a *assembly) compare(g *Group) {
	if g.Priority != nil && (a.highest == nil || *g.Priority > *a.highest) {
		a.highest = g.Priority
	}
	if a.root == nil || g.Key == a.root.Key {
		return
	}
	switch root := a.root; {
	case g.Priority != nil && root.Priority != nil && *g.Priority != *root.Priority:
		a.fault(Verdict{
			Reason: v1alpha1.ReasonPriorityDiffers,
			Message: fmt.Sprintf("%s has priority %d, and %s, the root of its tree, has %d; name one PriorityClass in all groups of a tree",
				Title(g.Key), *g.Priority, Title(root.Key), *root.Priority),
		})
	case g.PreemptionPolicy != "" && root.PreemptionPolicy != "" && g.PreemptionPolicy != root.PreemptionPolicy:
		a.fault(Verdict{
			Reason: v1alpha1.ReasonPriorityDiffers,
			Message: fmt.Sprintf("%s has the preemptionPolicy %s, and %s, the root of its tree, has %s; name one PriorityClass in all groups of a tree",
				Title(g.Key), g.PreemptionPolicy, Title(root.Key), root.PreemptionPolicy),
		})
	}
	if v := g.unready(); IsTree(g.Key) && v != (Verdict{}) {
		a.wait(g, v)
	}
}

// wait records that a group cannot be scheduled yet, for the reason v. A reason that only a change
// by a user can end is also a flaw. Examples of such reasons are a name in both APIs, and an
// unsupported field.
func (a *assembly) wait(g *Group, v Verdict) {
	if g.Ambiguous || g.Unsupported != "" {
		a.fault(v)
	}
	a.waits = cmp.Or(a.waits, v)
}

// belowGang records a flaw if a child of a gang of groups has the basic policy.
func (a *assembly) belowGang(above *Group, key types.NamespacedName) {
	g, ok := a.trees.source.Group(key)
	if !ok || g.Template != "" || g.MinCount > 0 || g.MinGroupCount > 0 {
		return
	}
	a.fault(Verdict{
		Reason: v1alpha1.ReasonUnsupported,
		Message: fmt.Sprintf("%s has the basic scheduling policy below %s, which has the gang policy; groups of a gang need the gang policy",
			Title(key), Title(above.Key)),
	})
}

// leaf checks a PodGroup of the tree: whether it can be scheduled, its fields, and its queue.
func (a *assembly) leaf(g *Group) {
	if v := g.unready(); v != (Verdict{}) {
		a.wait(g, v)
	}
	field := ""
	switch {
	case g.TopologyKey != "" || len(g.PreferredKeys) > 0:
		field = "spec.schedulingConstraints"
	case g.PreemptionPriorityClass != "":
		field = "spec.preemptionPriorityClassName"
	}
	if field != "" {
		a.fault(Verdict{
			Reason:  v1alpha1.ReasonUnsupported,
			Message: fmt.Sprintf("%s has %s, which Reprieve does not support in a tree of groups", Title(g.Key), field),
		})
	}
	if a.first == nil {
		a.first = g
		return
	}
	if mine, other := queueNamed(g), queueNamed(a.first); mine != other {
		a.fault(Verdict{
			Reason: v1alpha1.ReasonQueueDiffers,
			Message: fmt.Sprintf("%s names the Queue %q, and %s of the same tree names %q; name one Queue in all PodGroups of a tree",
				Title(g.Key), mine, Title(a.first.Key), other),
		})
	}
}

// queueNamed returns the queue that a PodGroup names, in its spec or by its label; "" for none.
func queueNamed(g *Group) string { return cmp.Or(g.Queue, g.Labels[v1alpha1.LabelQueue]) }
