package cluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Derived finds the derived groups: the groups of pods that name none. It derives them from the
// objects that own the pods.
type Derived interface {
	gang.Derived
	gang.Bounds
	gang.Roles
	// Hold returns the reason why a pod must wait until its owner is known; the zero Verdict for
	// none.
	Hold(pod *corev1.Pod) gang.Verdict
	// Leads returns the workers that a driver needs, according to the object that owns the driver;
	// false if the object does not say.
	Leads(pod *corev1.Pod) (gang.Lead, bool)
	// QueueOf returns the queue in the labels or annotations that another scheduler defines; "" for
	// none. It reads them only if the pod's profile allows it.
	QueueOf(pod *corev1.Pod) string
}

// DerivedOf returns a Derived that also assigns the pods of trees to the workloads of these trees.
// A nil Derived finds no derived groups, and nil trees change nothing.
func DerivedOf(derived Derived, trees *gang.Trees) Derived {
	if derived == nil {
		derived = Underived{}
	}
	if trees != nil {
		derived = treed{derived, trees}
	}
	return derived
}

// Underived is a Derived without derived groups.
type Underived struct{ gang.Named }

// AnchorsOf is part of gang.Derived.
func (Underived) AnchorsOf(*corev1.Pod) []string { return nil }

// Anchors is part of gang.Derived.
func (Underived) Anchors(types.NamespacedName) []string { return nil }

// Hold is part of Derived.
func (Underived) Hold(*corev1.Pod) gang.Verdict { return gang.Verdict{} }

// MinCount is part of gang.Roles.
func (Underived) MinCount(types.NamespacedName) (int, bool) { return 0, false }

// RoleOf is part of gang.Roles.
func (Underived) RoleOf(*corev1.Pod) (string, int) { return "", 0 }

// MayLead is part of gang.Derived.
func (Underived) MayLead(*corev1.Pod) bool { return false }

// Leads is part of Derived.
func (Underived) Leads(*corev1.Pod) (gang.Lead, bool) { return gang.Lead{}, false }

// IsBounded is part of gang.Bounds.
func (Underived) IsBounded(types.NamespacedName) bool { return false }

// QueueOf is part of Derived.
func (Underived) QueueOf(*corev1.Pod) string { return "" }

// treed is a Derived that assigns the pods of a tree to the workload of the tree. The PodGroups of
// the tree are the roles of that workload.
type treed struct {
	Derived
	trees *gang.Trees
}

// GroupOf is part of gang.Membership.
func (d treed) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	return d.trees.Membership(d.Derived).GroupOf(pod)
}

// MinCount is part of Derived.
func (d treed) MinCount(key types.NamespacedName) (int, bool) {
	if !gang.IsTree(key) {
		return d.Derived.MinCount(key)
	}
	g, ok := d.trees.Group(key)
	if !ok {
		return 0, false
	}
	return g.MinCount, true
}

// RoleOf is part of Derived.
func (d treed) RoleOf(pod *corev1.Pod) (role string, needed int) {
	if name, minCount, ok := d.trees.PartOf(pod); ok {
		return name, minCount
	}
	return d.Derived.RoleOf(pod)
}

// MinGroupCount returns the minGroupCount that the owner of a derived tree demands now; false for a
// tree that is not derived.
func (d treed) MinGroupCount(key types.NamespacedName) (int, bool) { return d.Derived.MinCount(key) }

// WorkloadOf returns the group that the members of a group are scheduled with. For a group in a
// tree, it is the group of the tree's workload.
func (r *Index) WorkloadOf(key types.NamespacedName) (*gang.Group, bool) {
	if r.Trees != nil {
		for _, leaf := range r.Trees.Leaves(key) {
			return r.Groups.Group(r.Trees.WorkloadOf(leaf))
		}
	}
	return r.Groups.Group(key)
}

// UnitOf returns the group that a pod is evicted with; false for a pod without a group.
func (r *Index) UnitOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	key, ok := r.GroupOf(pod)
	if !ok || !gang.IsTree(key) {
		return key, ok
	}
	named, _ := r.Trees.PodGroupOf(pod)
	return r.Trees.UnitOf(named), true
}

// behind returns the reason why a derived or bounded gang is blocked as a whole, before any member
// has a node. For example, its PodGroup does not count all members yet, or outranks one of its
// pods. Once members have nodes, the gang is not blocked. Only pods that the group outranks are
// then blocked.
func (o *Placements) behind(g *gang.Group, members *gang.Members) gang.Verdict {
	want, derived := o.index.Derived.MinCount(g.Key)
	if !derived && !g.Bounded || !g.IsGang() || o.Through(members) > 0 {
		return gang.Verdict{}
	}
	for _, pod := range slices.Concat(members.Pending, members.Gated) {
		if v := gang.Outranked(o.index.Derived, o.index.Groups, pod); v != (gang.Verdict{}) {
			return v
		}
	}
	if g.Tree != nil {
		return o.index.behindInTree(g)
	}
	if !derived || g.MinCount >= want {
		return gang.Verdict{}
	}
	return gang.Verdict{
		Reason:  v1alpha1.ReasonBehindItsObject,
		Message: fmt.Sprintf("PodGroup %s needs %d members now, and is placed after Reprieve has raised this number to %d", g.Key, g.MinCount, want),
	}
}

// behindInTree returns the reason why a tree is behind its object; the zero Verdict if it is not. A
// derived tree is behind if it needs fewer groups, or one of its groups fewer members, than its
// owner demands now. The method behind calls it.
func (r *Index) behindInTree(g *gang.Group) gang.Verdict {
	d, ok := r.Derived.(treed)
	if !ok {
		return gang.Verdict{}
	}
	if want, derived := d.MinGroupCount(g.Key); derived && g.Tree.Need < want {
		return gang.Verdict{
			Reason:  v1alpha1.ReasonBehindItsObject,
			Message: fmt.Sprintf("%s needs %d groups now, and is placed after Reprieve has raised this number to %d", gang.Title(g.Key), g.Tree.Need, want),
		}
	}
	for _, leaf := range g.Tree.Leaves() {
		if want, derived := d.MinCount(leaf); derived && g.Tree.NeedOf(leaf.Name) < want {
			return gang.Verdict{
				Reason:  v1alpha1.ReasonBehindItsObject,
				Message: fmt.Sprintf("PodGroup %s needs %d members now, and its tree is placed after Reprieve has raised this number to %d", leaf, g.Tree.NeedOf(leaf.Name), want),
			}
		}
	}
	return gang.Verdict{}
}
