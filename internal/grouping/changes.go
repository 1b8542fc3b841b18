package grouping

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// groupState is the group of a pod, and the reason why it is blocked, before a change.
type groupState struct {
	key  types.NamespacedName
	was  bool
	hold gang.Verdict
}

// unseen is the reason recorded for pods that appear during a change. No Verdict has this reason,
// so such pods always count as changed.
const unseen = "unseen"

func (r *Resolver) standingOf(pod *corev1.Pod) groupState {
	key, was := r.GroupOf(pod)
	return groupState{key, was, r.Hold(pod)}
}

// Set adds or updates an object of a kind that the Resolver follows.
func (r *Resolver) Set(gk schema.GroupKind, u *unstructured.Unstructured) {
	r.changing.Lock()
	defer r.changing.Unlock()
	next := &object{
		objectName: objectName{gk, u.GetNamespace(), u.GetName()}, gvk: u.GroupVersionKind(), uid: u.GetUID(),
		created: u.GetCreationTimestamp(), owner: metav1.GetControllerOf(u), seen: u, rule: r.rules[gk], names: make(map[suffix]types.NamespacedName),
	}
	if next.rule != nil {
		next.reading = next.rule.Read(u)
		next.choice = next.reading.withForeign(choiceOf(u.GetAnnotations(), u.GetLabels()))
	}
	r.mu.RLock()
	before, ok := r.objects[next.uid]
	r.mu.RUnlock()
	if ok && !before.gone && reflect.DeepEqual(before.reading, next.reading) && before.choice == next.choice && reflect.DeepEqual(before.owner, next.owner) {
		return
	}
	r.change([]*object{next}, func() {
		if ok {
			next.plan, next.kept, next.note, next.said = before.plan, before.kept, before.note, before.said
			next.names, next.replaced = before.names, before.replaced
			r.disown(before)
		} else {
			next.replaced = r.byName[next.objectName]
		}
		r.objects[next.uid], r.byName[next.objectName] = next, next.uid
		if next.owner != nil {
			if r.children[next.owner.UID] == nil {
				r.children[next.owner.UID] = make(map[types.UID]struct{})
			}
			r.children[next.owner.UID][next.uid] = struct{}{}
		}
	})
	if next.rule == nil {
		r.attest(next)
	}
}

// disown removes an object from the children of its owner. The owner may be of a kind that the
// Resolver does not follow. The caller must hold the lock.
func (r *Resolver) disown(o *object) {
	if o.owner == nil {
		return
	}
	children := r.children[o.owner.UID]
	if delete(children, o.uid); len(children) == 0 {
		delete(r.children, o.owner.UID)
	}
}

// SetNamespace updates the annotations of a namespace.
func (r *Resolver) SetNamespace(name string, annotations map[string]string) {
	r.changing.Lock()
	defer r.changing.Unlock()
	choice := choiceOf(annotations, nil)
	if before, ok := r.namespaces[name]; ok && before == choice {
		return
	}
	concerned := r.all(func(o *object) bool { return o.namespace == name && o.rule != nil })
	r.change(concerned, func() { r.namespaces[name] = choice })
	// Gangs without an object may be added while the namespace changes, and still have its old
	// settings.
	planned := sets.New(concerned...)
	if late := r.all(func(o *object) bool { return o.namespace == name && o.rule != nil && !planned.Has(o) }); len(late) > 0 {
		r.change(late, func() {})
	}
}

// Delete marks an object as deleted. Its pods with a node keep their groups until none of these
// pods exists.
func (r *Resolver) Delete(uid types.UID) {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.RLock()
	o, ok := r.objects[uid]
	r.mu.RUnlock()
	if ok {
		r.change([]*object{o}, func() { o.gone = true })
	}
}

// DeleteNamespace removes a namespace that has no objects left.
func (r *Resolver) DeleteNamespace(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.namespaces, name)
}

// Sweep removes deleted objects that have no pods. It plans objects again whose changes were
// deferred. For gangs without an object, it reads the pods again.
func (r *Resolver) Sweep() {
	r.changing.Lock()
	defer r.changing.Unlock()
	var changed []*object
	for _, o := range r.all(func(*object) bool { return true }) {
		ownerless := o.rule != nil && !o.rule.hasObjects()
		if (o.gone || ownerless) && !r.hasPods(o) {
			r.forget(o)
			continue
		}
		if ownerless {
			r.readPods(o)
		}
		if o.note != "" {
			changed = append(changed, o)
		}
	}
	if len(changed) > 0 {
		r.change(changed, func() {})
	}
}

// all returns the objects that match. It takes the lock, because gangs without an object may be
// added while a change is applied.
func (r *Resolver) all(wanted func(*object) bool) []*object {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []*object
	for _, o := range r.objects {
		if wanted(o) {
			out = append(out, o)
		}
	}
	return out
}

