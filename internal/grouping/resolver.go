package grouping

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Reasons for which a pod is held back that has no group yet.
const (
	// ReasonOwnerUnknown: the object that the pod belongs to is not known, or not yet.
	ReasonOwnerUnknown = "OwnerUnknown"
	// ReasonNotGroupable: the object asks for a group, and does not say which.
	ReasonNotGroupable = "NotGroupable"
)

// Pods is what the Resolver asks of, and tells, the scheduler.
type Pods interface {
	// Anchored are the pods with an anchor, those that have finished included.
	Anchored(anchor string) []*corev1.Pod
	// MembershipChanged is told of a pod that belongs to another group than before, or is not held back any more.
	MembershipChanged(pod *corev1.Pod, before types.NamespacedName, was bool)
}

// Witness is told of the objects that a Resolver goes by, so that the same can be found out from them again.
type Witness interface {
	// Known is told of an object that counts from now on, reduced to what groups go by. It must not be changed.
	Known(resource schema.GroupVersionResource, u *unstructured.Unstructured)
	// Forgotten is told of an object that does not count any more.
	Forgotten(resource schema.GroupVersionResource, namespace, name string)
}

// Resolver knows which pods belong to which derived group. It is safe for concurrent use and never blocks on calls.
type Resolver struct {
	// These do not change.
	rules    map[schema.GroupKind]*Rule
	profiles map[string]*Settings
	pods     Pods
	witness  Witness
	// changed is told of groups that may have to be written anew, and holdChanged of pods that are held back for another reason
	// than before, or for none.
	changed, holdChanged func(types.NamespacedName)

	// changing is held for one change of what is known at a time.
	changing sync.Mutex

	mu         sync.RWMutex
	kinds      map[schema.GroupKind]*kind
	objects    map[types.UID]*object
	byName     map[objectName]types.UID
	children   map[types.UID]map[types.UID]struct{}
	namespaces map[string]Choice
	groups     map[types.NamespacedName]member
}

// kind is one whose objects are followed.
type kind struct {
	schema.GroupVersionKind
	resource string
	// trouble says why its objects are not known; "" where they are.
	trouble string
	// wanted is true once a pod has been held back for want of one.
	wanted atomic.Bool
}

// object is one of a kind that is followed.
type object struct {
	objectName
	gvk schema.GroupVersionKind
	uid types.UID
	// created is when it was; zero where that is not known. The object replaced had its name before.
	created  metav1.Time
	replaced types.UID
	owner    *metav1.OwnerReference
	// gone is true where it has been deleted, and pods of it are left.
	gone bool

	// seen is the object as it was read last.
	seen *unstructured.Unstructured
	// rule is nil for a kind that only leads to others. The rest is for those that have one.
	rule    *Rule
	reading Reading
	choice  Choice
	// plan is what counts; nil as long as its namespace is not known. It does not for units that are among kept, which have another one
	// as long as they run.
	plan *plan
	kept map[string]*plan
	// note says why the plan of something is not what the object says now; "" where it is.
	note string
	// said is what the youngest pods of units say of the size of those.
	said  map[string]saidSize
	names map[suffix]types.NamespacedName
}

type objectName struct {
	kind            schema.GroupKind
	namespace, name string
}

// member names a group by its object.
type member struct {
	root   types.UID
	suffix suffix
}

var _ gang.Derived = (*Resolver)(nil)

// NewResolver returns a Resolver for the pods of profiles, by their names. It knows nothing until a [Follower] runs. The
// function changed must not block.
func NewResolver(profiles map[string]*Settings, changed func(types.NamespacedName)) (*Resolver, error) {
	rules, err := Merge(profiles)
	if err != nil {
		return nil, err
	}
	r := &Resolver{
		rules: make(map[schema.GroupKind]*Rule), profiles: profiles, changed: changed, holdChanged: func(types.NamespacedName) {}, kinds: make(map[schema.GroupKind]*kind),
		objects: make(map[types.UID]*object), byName: make(map[objectName]types.UID), children: make(map[types.UID]map[types.UID]struct{}),
		namespaces: make(map[string]Choice), groups: make(map[types.NamespacedName]member),
	}
	for _, rule := range rules {
		r.rules[rule.Kind.GroupKind()] = rule
		if !rule.hasObjects() {
			// Nothing is read.
			continue
		}
		for _, through := range append([]Through{{rule.Kind, rule.Resource}}, rule.Through...) {
			k := through.Kind.GroupKind()
			if _, ok := r.kinds[k]; !ok || k == rule.Kind.GroupKind() {
				r.kinds[k] = &kind{GroupVersionKind: through.Kind, resource: through.Resource, trouble: "they have not been read yet"}
			}
		}
	}
	return r, nil
}

