package grouping

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Group describes a derived PodGroup.
type Group struct {
	// Owner refers to the object that the group is derived from. The reference is not the
	// controller reference of the PodGroup and does not block the object's deletion.
	Owner metav1.OwnerReference
	// Ownerless is true for a gang that consists of pods only. Owner then has only a kind and a
	// name.
	Ownerless bool
	// Part distinguishes the group from other groups of the same object: it has the replica, the
	// role or both. It is empty if the object has one group.
	Part string
	// Tree is true for a CompositePodGroup, which joins the groups of the object to a tree.
	// MinCount is the number of these groups that the tree needs, and Parts are the groups that may
	// exist.
	Tree  bool
	Parts []types.NamespacedName
	// Parent is the key of the tree that the group is a part of. It is zero for other groups.
	// Outside is true if the group is placed outside of the tree; see [Resolver.SetOutside].
	Parent  types.NamespacedName
	Outside bool
	// MinCount is the number of members that the gang needs. Over is the number of these members
	// whose work is done, so that the controller no longer creates them.
	MinCount, Over int
	// Suspended is true while the object is suspended and has no pods. Ended is true if the object
	// was deleted or no longer has this group.
	Suspended, Ended bool
	// Finished is true if the object's work is done. It gets no more pods unless it is started
	// again.
	Finished bool
	// Surplus is true for a replica whose index is past the object's number of replicas. During a
	// rollout, such a replica may still have pods.
	Surplus bool
	Choice  Choice
	// Note describes changes of the object that do not apply yet. It is empty if there are none.
	Note string
}

// Group returns the derived group with the key. It returns false if no such group is derived or
// known.
func (r *Resolver) Group(key types.NamespacedName) (Group, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, ok := r.groups[key]
	if !ok {
		return Group{}, false
	}
	o, ok := r.objects[m.root]
	if !ok || o.plan == nil {
		return Group{}, false
	}
	if m.suffix.tree {
		return r.treeOf(o), true
	}
	p := o.planOf(m.suffix.unit)
	sizes := o.sizes(p, m.suffix.unit)
	count, over := p.members(sizes, m.suffix)
	choice := p.choice
	if p.tree {
		choice = choice.ofPart()
	}
	parent := p.parentOf(o, sizes, m.suffix)
	return Group{
		Parent: parent, Outside: parent.Name != "" && o.outside[m.suffix],
		Owner:     o.reference(),
		Ownerless: !o.rule.hasObjects(),
		Part:      m.suffix.name(), MinCount: int(count), Over: int(over), Suspended: o.reading.Suspended, Finished: o.reading.Finished, Choice: choice, Note: o.noteOf(m.suffix.unit),
		Ended: o.gone || count == 0 || !r.hasGroup(o, m.suffix), Surplus: o.isSurplus(m.suffix),
	}, true
}

// hasGroup reports whether the object's current plan includes a group with the suffix.
func (r *Resolver) hasGroup(o *object, s suffix) bool {
	p := o.planOf(s.unit)
	if s.tree {
		p = o.treePlan()
	}
	if s.tree && !p.tree || !s.tree && p.perRole != (s.role != "") {
		return false
	}
	return r.derives(o, p)
}

// derives reports whether a plan for an object has groups in some profile.
func (r *Resolver) derives(o *object, p *plan) bool {
	if p.flaw != "" {
		return false
	}
	for _, settings := range r.profiles {
		if settings.has(o.kind) && p.grouped(settings) {
			return true
		}
	}
	return false
}

// isSurplus reports whether a replica's index is past the object's number of replicas. It returns
// false for a replica whose name is not a number.
func (o *object) isSurplus(s suffix) bool {
	n, err := strconv.ParseInt(s.unit, 10, 64)
	return o.rule.UnitLabel != "" && err == nil && n >= o.plan.reading.Units
}

// RoleOf returns the role of a pod in its derived group, and the number of members of that role
// that the group needs. The number is 0 for a pod without a derived group.
func (r *Resolver) RoleOf(pod *corev1.Pod) (role string, needed int) {
	settings, ok := r.profiles[pod.Spec.SchedulerName]
	if _, named := gang.GroupOf(pod); named || !ok {
		return "", 0
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	o, _, ok, _ := r.resolve(pod, settings)
	if !ok {
		return "", 0
	}
	unit := o.unitOf(pod)
	p := o.planOf(unit)
	size, _ := roleOf(o.rule, o.sizes(p, unit), pod)
	return size.Name, int(size.Count)
}

// Recall registers a group that an earlier process has derived, by the key of its PodGroup and the
// UID of its object. Without Recall, a group without pods would be unknown after a restart.
func (r *Resolver) Recall(key types.NamespacedName, root types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.objects[root]
	if _, known := r.groups[key]; known || !ok || o.rule == nil || o.plan == nil || o.namespace != key.Namespace {
		return
	}
	if key == keyOf(o, treeSuffix()) {
		r.register(o, treeSuffix())
		return
	}
	rest, ok := strings.CutPrefix(key.Name, baseName(o))
	if !ok {
		return
	}
	var unit string
	rest = strings.TrimPrefix(rest, "-")
	if o.rule.UnitLabel != "" {
		unit, rest, _ = strings.Cut(rest, "-")
	}
	// Compare the name with the roles of the object. If none matches, take the rest of the name as
	// a role that the object no longer has.
	roles := []string{""}
	for _, role := range o.plan.reading.Roles {
		roles = append(roles, role.Name)
	}
	for _, role := range append(roles, rest) {
		if s := (suffix{unit: unit, role: role}); keyOf(o, s) == key {
			r.register(o, s)
			return
		}
	}
}

// IsBounded reports whether the group's priority must not exceed the priority of its pods. The
// bound does not apply if the priority class comes from the namespace, which only administrators
// can change.
func (g *Group) IsBounded() bool { return !g.Choice.ClassOfNamespace }

// IsBounded reports whether the group with the key is derived and bounded by the priority of its
// pods. See [Group.IsBounded].
func (r *Resolver) IsBounded(key types.NamespacedName) bool {
	g, ok := r.Group(key)
	return ok && g.IsBounded()
}

// Needs returns the number of members that the group needs while it has the given number of
// members. Usually this is MinCount. Towards the end of the object's work, the controller no longer
// creates some members, and finished members may be deleted. So a group with fewer members than
// MinCount needs fewer.
func (g *Group) Needs(members int) int {
	if members < g.MinCount {
		return max(g.MinCount-g.Over, min(g.MinCount, 1))
	}
	return g.MinCount
}

// MinCount returns the minimum number of members that a derived group needs. It returns false if
// the group is not derived.
func (r *Resolver) MinCount(key types.NamespacedName) (int, bool) {
	g, ok := r.Group(key)
	return g.Needs(0), ok && !g.Ended
}
