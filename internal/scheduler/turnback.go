package scheduler

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// assumedPods are the pods that have a place in the scheduler's memory and are not bound as far as is known.
// The zero value is ready to use, and safe for concurrent use.
type assumedPods struct {
	mu   sync.Mutex
	uids sets.Set[types.UID]
	// places are those of the pods whose node is known.
	places map[types.UID]place
	// shared is true where a caller of all has uids as they are.
	shared bool
}

// place is a pod on the node where it is assumed.
type place struct {
	pod  *corev1.Pod
	node string
}

// put inserts a pod that is assumed on a node.
func (a *assumedPods) put(pod *corev1.Pod, node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.own()
	a.uids.Insert(pod.UID)
	if a.places == nil {
		a.places = make(map[types.UID]place)
	}
	a.places[pod.UID] = place{pod, node}
}

// on lists the pods that are assumed on a node.
func (a *assumedPods) on(node string) []*corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []*corev1.Pod
	for _, p := range a.places {
		if p.node == node {
			out = append(out, p.pod)
		}
	}
	return out
}

func (a *assumedPods) insert(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.own()
	a.uids.Insert(uid)
}

func (a *assumedPods) remove(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.uids.Has(uid) {
		return
	}
	a.own()
	a.uids.Delete(uid)
	delete(a.places, uid)
}

// own has uids be a set that no caller of all has.
func (a *assumedPods) own() {
	switch {
	case a.uids == nil:
		a.uids = sets.New[types.UID]()
	case a.shared:
		a.uids = a.uids.Clone()
	}
	a.shared = false
}

func (a *assumedPods) has(uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.uids.Has(uid)
}

// all are those that there are now. The caller may not change them; they do not change.
func (a *assumedPods) all() sets.Set[types.UID] {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shared = true
	return a.uids
}

// TurnBack sends a victim that waits at Permit or in PreBind back to the queue: it has not started anywhere, so
// nothing has to be deleted. It reports false for one that is bound, or is being bound.
func (p *Plugin) TurnBack(victim *corev1.Pod) bool {
	const why = "preempted before it was bound"
	if !p.IsUnbound(victim) {
		return false
	}
	if p.hub.turnBackWaiting(victim.UID, why) {
		return true
	}
	if p.hub.cancelBinding(victim.UID, why) {
		return true
	}
	// What is not assumed any more has been turned back already, or was bound a moment ago.
	return !p.hub.assumed.has(victim.UID) && p.IsUnbound(victim)
}

// IsUnbound reports whether a victim is on no node as the informer has it.
func (p *Plugin) IsUnbound(victim *corev1.Pod) bool {
	now, err := p.hub.pods.Pods(victim.Namespace).Get(victim.Name)
	return err == nil && now.UID == victim.UID && now.Spec.NodeName == ""
}

// turnBackWaiting rejects a pod that waits at Permit. It reports false for one that does not wait.
func (h *Hub) turnBackWaiting(uid types.UID, why string) bool {
	h.rejecting.Lock()
	defer h.rejecting.Unlock()
	if h.rejected.Has(uid) {
		return true
	}
	w := h.handle.GetWaitingPod(uid)
	if w == nil || !w.Preempt(Name, why) {
		return false
	}
	h.rejected.Insert(uid)
	return true
}

// forgetPlace records that a pod has given its place up.
func (o *occupancy) forgetPlace(uid types.UID) {
	o.assumed.remove(uid)
	o.forgetRejection(uid)
}

// turnBackBinding turns back the members that are about to be bound of a gang that is short of members: it is
// placed together or not at all.
func (h *Hub) turnBackBinding(key types.NamespacedName, why string) {
	g, ok := h.groups.Group(key)
	if !ok || !g.IsGang() {
		return
	}
	members := h.members(key)
	if h.through(&members) >= g.MinCount {
		return
	}
	for _, uid := range h.registry.Reserved(key) {
		h.cancelBinding(uid, why)
	}
}

// cancelBinding turns back a pod in PreBind. It reports false for one that is not there, or is being bound already.
func (h *Hub) cancelBinding(uid types.UID, why string) bool {
	b := h.handle.GetPodInPreBind(uid)
	if b == nil {
		return false
	}
	// Before the framework says so.
	h.canceled.set(uid, workload.Key{})
	if !b.CancelPod(why) {
		h.canceled.take(uid)
		return false
	}
	return true
}
