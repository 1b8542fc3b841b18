package grouping

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Group is what a PodGroup that is derived is to be like.
type Group struct {
	// Owner is a reference to the object, which is no controller of the group and does not wait for it when it is deleted. Where
	// Ownerless is true, there is nothing but pods, and the reference has only names.
	Owner     metav1.OwnerReference
	Ownerless bool
	// Part is what tells the group from others of the same object: its replica, role or both; "" where it is the only one.
	Part string
	// MinCount is how many members there are to be. Over is how many of them are not to come any more, since that much of the
	// object's work is done.
	MinCount, Over int
	// Suspended is true while the object has no pods; Ended where it is gone, or has no such group any more.
	Suspended, Ended bool
	// Finished is true once the work of the object is over: no pods are to come any more, unless it is begun anew.
	Finished bool
	// Surplus is true for a replica past those that the object asks for. It may have pods all the same, while it replaces others.
	Surplus bool
	Choice  Choice
	// Note says what about the object does not count yet; "" for nothing.
	Note string
}

// Group describes a group; false for one that is not derived, or that nothing is known of.
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

// hasGroup reports whether an object has a group of that suffix now.
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

// isSurplus reports whether a unit is past those that an object asks for. One that is no number has no place in a count.
func (o *object) isSurplus(s suffix) bool {
	n, err := strconv.ParseInt(s.unit, 10, 64)
	return o.rule.UnitLabel != "" && err == nil && n >= o.plan.reading.Units
}

// RoleOf is the role that a pod has in its derived group, and how many of that role the group needs; 0 for a pod of no such group.
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

// Recall makes a group known that an earlier process has written, by its name and the object that owns it: none of its pods
// may be there to tell.
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
	// The last is for a role that the object has no more.
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

// IsBounded reports whether the group may stand no higher than each of its pods does by itself. Administrators may have it otherwise, by
// the class of a namespace.
func (g *Group) IsBounded() bool { return !g.Choice.ClassOfNamespace }

// IsBounded reports whether a group is derived, and may stand no higher than its pods.
func (r *Resolver) IsBounded(key types.NamespacedName) bool {
	g, ok := r.Group(key)
	return ok && g.IsBounded()
}

// Needs is how many members a group needs that has some. Towards the end of its object's work there may be no more to come than are
// left to do, and those that are done may be gone; as long as there are enough it does not matter.
func (g *Group) Needs(members int) int {
	if members < g.MinCount {
		return max(g.MinCount-g.Over, min(g.MinCount, 1))
	}
	return g.MinCount
}

// MinCount is how many members a derived group is to need at least; false for a group that is not derived.
func (r *Resolver) MinCount(key types.NamespacedName) (int, bool) {
	g, ok := r.Group(key)
	return g.Needs(0), ok && !g.Ended
}