// Used reports whether any profile has groups derived.
func (r *Resolver) Used() bool { return len(r.rules) > 0 }

// Attach names the scheduler. Call it before anything is followed.
func (r *Resolver) Attach(pods Pods) { r.pods = pods }

// Witnessed names who is told of what is known. Call it before anything is followed.
func (r *Resolver) Witnessed(by Witness) { r.witness = by }

// TellHolds names who is told of pods that are held back for another reason than before, or for none; it must not block. Call it before
// anything is followed.
func (r *Resolver) TellHolds(to func(pod types.NamespacedName)) { r.holdChanged = to }

// GroupOf names the PodGroup that a pod belongs to: the one that it names itself, else the one that is derived for it.
func (r *Resolver) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	if key, ok := gang.GroupOf(pod); ok {
		return key, true
	}
	settings, ok := r.profiles[pod.Spec.SchedulerName]
	if !ok {
		return types.NamespacedName{}, false
	}
	r.adopt(pod, settings)
	r.mu.RLock()
	o, suffix, ok, _ := r.resolve(pod, settings)
	key, known := types.NamespacedName{}, false
	if ok {
		key, known = o.names[suffix]
	}
	r.mu.RUnlock()
	if !ok || known {
		return key, ok
	}
	return r.name(o.uid, suffix)
}

// Hold says why a pod cannot be considered before more is known of what it belongs to; the zero Verdict for a pod that can.
func (r *Resolver) Hold(pod *corev1.Pod) gang.Verdict {
	settings, ok := r.profiles[pod.Spec.SchedulerName]
	if _, named := gang.GroupOf(pod); named || !ok {
		return gang.Verdict{}
	}
	r.adopt(pod, settings)
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, _, _, hold := r.resolve(pod, settings)
	return hold
}

// name gives a group its name.
func (r *Resolver) name(root types.UID, suffix suffix) (types.NamespacedName, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.objects[root]
	if !ok {
		return types.NamespacedName{}, false
	}
	key := types.NamespacedName{Namespace: o.namespace, Name: groupName(o, suffix)}
	o.names[suffix] = key
	r.groups[key] = member{root, suffix}
	return key, true
}

// resolve finds the object that a pod belongs to, and the part of it that is its group; or says why neither is known.
func (r *Resolver) resolve(pod *corev1.Pod, settings *Settings) (o *object, s suffix, ok bool, hold gang.Verdict) {
	o, hold = r.root(pod, settings)
	switch {
	case o == nil:
		return nil, s, false, hold
	case o.plan == nil:
		return nil, s, false, gang.Verdict{Reason: ReasonOwnerUnknown, Message: fmt.Sprintf("namespace %s is not known yet", o.namespace)}
	}
	s, ok, hold = o.partOf(o.planOf(o.unitOf(pod)), pod, settings)
	return o, s, ok, hold
}

// partOf is the part of an object whose group a pod is in by a plan; false for a pod that is in none, or why that cannot be said.
func (o *object) partOf(p *plan, pod *corev1.Pod, settings *Settings) (s suffix, ok bool, hold gang.Verdict) {
	if !p.grouped(settings) || o.rule.Aside.isOn(pod) {
		return s, false, gang.Verdict{}
	}
	not := func(format string, args ...any) (suffix, bool, gang.Verdict) {
		return suffix{}, false, gang.Verdict{
			Reason: ReasonNotGroupable, Message: fmt.Sprintf("no PodGroup can be made for %s: ", o) + fmt.Sprintf(format, args...),
		}
	}
	role, ok := roleOf(o.rule, p.reading.Roles, pod)
	if o.isLostTo(pod) && !role.Alone {
		return s, false, gang.Verdict{Reason: ReasonOwnerUnknown, Message: fmt.Sprintf("the pod belongs to %s, which has been deleted", o)}
	}
	if p.flaw != "" {
		return not("%s", p.flaw)
	}
	if flaw := o.disagrees(pod); flaw != "" {
		return not("%s", flaw)
	}
	switch {
	case !ok:
		return not("the pod's label %s is %q, which is none of its roles", o.rule.RoleLabel, pod.Labels[o.rule.RoleLabel])
	case role.Alone:
		return s, false, gang.Verdict{}
	}
	if p.perRole {
		s.role = role.Name
	}
	if o.rule.UnitLabel != "" {
		if s.unit = pod.Labels[o.rule.UnitLabel]; s.unit == "" {
			return not("the pod lacks the label %s, which says to which replica it belongs", o.rule.UnitLabel)
		}
	}
	return s, true, gang.Verdict{}
}

