package grouping

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// HasTrees reports whether a tree is derived for any object.
func (r *Resolver) HasTrees() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, o := range r.objects {
		if o.plan != nil && o.plan.tree {
			return true
		}
	}
	return false
}

// treeSuffix returns the suffix of the CompositePodGroup of an object.
func treeSuffix() suffix { return suffix{tree: true} }

// flawOfTree returns the reason why the groups of an object cannot form a tree; "" for none.
func (p *plan) flawOfTree(rule *Rule) string {
	if p.reading.InOrder {
		return fmt.Sprintf("its roles start one after the other, so no tree can span them; set the annotation %s to %q",
			v1alpha1.AnnotationGangPer, v1alpha1.GangPerRole)
	}
	if rule.UnitLabel != "" && rule.Units == "" {
		return fmt.Sprintf("its rule in the configuration has no path for the number of replicas (units), so no tree can span them; "+
			"set the annotation %s to %q, or add the path", v1alpha1.AnnotationGangPer, v1alpha1.GangPerObject)
	}
	// All leaders would have to run before the first worker starts. But the bound on drivers lets
	// only a few leaders run without their workers.
	leads := func(of Role) bool {
		return of.Leads && slices.ContainsFunc(p.reading.Roles, func(role Size) bool { return role.Name == of.Name && role.Alone })
	}
	if rule.UnitLabel != "" && slices.ContainsFunc(rule.Roles, leads) {
		return fmt.Sprintf("the leader of each replica starts before its workers, so no tree can span the replicas; set the annotation %s to %q",
			v1alpha1.AnnotationGangPer, v1alpha1.GangPerObject)
	}
	for _, s := range []struct{ annotation, value string }{
		{v1alpha1.AnnotationTopologyKey, p.choice.TopologyKey},
		{v1alpha1.AnnotationPreferredTopologyKey, p.choice.PreferredKeys},
		{v1alpha1.AnnotationPreemptionPriorityClass, p.choice.PreemptionPriorityClass},
	} {
		if s.value != "" {
			return fmt.Sprintf("the annotation %s is %q, which has no meaning for a tree; remove it, or set the annotation %s to another value than %q",
				s.annotation, s.value, v1alpha1.AnnotationGangPer, v1alpha1.GangPerTree)
		}
	}
	return ""
}

// parentOf returns the key of the tree that a group is a part of; zero for none. A role that needs
// no pods is not a part. Otherwise, the tree could count it in place of a role that needs pods.
func (p *plan) parentOf(o *object, sizes []Size, s suffix) types.NamespacedName {
	if !p.tree || !p.needs(sizes, s.role) || o.isStray(s) {
		return types.NamespacedName{}
	}
	return keyOf(o, treeSuffix())
}

// isStray reports whether a replica is past the number of replicas, and no other replica is in the
// tree. There is no tree then, and the replica must not wait for one. During a rollout, the object
// may need the replica before it stops another one.
func (o *object) isStray(s suffix) bool {
	return o.isSurplus(s) && o.plan.reading.Units > 0 && o.partsOf(o.treePlan()) == 0
}

// isPart reports whether a group is a part of a tree, according to the current sizes of its roles.
func (p *plan) isPart(s suffix) bool { return p.tree && p.needs(p.reading.Roles, s.role) }

// needs reports whether a gang needs pods of a role. If the groups of the plan span all roles, role
// is "", and needs reports whether any role needs pods.
func (p *plan) needs(sizes []Size, role string) bool {
	return slices.ContainsFunc(sizes, func(size Size) bool {
		return !size.Alone && size.Count > 0 && (!p.perRole || size.Name == role)
	})
}

// partsOf returns the number of groups that the tree of an object needs, according to a plan.
func (o *object) partsOf(p *plan) int64 {
	if !p.tree {
		return 0
	}
	if o.rule.UnitLabel != "" {
		return o.unitsInTree(p)
	}
	var roles int64
	for _, role := range p.reading.Roles {
		if p.needs(p.reading.Roles, role.Name) && !o.outside[suffix{role: role.Name}] {
			roles++
		}
	}
	return roles
}

