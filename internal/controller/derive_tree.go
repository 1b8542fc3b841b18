package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// WithoutTrees sets the reason why Derive cannot write CompositePodGroups. Derive then reports the
// reason to the pods of each object that requests a tree. Call WithoutTrees before Reconcile.
func (r *Derive) WithoutTrees(why string) { r.noTrees = why }

// IsOutside reports whether members of a group have a node, and its PodGroup does not name the tree
// that the group is a part of.
func IsOutside(pg *v1alpha1.PodGroup, g grouping.Group, members *gang.Members) bool {
	return g.Parent.Name != "" && members.Placed() > 0 && gang.FromPodGroup(pg).Parent != g.Parent
}

// groupOf returns the derived group with a key; false if there is none. It first records whether
// the group is placed outside of its tree. pg is its PodGroup, if exists is true.
func (r *Derive) groupOf(key types.NamespacedName, pg *v1alpha1.PodGroup, exists bool) (grouping.Group, bool) {
	g, ok := r.derived.Group(key)
	if !ok || g.Parent.Name == "" && !g.Outside {
		return g, ok
	}
	members := r.members.Members(key)
	if outside := exists && IsOutside(pg, g, &members); outside != g.Outside {
		r.derived.SetOutside(key, outside)
		return r.derived.Group(key)
	}
	return g, true
}

// derivationOf returns a derived group with its members.
func (r *Derive) derivationOf(key types.NamespacedName, g grouping.Group) *Derivation {
	d := &Derivation{Group: g, Key: key, Members: &gang.Members{}}
	tree := g
	if !g.Tree {
		own := r.members.Members(key)
		d.Members, d.Tree = &own, &own
		if g.Parent.Name == "" || g.Outside {
			return d
		}
		tree, _ = r.derived.Group(g.Parent)
		d.Others = []types.NamespacedName{g.Parent}
	}
	d.Others = append(d.Others, tree.Parts...)
	var all gang.Members
	for _, part := range tree.Parts {
		members := r.members.Members(part)
		all = all.And(&members)
	}
	if d.Tree = &all; g.Tree {
		d.Members = &all
	}
	return d
}

// createTree creates the CompositePodGroup above a group if it does not exist. It returns true if
// the group needs none. If Derive cannot write CompositePodGroups, it returns false and reports the
// reason to the pods.
func (r *Derive) createTree(ctx context.Context, d *Derivation) (ready bool, err error) {
	if d.Parent.Name == "" {
		return true, nil
	}
	if r.noTrees != "" {
		r.refuse(d, r.noTrees)
		return false, nil
	}
	var parent v1alpha1.PodGroup
	err = r.client.Get(ctx, d.Parent, &parent)
	if apierrors.IsNotFound(err) {
		_, err = r.Reconcile(ctx, reconcile.Request{NamespacedName: d.Parent})
		return err == nil, err
	}
	if err != nil {
		return false, fmt.Errorf("get %s: %w", gang.Title(d.Parent), err)
	}
	return true, nil
}

// FollowTree gives a new group the class and the queue of the other groups of its tree, if a member
// of the tree has a node. Each tree has one class and one queue, and groups that exist keep their
// settings as long as any member has a node. find returns the PodGroup of a group; nil for none.
func FollowTree(pg *v1alpha1.PodGroup, d *Derivation, find func(types.NamespacedName) (*v1alpha1.PodGroup, error)) error {
	if d.Tree.Placed() == 0 {
		return nil
	}
	hasClass, hasQueue := false, d.Group.Tree
	for _, key := range d.Others {
		if hasClass && hasQueue {
			break
		}
		other, err := find(key)
		if err != nil {
			return err
		}
		if other == nil || !BelongsTo(other, d.Group) {
			continue
		}
		if !hasClass {
			hasClass = true
			pg.Spec.PriorityClassName, pg.Spec.Priority, pg.Spec.PreemptionPolicy = other.Spec.PriorityClassName, other.Spec.Priority, other.Spec.PreemptionPolicy
			copyAnnotation(pg, other, v1alpha1.AnnotationClassOf)
		}
		if !hasQueue && !gang.IsTree(key) {
			hasQueue = true
			pg.Spec.QueueName = other.Spec.QueueName
			copyAnnotation(pg, other, v1alpha1.AnnotationQueueOf)
		}
	}
	return nil
}