// forget removes an object and reports its groups as changed, because the reason to keep their
// PodGroups may be gone.
func (r *Resolver) forget(o *object) {
	defer r.tell([]*object{o})
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.kinds[o.kind]; r.recorder != nil && k != nil && r.byName[o.objectName] == o.uid {
		r.recorder.Forgotten(k.GroupVersion().WithResource(k.resource), o.namespace, o.name)
	}
	delete(r.objects, o.uid)
	delete(r.children, o.uid)
	r.disown(o)
	if r.byName[o.objectName] == o.uid {
		delete(r.byName, o.objectName)
	}
	for _, key := range o.names {
		delete(r.groups, key)
	}
}

// change applies a change and plans the affected objects again. It reports pods whose group, or
// reason to be blocked, has changed. The caller must hold the lock changing. Apart from names of
// groups, only this method changes the state.
func (r *Resolver) change(concerned []*object, apply func()) {
	before := r.stand(concerned)
	r.mu.Lock()
	apply()
	r.mu.Unlock()
	for uid, pod := range r.stand(concerned) {
		// Only after the change may it be known that a pod belongs to one of the objects.
		if _, ok := before[uid]; !ok {
			before[uid] = pod
		}
	}
	for _, o := range concerned {
		// A deleted object keeps its last plan.
		if o.rule != nil && (!o.gone || o.plan == nil) {
			r.plan(o)
		}
	}
	// For a pod that appeared during the change, the previous group is unknown, so it is always
	// reported.
	for uid, late := range r.stand(concerned) {
		if _, ok := before[uid]; !ok {
			before[uid] = podState{groupState{hold: gang.Verdict{Reason: unseen}}, late.pod}
		}
	}
	for _, p := range before {
		now := r.standingOf(p.pod)
		if now.hold != p.hold {
			r.holdChanged(types.NamespacedName{Namespace: p.pod.Namespace, Name: p.pod.Name})
		}
		if now.key == p.key && now.was == p.was && (p.hold == gang.Verdict{}) == (now.hold == gang.Verdict{}) {
			continue
		}
		r.pods.MembershipChanged(p.pod, p.key, p.was)
		// The group may belong to an owner of the objects that the change affects.
		for _, s := range []groupState{p.groupState, now} {
			if s.was {
				r.changed(s.key)
			}
		}
	}
	r.tell(concerned)
}

type podState struct {
	groupState
	pod *corev1.Pod
}

// stand returns, by UID, the group of each pod of the objects, or the reason why the pod is
// blocked.
func (r *Resolver) stand(objects []*object) map[types.UID]podState {
	out := make(map[types.UID]podState)
	for _, o := range objects {
		for _, pod := range r.podsBelow(o) {
			out[pod.UID] = podState{r.standingOf(pod), pod}
		}
	}
	return out
}

// plan computes the plan of an object: how its pods are grouped. Groups with a pod on a node keep
// their plan.
func (r *Resolver) plan(o *object) {
	r.mu.RLock()
	namespace, ok := r.namespaces[o.namespace]
	r.mu.RUnlock()
	if !ok {
		return
	}
	next, note := newPlan(o.rule, o.reading, o.choice, namespace, o.namespace, r.serves(o.kind)), ""
	var kept map[string]*plan
	if o.plan != nil {
		kept = r.moved(o, next)
	}
	if len(kept) > 0 {
		note = fmt.Sprintf("%s has changed in a way that moves its pods to other groups, or to none; they stay in theirs until none of those that it moves has a node", o)
	}
	if all, ok := kept[noUnit]; ok {
		next, kept = all, nil
	}
	r.mu.Lock()
	o.plan, o.kept, o.note = next, kept, note
	r.mu.Unlock()
	if note == "" {
		r.attest(o)
	}
}

// attest reports an object to the recorder once its latest state is used for groups.
func (r *Resolver) attest(o *object) {
	if k := r.kinds[o.kind]; r.recorder != nil && k != nil && o.seen != nil {
		r.recorder.Known(k.GroupVersion().WithResource(k.resource), o.seen)
	}
}

// moved returns the current plans of those units that have a running pod and that the next plan
// would move to another group. These units keep their plans. Other units do not depend on them.
func (r *Resolver) moved(o *object, next *plan) map[string]*plan {
	out := make(map[string]*plan)
	for _, pod := range r.podsBelow(o) {
		if runs(pod) && r.movesPod(pod, o, next) {
			unit := o.unitOf(pod)
			out[unit] = o.planOf(unit)
		}
	}
	return out
}

// runs reports whether a pod has a node and has not finished.
func runs(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

func (r *Resolver) movesPod(pod *corev1.Pod, o *object, next *plan) bool {
	settings, ok := r.profiles[pod.Spec.SchedulerName]
	if _, named := gang.GroupOf(pod); named || !ok {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if root, _ := r.root(pod, settings); root != o {
		return false
	}
	is, has, _ := o.partOf(o.planOf(o.unitOf(pod)), pod, settings)
	would, will, _ := o.partOf(next, pod, settings)
	return has != will || is != would
}

// tell reports the groups of objects as changed.
func (r *Resolver) tell(objects []*object) {
	r.mu.RLock()
	var keys []types.NamespacedName
	for _, o := range objects {
		for _, key := range o.names {
			keys = append(keys, key)
		}
	}
	r.mu.RUnlock()
	for _, key := range keys {
		r.changed(key)
	}
}