// unitsInTree returns the number of replicas that the tree of an object needs. A replica with
// running pods may keep an earlier plan. Such a replica is in the tree only if that plan has a
// tree.
func (o *object) unitsInTree(p *plan) int64 {
	var count int64
	if o.plan.tree && p.needs(p.reading.Roles, "") {
		count = p.reading.Units
	}
	for unit, kept := range o.kept {
		switch counts := o.plan.tree && !o.isSurplus(suffix{unit: unit}); {
		case counts && !kept.tree:
			count--
		case !counts && kept.tree && !o.plan.tree:
			count++
		}
	}
	for s := range o.outside {
		if s.role == "" && o.planOf(s.unit).tree && !o.isSurplus(s) {
			count--
		}
	}
	return max(count, 0)
}

// SetOutside records whether a derived group is placed outside of the tree that it is a part of.
// Some of its members have a node then, and its PodGroup does not name the tree. Until none of its
// members has a node, the part cannot join the tree. So the tree does not count it. Otherwise the
// other parts would wait for it.
//
// The tree may need fewer groups after the change, and no other event may report this. So
// SetOutside reports the pods of the object that have no node.
func (r *Resolver) SetOutside(key types.NamespacedName, outside bool) {
	r.changing.Lock()
	defer r.changing.Unlock()
	o := r.setOutside(key, outside)
	if o == nil {
		return
	}
	r.tell([]*object{o})
	for _, pod := range r.podsBelow(o) {
		if group, ok := r.GroupOf(pod); ok && pod.Spec.NodeName == "" {
			r.pods.MembershipChanged(pod, group, true)
		}
	}
}

// setOutside changes the record of SetOutside. It returns the object of the group; nil if nothing
// has changed.
func (r *Resolver) setOutside(key types.NamespacedName, outside bool) *object {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.groups[key]
	o, ok := r.objects[m.root]
	if !ok || m.suffix.tree || o.outside[m.suffix] == outside {
		return nil
	}
	if delete(o.outside, m.suffix); outside {
		if o.outside == nil {
			o.outside = make(map[suffix]bool)
		}
		o.outside[m.suffix] = true
	}
	return o
}

// treeOf returns the group that describes the CompositePodGroup of an object. The caller holds the
// lock mu.
func (r *Resolver) treeOf(o *object) Group {
	p := o.treePlan()
	out := Group{
		Tree: true, Owner: o.reference(), Ownerless: !o.rule.hasObjects(), MinCount: int(o.partsOf(p)),
		Suspended: o.reading.Suspended, Finished: o.reading.Finished, Choice: p.choice.ofTree(), Note: o.note,
	}
	for s, key := range o.names {
		part := o.planOf(s.unit)
		if !s.tree && r.hasGroup(o, s) && !o.outside[s] && part.parentOf(o, o.sizes(part, s.unit), s).Name != "" {
			out.Parts = append(out.Parts, key)
		}
	}
	slices.SortFunc(out.Parts, func(a, b types.NamespacedName) int { return cmp.Compare(a.Name, b.Name) })
	out.Ended = o.gone || out.MinCount == 0 || !r.hasGroup(o, treeSuffix())
	return out
}

// treePlan returns the plan that defines the tree of an object: the current plan if it has a tree.
// Otherwise, it returns the first kept plan with a tree, in the order of the replicas' names. If no
// plan has a tree, it returns the current plan.
func (o *object) treePlan() *plan {
	if o.plan.tree {
		return o.plan
	}
	for _, unit := range slices.Sorted(maps.Keys(o.kept)) {
		if p := o.kept[unit]; p.tree {
			return p
		}
	}
	return o.plan
}

// reference returns an owner reference to the object.
func (o *object) reference() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: o.gvk.GroupVersion().String(), Kind: o.gvk.Kind, Name: o.name, UID: o.uid}
}

// ofPart returns the choice for a group of a tree. It removes a disruption mode that applies only
// to the whole tree.
func (c Choice) ofPart() Choice {
	if c.DisruptionMode == string(v1alpha1.CompositeDisruptionModeAll) {
		c.DisruptionMode = ""
	}
	return c
}

// ofTree returns the choice for a CompositePodGroup. A CompositePodGroup has no queue, and the
// disruption mode PodGroup stands for its mode All.
func (c Choice) ofTree() Choice {
	out := Choice{Gang: c.Gang, Per: c.Per, PriorityClass: c.PriorityClass, ClassOfNamespace: c.ClassOfNamespace}
	if c.DisruptionMode == string(v1alpha1.CompositeDisruptionModeAll) {
		out.DisruptionMode = string(v1alpha1.DisruptionModePodGroup)
	}
	return out
}