// copyAnnotation gives a PodGroup the value of an annotation of another PodGroup, or removes the
// annotation if the other PodGroup lacks it.
func copyAnnotation(pg, from *v1alpha1.PodGroup, name string) {
	if value, ok := from.Annotations[name]; ok {
		metav1.SetMetaDataAnnotation(&pg.ObjectMeta, name, value)
		return
	}
	delete(pg.Annotations, name)
}

// find returns the PodGroup of a group; nil for none.
func (r *Derive) find(ctx context.Context) func(types.NamespacedName) (*v1alpha1.PodGroup, error) {
	return func(key types.NamespacedName) (*v1alpha1.PodGroup, error) {
		pg := &v1alpha1.PodGroup{}
		if err := r.client.Get(ctx, key, pg); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return pg, nil
	}
}

// removeLast deletes a PodGroup or a CompositePodGroup whose run is over. A CompositePodGroup stays
// as long as PodGroups name it as their parent: without it, they would have an error. If members of
// each of them have a node, the CompositePodGroup then needs only these groups.
func (r *Derive) removeLast(ctx context.Context, pg *v1alpha1.PodGroup) (reconcile.Result, error) {
	name, isTree := gang.CompositeOf(client.ObjectKeyFromObject(pg))
	if !isTree {
		return r.remove(ctx, pg)
	}
	var list v1alpha1.PodGroupList
	if err := r.client.List(ctx, &list, client.InNamespace(pg.Namespace)); err != nil {
		return reconcile.Result{}, fmt.Errorf("list PodGroups of namespace %s: %w", pg.Namespace, err)
	}
	var parts int32
	for i := range list.Items {
		if ptr.Deref(list.Items[i].Spec.ParentCompositePodGroupName, "") != name.Name {
			continue
		}
		parts++
		if members := r.members.Members(client.ObjectKeyFromObject(&list.Items[i])); members.Placed() == 0 {
			// The PodGroup will be replaced by one without a parent. Do not lower its minCount,
			// because its members could then start before the replacement.
			return reconcile.Result{}, nil
		}
	}
	if parts == 0 {
		return r.remove(ctx, pg)
	}
	return r.lower(ctx, pg, parts)
}

// lower lowers the minCount of a PodGroup to a number. It does nothing if minCount is not higher.
func (r *Derive) lower(ctx context.Context, pg *v1alpha1.PodGroup, to int32) (reconcile.Result, error) {
	if pg.Spec.SchedulingPolicy.Gang == nil || pg.Spec.SchedulingPolicy.Gang.MinCount <= to {
		return reconcile.Result{}, nil
	}
	before := pg.DeepCopy()
	pg.Spec.SchedulingPolicy.Gang.MinCount = to
	if err := r.client.Patch(ctx, pg, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return retryConflict(fmt.Errorf("lower the count of %s: %w", gang.Title(client.ObjectKeyFromObject(pg)), err))
	}
	return reconcile.Result{}, nil
}

// kindWritten returns the kind of the object that a PodGroup stands for.
func kindWritten(pg *v1alpha1.PodGroup) string {
	return kindOf(&grouping.Group{Tree: gang.IsTree(client.ObjectKeyFromObject(pg))})
}

// regarding returns the object that a PodGroup stands for, as the object of an event.
func regarding(pg *v1alpha1.PodGroup) runtime.Object {
	if !gang.IsTree(client.ObjectKeyFromObject(pg)) {
		return pg
	}
	return gang.ToComposite(pg)
}

// withParent returns requests for a PodGroup and for the CompositePodGroup that it names.
func withParent(_ context.Context, pg *v1alpha1.PodGroup) []reconcile.Request {
	out := []reconcile.Request{requestFor(pg)}
	if parent := ptr.Deref(pg.Spec.ParentCompositePodGroupName, ""); parent != "" {
		out = append(out, reconcile.Request{NamespacedName: gang.TreeKey(pg.Namespace, parent)})
	}
	return out
}

// partRequests returns requests for the groups below a CompositePodGroup. Their settings must equal
// the settings of the CompositePodGroup, which may have been created again.
func (in *Inputs) partRequests(_ context.Context, c *v1alpha1.CompositePodGroup) []reconcile.Request {
	var out []reconcile.Request
	for _, part := range in.Trees.Below(gang.TreeKey(c.Namespace, c.Name)) {
		out = append(out, reconcile.Request{NamespacedName: part})
	}
	return out
}
