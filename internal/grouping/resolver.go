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

// These are the reasons for blocking a pod without a group.
const (
	// ReasonOwnerUnknown means that the object that the pod belongs to is not known yet, or does
	// not exist.
	ReasonOwnerUnknown = "OwnerUnknown"
	// ReasonNotGroupable means that the object requests a group that cannot be derived.
	ReasonNotGroupable = "NotGroupable"
)

// Pods is the Resolver's interface to the pods of the scheduler.
type Pods interface {
	// Anchored returns the pods with an anchor, including finished pods. See [Resolver.AnchorsOf].
	Anchored(anchor string) []*corev1.Pod
	// MembershipChanged is called for a pod whose group has changed, or whose block has begun or
	// ended. The argument before is the previous group, and was is false if there was none.
	MembershipChanged(pod *corev1.Pod, before types.NamespacedName, was bool)
}

// Recorder records the objects that a Resolver uses, so that a replay can reproduce its results.
type Recorder interface {
	// Known is called when groups begin to use an object in a new state. The object has only the
	// fields that grouping reads. The Recorder must not change it.
	Known(resource schema.GroupVersionResource, u *unstructured.Unstructured)
	// Forgotten is called when groups no longer use an object.
	Forgotten(resource schema.GroupVersionResource, namespace, name string)
}

// Resolver maps pods to derived groups. It is safe for concurrent use and makes no API calls.
type Resolver struct {
	// The following four fields are set before use and do not change.
	rules    map[schema.GroupKind]*Rule
	profiles map[string]*Settings
	pods     Pods
	recorder Recorder
	// changed is called with the key of each group whose PodGroup may be outdated. holdChanged is
	// called with the key of each pod whose block has begun, ended or changed its reason.
	changed, holdChanged func(types.NamespacedName)

	// changing serializes changes of the state below. Take it before mu.
	changing sync.Mutex

	mu         sync.RWMutex
	kinds      map[schema.GroupKind]*kind
	objects    map[types.UID]*object
	byName     map[objectName]types.UID
	children   map[types.UID]map[types.UID]struct{}
	namespaces map[string]Choice
	groups     map[types.NamespacedName]member
}

// kind is a followed kind.
type kind struct {
	schema.GroupVersionKind
	resource string
	// trouble is the reason why the objects of the kind are unknown. It is empty if they are known.
	trouble string
	// wanted is true once a pod has been blocked because an object of this kind is unknown.
	wanted atomic.Bool
}

// object is an object of a followed kind, or a gang without an owner object.
type object struct {
	objectName
	gvk schema.GroupVersionKind
	uid types.UID
	// created is the creation time, or zero if it is unknown. replaced is the UID of the previous
	// object with the same name.
	created  metav1.Time
	replaced types.UID
	owner    *metav1.OwnerReference
	// gone is true if the object was deleted but some of its pods still exist.
	gone bool

	// seen is the object as last read.
	seen *unstructured.Unstructured
	// rule is nil for a kind that does not define groups itself. The fields below are used only if
	// rule is set.
	rule    *Rule
	reading Reading
	choice  Choice
	// plan is the current plan. It is nil until the namespace is known.
	plan *plan
	// kept maps a replica to the plan that it keeps while its pods run, if that is not the current
	// plan.
	kept map[string]*plan
	// note is the reason why some replica does not follow the object's current state. It is empty
	// if all replicas follow it.
	note string
	// said maps a replica to its size, according to an annotation of its youngest pod.
	said  map[string]saidSize
	names map[suffix]types.NamespacedName
	// outside has the groups that are placed outside of the tree; see [Resolver.SetOutside].
	outside map[suffix]bool
}

type objectName struct {
	kind            schema.GroupKind
	namespace, name string
}

// member identifies a derived group: its object (root) and its suffix.
type member struct {
	root   types.UID
	suffix suffix
}

var _ gang.Derived = (*Resolver)(nil)

// NewResolver returns a Resolver for the profiles, by name. It has no data until a [Follower] runs.
// It calls changed for each group whose PodGroup may be outdated. changed must not block.
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
			// Gangs of this rule have no owner object to follow.
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

// Used reports whether any profile derives groups.
func (r *Resolver) Used() bool { return len(r.rules) > 0 }

