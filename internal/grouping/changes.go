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

// standing is where a pod stood before a change.
type standing struct {
	key  types.NamespacedName
	was  bool
	hold gang.Verdict
}

// unseen is why a pod counts as held back that has come amid a change; no Verdict says so.
const unseen = "unseen"

func (r *Resolver) standingOf(pod *corev1.Pod) standing {
	key, was := r.GroupOf(pod)
	return standing{key, was, r.Hold(pod)}
}

// Set takes in an object of a kind that is followed, as it is now.
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
	if ok && reflect.DeepEqual(before.reading, next.reading) && before.choice == next.choice && reflect.DeepEqual(before.owner, next.owner) {
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

// disown takes an object off the children of its owner, which may be none that is followed. The lock is held.
func (r *Resolver) disown(o *object) {
	if o.owner == nil {
		return
	}
	children := r.children[o.owner.UID]
	if delete(children, o.uid); len(children) == 0 {
		delete(r.children, o.owner.UID)
	}
}

// SetNamespace takes in the annotations of a namespace.
func (r *Resolver) SetNamespace(name string, annotations map[string]string) {
	r.changing.Lock()
	defer r.changing.Unlock()
	choice := choiceOf(annotations, nil)
	if before, ok := r.namespaces[name]; ok && before == choice {
		return
	}
	concerned := r.all(func(o *object) bool { return o.namespace == name && o.rule != nil })
	r.change(concerned, func() { r.namespaces[name] = choice })
	// Gangs without an object come while others are being changed, and may have gone by what was known before.
	planned := sets.New(concerned...)
	if late := r.all(func(o *object) bool { return o.namespace == name && o.rule != nil && !planned.Has(o) }); len(late) > 0 {
		r.change(late, func() {})
	}
}

// Delete takes note that an object is gone. What it was to pods that have a node it stays as long as there are some.
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

// DeleteNamespace forgets a namespace, which has no objects any more.
func (r *Resolver) DeleteNamespace(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.namespaces, name)
}

// Sweep forgets objects that are gone when their pods are, and takes those at their word that have changed meanwhile: gangs without an
// object are what their pods say, whichever of those came first.
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

// all are the objects that are wanted. Gangs without an object come while others are being changed.
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

// forget drops what is known of an object, and has its groups looked at: what their PodGroups are left for may have gone with it.
func (r *Resolver) forget(o *object) {
	defer r.tell([]*object{o})
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.kinds[o.kind]; r.witness != nil && k != nil && r.byName[o.objectName] == o.uid {
		r.witness.Forgotten(k.GroupVersion().WithResource(k.resource), o.namespace, o.name)
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

// change makes a change, plans anew for the objects that it concerns, and tells of pods that are in another group by it, or held back
// for another reason, or for none. Only one who holds changing may call it; apart from names, nothing else changes what is known.
func (r *Resolver) change(concerned []*object, apply func()) {
	before := r.stand(concerned)
	r.mu.Lock()
	apply()
	r.mu.Unlock()
	for uid, pod := range r.stand(concerned) {
		// A pod may only now be known to belong to one of them.
		if _, ok := before[uid]; !ok {
			before[uid] = pod
		}
	}
	for _, o := range concerned {
		// One that is gone has nothing more to say.
		if o.rule != nil && (!o.gone || o.plan == nil) {
			r.plan(o)
		}
	}
	// By which plan one has been judged that came meanwhile is not known: it is told whatever it was.
	for uid, late := range r.stand(concerned) {
		if _, ok := before[uid]; !ok {
			before[uid] = standingPod{standing{hold: gang.Verdict{Reason: unseen}}, late.pod}
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
		// The group may be one of an object above those that the change concerns.
		for _, s := range []standing{p.standing, now} {
			if s.was {
				r.changed(s.key)
			}
		}
	}
	r.tell(concerned)
}

type standingPod struct {
	standing
	pod *corev1.Pod
}

// stand is how the pods of objects stand, by UID.
func (r *Resolver) stand(objects []*object) map[types.UID]standingPod {
	out := make(map[types.UID]standingPod)
	for _, o := range objects {
		for _, pod := range r.podsBelow(o) {
			out[pod.UID] = standingPod{r.standingOf(pod), pod}
		}
	}
	return out
}

// plan says what the pods of an object are. Those that have a node stay what they are, and the others with them.
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

// attest tells the witness of an object that counts as it was read last.
func (r *Resolver) attest(o *object) {
	if k := r.kinds[o.kind]; r.witness != nil && k != nil && o.seen != nil {
		r.witness.Known(k.GroupVersion().WithResource(k.resource), o.seen)
	}
}

// moved are the plans of the units of an object of which a pod that has a node would be in another group by the next plan: they stay as
// they are. Other units have nothing to do with those.
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

// runs reports whether a pod has a node and has not finished there.
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

// tell has the groups of objects looked at.
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