// root is the topmost object that a pod belongs to and the profile has a rule for; nil for none.
func (r *Resolver) root(pod *corev1.Pod, settings *Settings) (*object, gang.Verdict) {
	for _, rule := range settings.rules {
		if name := rule.nameIn(pod); name != "" {
			named := objectName{rule.Kind.GroupKind(), pod.Namespace, name}
			if o, ok := r.bearer(named, pod); ok {
				return o, gang.Verdict{}
			}
			return nil, r.unknown(named.kind, name)
		}
	}
	var own, top *object
	owner := metav1.GetControllerOfNoCopy(pod)
	for range deepest {
		if owner == nil || !settings.follows(groupKindOf(owner)) {
			return top, gang.Verdict{}
		}
		o, ok := r.named(owner, pod.Namespace)
		if !ok {
			return nil, r.unknown(groupKindOf(owner), owner.Name)
		}
		if settings.has(o.kind) {
			top = o
		}
		if own == nil {
			own = top
		}
		owner = o.owner
	}
	// Of objects that own each other, none is at the top.
	return own, gang.Verdict{}
}

// deepest is how many owners a pod may have, one above the other.
const deepest = 8

// named is the object that something in a namespace names as its owner. Users may write any reference: one that names an object of
// another namespace by its UID, or of another kind or name, names nothing.
func (r *Resolver) named(owner *metav1.OwnerReference, namespace string) (*object, bool) {
	o, ok := r.objects[owner.UID]
	return o, ok && o.objectName == objectName{groupKindOf(owner), namespace, owner.Name}
}

// leeway is by how much a pod may be older than the object that it was made for: creation times have whole seconds, and those of two
// API servers may differ a little.
const leeway = time.Second

// bearer is the object of a name to which a pod that names it belongs: the one that has it now, or one that had it before, where the
// pod is older than that.
func (r *Resolver) bearer(named objectName, pod *corev1.Pod) (*object, bool) {
	o, ok := r.objects[r.byName[named]]
	for ok && o.isMadeAfter(pod) {
		o, ok = r.objects[o.replaced]
	}
	return o, ok
}

// isMadeAfter reports whether an object is too young to have a pod that names it.
func (o *object) isMadeAfter(pod *corev1.Pod) bool {
	return o.rule != nil && o.rule.MakesAll && !pod.CreationTimestamp.IsZero() && pod.CreationTimestamp.Add(leeway).Before(o.created.Time)
}

// isLostTo reports whether an object is gone, and a pod has no node yet. In most cases the pod goes as well; where it stays, it hears the
// same from a process that starts later, which does not know the object.
func (o *object) isLostTo(pod *corev1.Pod) bool { return o.gone && pod.Spec.NodeName == "" }

// unknown is about an object that a pod belongs to.
func (r *Resolver) unknown(gk schema.GroupKind, name string) gang.Verdict {
	k, ok := r.kinds[gk]
	if !ok {
		// A gang without an object, which is made known again when the pod is looked at next.
		return gang.Verdict{Reason: ReasonOwnerUnknown, Message: fmt.Sprintf("the pod belongs to the gang %s, which is not known yet", name)}
	}
	k.wanted.Store(true)
	msg := fmt.Sprintf("the pod belongs to %s %s, which has been deleted, or is not known yet", gk.Kind, name)
	if k.trouble != "" {
		msg = fmt.Sprintf("the pod belongs to %s %s, and the scheduler knows no objects of that kind: %s", gk.Kind, name, k.trouble)
	}
	return gang.Verdict{Reason: ReasonOwnerUnknown, Message: msg}
}

func groupKindOf(owner *metav1.OwnerReference) schema.GroupKind {
	group, _, ok := strings.Cut(owner.APIVersion, "/")
	if !ok {
		group = ""
	}
	return schema.GroupKind{Group: group, Kind: owner.Kind}
}

// String is how messages name an object.
func (o *object) String() string { return o.kind.Kind + " " + o.name }