// Attach sets the source of pods. Call it before a Follower starts.
func (r *Resolver) Attach(pods Pods) { r.pods = pods }

// RecordTo sets the Recorder. Call it before a Follower starts.
func (r *Resolver) RecordTo(by Recorder) { r.recorder = by }

// TellHolds sets the function that is called for each pod whose block has begun, ended or changed
// its reason. The function must not block. Call TellHolds before a Follower starts.
func (r *Resolver) TellHolds(to func(pod types.NamespacedName)) { r.holdChanged = to }

// GroupOf returns the PodGroup of a pod: the group that the pod names, or else the derived group.
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

// Hold returns the reason why a pod is blocked until more is known about its group. It returns the
// zero Verdict if the pod is not blocked.
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

// name returns the name of a group and registers the group for later lookups. It returns false if
// the object is unknown.
func (r *Resolver) name(root types.UID, suffix suffix) (types.NamespacedName, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.objects[root]
	if !ok {
		return types.NamespacedName{}, false
	}
	return r.register(o, suffix), true
}

// register registers a group of an object and returns its key. The caller holds the lock mu.
func (r *Resolver) register(o *object, s suffix) types.NamespacedName {
	key := keyOf(o, s)
	o.names[s] = key
	r.groups[key] = member{o.uid, s}
	return key
}

// resolve returns the object that defines the pod's group, and the suffix of the group. If ok is
// false, the pod has no group. hold is then the reason why the pod is blocked, or zero if it is not
// blocked.
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

// partOf returns the suffix of the pod's group according to a plan. If ok is false, the pod has no
// group. hold is then the reason why the pod is blocked, or zero if it is not blocked.
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
			return not("the pod lacks the label %s, which names its replica", o.rule.UnitLabel)
		}
	}
	return s, true, gang.Verdict{}
}

// root returns the topmost object above a pod that the profile has a rule for. It returns nil if
// there is none.
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
	// The objects own each other in a cycle, so none of them is the topmost.
	return own, gang.Verdict{}
}

// deepest is the maximum number of owners above a pod that root follows.
const deepest = 8

// named returns the object that an owner reference names. Users may write any reference. So the
// namespace, kind and name must match the object with the UID.
func (r *Resolver) named(owner *metav1.OwnerReference, namespace string) (*object, bool) {
	o, ok := r.objects[owner.UID]
	return o, ok && o.objectName == objectName{groupKindOf(owner), namespace, owner.Name}
}

// leeway is how much older a pod may be than its object. Creation times are in whole seconds, and
// the clocks of two API servers may differ slightly.
const leeway = time.Second

// bearer returns the object that a pod names by a label or annotation. Usually it is the current
// object with the name. If the pod is older than the current object, bearer returns an earlier
// object with the name.
func (r *Resolver) bearer(named objectName, pod *corev1.Pod) (*object, bool) {
	o, ok := r.objects[r.byName[named]]
	for ok && o.isMadeAfter(pod) {
		o, ok = r.objects[o.replaced]
	}
	return o, ok
}

// isMadeAfter reports whether an object was created too long after a pod to be the pod's object.
func (o *object) isMadeAfter(pod *corev1.Pod) bool {
	return o.rule != nil && o.rule.MakesAll && !pod.CreationTimestamp.IsZero() && pod.CreationTimestamp.Add(leeway).Before(o.created.Time)
}

// isLostTo reports whether an object was deleted before a pod of it got a node. Usually the pod is
// deleted too. Until then the pod stays blocked. A process that starts now would not know the
// object, so it would block the pod too.
func (o *object) isLostTo(pod *corev1.Pod) bool { return o.gone && pod.Spec.NodeName == "" }

// unknown returns the verdict on a pod whose object is unknown. It also marks the kind of the
// object as wanted, so that a Follower looks for it.
func (r *Resolver) unknown(gk schema.GroupKind, name string) gang.Verdict {
	k, ok := r.kinds[gk]
	if !ok {
		// The gang has no owner object. The next look-up of the pod's group registers the gang.
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

// String returns the kind and the name of the object.
func (o *object) String() string { return o.kind.Kind + " " + o.name }
