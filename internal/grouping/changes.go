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

// groupState is the group of a pod, and the reason why the pod is blocked, at one moment.
type groupState struct {
	key  types.NamespacedName
	was  bool
	hold gang.Verdict
}

// unseen is a reason that no Verdict has. It marks pods that appear during a change, so that they
// count as changed.
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
			next.names, next.outside, next.replaced = before.names, before.outside, before.replaced
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

// disown removes an object from the children of its owner. The Resolver may not know the owner
// itself. The caller must hold the lock mu.
func (r *Resolver) disown(o *object) {
	if o.owner == nil {
		return
	}
	children := r.children[o.owner.UID]
	if delete(children, o.uid); len(children) == 0 {
		delete(r.children, o.owner.UID)
	}
}

// SetNamespace records the annotations of a namespace and plans its objects again if they have
// changed.
func (r *Resolver) SetNamespace(name string, annotations map[string]string) {
	r.changing.Lock()
	defer r.changing.Unlock()
	choice := choiceOf(annotations, nil)
	if before, ok := r.namespaces[name]; ok && before == choice {
		return
	}
	concerned := r.all(func(o *object) bool { return o.namespace == name && o.rule != nil })
	r.change(concerned, func() { r.namespaces[name] = choice })
	// A gang without an owner object may have been added during this change, with the old settings
	// of the namespace. Plan these gangs again.
	planned := sets.New(concerned...)
	if late := r.all(func(o *object) bool { return o.namespace == name && o.rule != nil && !planned.Has(o) }); len(late) > 0 {
		r.change(late, func() {})
	}
}

// Delete marks an object as deleted. Its pods that have a node keep their groups until the last of
// these pods is deleted.
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

// DeleteNamespace removes a namespace. Call it when the namespace has no objects.
func (r *Resolver) DeleteNamespace(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.namespaces, name)
}

// Sweep removes deleted objects whose pods are all deleted. It also applies changes of objects that
// were deferred because of running pods. For gangs without an owner object, it reads the sizes from
// the pods again.
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

// all returns the objects that wanted accepts. It takes the lock r.mu, because gangs without an
// owner object may be added at any time.
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

// forget removes an object. It reports the object's groups as changed, because their PodGroups may
// no longer be needed.
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

// change calls apply with the lock mu held and plans the concerned objects again. It reports each
// pod whose group or reason to be blocked has changed. The caller must hold the lock changing.
//
// Only this method changes the state, except for the names of groups, new gangs without an owner
// object, and the record of SetOutside.
func (r *Resolver) change(concerned []*object, apply func()) {
	before := r.stand(concerned)
	r.mu.Lock()
	apply()
	r.mu.Unlock()
	for uid, pod := range r.stand(concerned) {
		// Include this pod: before the change, the Resolver may not have known that the pod belongs
		// to one of the objects.
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
	// A pod that appeared during the change has no known previous group, so report it like a pod
	// whose group has changed.
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
		// Report the old and the new group. They may belong to an owner of the concerned objects,
		// and tell reports only the groups of the concerned objects themselves.
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

// stand returns the group, or the reason to be blocked, of each pod of the objects, by the pod's
// UID.
func (r *Resolver) stand(objects []*object) map[types.UID]podState {
	out := make(map[types.UID]podState)
	for _, o := range objects {
		for _, pod := range r.podsBelow(o) {
			out[pod.UID] = podState{r.standingOf(pod), pod}
		}
	}
	return out
}

// plan computes how the pods of an object are grouped and stores the result as the object's plan.
// Replicas with running pods keep their plan if the new one would move these pods to other groups.
func (r *Resolver) plan(o *object) {
	r.mu.RLock()
	namespace, ok := r.namespaces[o.namespace]
	r.mu.RUnlock()
	if !ok {
		return
	}
	next, note := newPlan(o.rule, o.reading, o.choice, namespace, o.namespace, r.serves(o.kind)), ""
	// A plan without groups has no tree. If replicas keep an older plan with a tree, that tree has
	// only these replicas.
	next.tree = next.tree && r.derives(o, next)
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
	if next.tree {
		r.register(o, treeSuffix())
	}
	r.mu.Unlock()
	if note == "" {
		r.attest(o)
	}
}

// attest informs the recorder that groups now use the latest state of an object.
func (r *Resolver) attest(o *object) {
	if k := r.kinds[o.kind]; r.recorder != nil && k != nil && o.seen != nil {
		r.recorder.Known(k.GroupVersion().WithResource(k.resource), o.seen)
	}
}

// moved returns the current plans of the replicas that must keep them, by replica. These are the
// replicas with a running pod that the next plan would move to another group.
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
	before := o.planOf(o.unitOf(pod))
	is, has, _ := o.partOf(before, pod, settings)
	would, will, _ := o.partOf(next, pod, settings)
	return has != will || is != would || has && before.isPart(is) != next.isPart(would)
}

// tell reports all groups of the objects as changed.
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
