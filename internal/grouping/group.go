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
	// Owner is a reference to the object. It is not the group's controller, and its deletion does
	// not wait for the group. If Ownerless is true, there are only pods, and the reference has only
	// names.
	Owner     metav1.OwnerReference
	Ownerless bool
	// Part distinguishes the group from others of the same object: its replica, role or both. It is
	// "" for the only group.
	Part string
	// MinCount is the number of members that the gang needs. Over is how many of these members the
	// controller does not create any more, because their part of the work is done.
	MinCount, Over int
	// Suspended is true while the object has no pods. Ended is true if the object is deleted, or no
	// longer has such a group.
	Suspended, Ended bool
	// Finished is true once the object's work is done. No more pods will come unless it is started
	// again.
	Finished bool
	// Surplus is true for a replica past the object's number of replicas. It may still have pods
	// while it replaces others.
	Surplus bool
	Choice  Choice
	// Note describes changes of the object that are not in force yet; "" for none.
	Note string
}

// Group returns a derived group; false if it is not derived or not known.
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
	p := o.planOf(m.suffix.unit)
	count, over := p.members(o.sizes(p, m.suffix.unit), m.suffix)
	return Group{
		Owner:     metav1.OwnerReference{APIVersion: o.gvk.GroupVersion().String(), Kind: o.gvk.Kind, Name: o.name, UID: o.uid},
		Ownerless: !o.rule.hasObjects(),
		Part:      m.suffix.name(), MinCount: int(count), Over: int(over), Suspended: o.reading.Suspended, Finished: o.reading.Finished, Choice: p.choice, Note: o.noteOf(m.suffix.unit),
		Ended: o.gone || count == 0 || !r.hasGroup(o, m.suffix), Surplus: o.isSurplus(m.suffix),
	}, true
}

// hasGroup reports whether an object now has a group with a suffix.
func (r *Resolver) hasGroup(o *object, s suffix) bool {
	p := o.planOf(s.unit)
	if p.flaw != "" || p.perRole != (s.role != "") {
		return false
	}
	for _, settings := range r.profiles {
		if settings.has(o.kind) && p.grouped(settings) {
			return true
		}
	}
	return false
}

// isSurplus reports whether a unit is past its object's number of units. A unit without a number in
// its name is not.
func (o *object) isSurplus(s suffix) bool {
	n, err := strconv.ParseInt(s.unit, 10, 64)
	return o.rule.UnitLabel != "" && err == nil && n >= o.plan.reading.Units
}

// RoleOf returns the role of a pod in its derived group, and how many members of the role the group
// needs. It returns 0 for a pod without such a group.
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

// Recall registers a group that an earlier process has written, by its name and the object that
// owns it. The group may have no pods to derive it from.
func (r *Resolver) Recall(key types.NamespacedName, root types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.objects[root]
	if _, known := r.groups[key]; known || !ok || o.rule == nil || o.plan == nil || o.namespace != key.Namespace {
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
	// Finally, treat the rest of the name as a role that the object no longer has.
	roles := []string{""}
	for _, role := range o.plan.reading.Roles {
		roles = append(roles, role.Name)
	}
	for _, role := range append(roles, rest) {
		if s := (suffix{unit, role}); groupName(o, s) == key.Name {
			o.names[s], r.groups[key] = key, member{root, s}
			return
		}
	}
}

// IsBounded reports whether the group's priority may not exceed the priority of its pods.
// Administrators may lift that bound by the class of a namespace.
func (g *Group) IsBounded() bool { return !g.Choice.ClassOfNamespace }

// IsBounded reports whether a group is derived and bounded by the priority of its pods.
func (r *Resolver) IsBounded(key types.NamespacedName) bool {
	g, ok := r.Group(key)
	return ok && g.IsBounded()
}

// Needs returns the number of members that a group needs, given its current number. Towards the end
// of the object's work, the controller may create fewer members, and finished members may be gone.
// If at least MinCount members exist, the group needs MinCount.
func (g *Group) Needs(members int) int {
	if members < g.MinCount {
		return max(g.MinCount-g.Over, min(g.MinCount, 1))
	}
	return g.MinCount
}

// MinCount returns the minimum number of members that a derived group needs; false for a group that
// is not derived.
func (r *Resolver) MinCount(key types.NamespacedName) (int, bool) {
	g, ok := r.Group(key)
	return g.Needs(0), ok && !g.Ended
}
