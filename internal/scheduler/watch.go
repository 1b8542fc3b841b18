package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// GroupChanged looks at the members of a group again, because its PodGroup has come, changed or gone. Any
// goroutine may call it once the scheduler runs.
func (h *Hub) GroupChanged(key types.NamespacedName) {
	if h.lister == nil {
		// No profile has the plugin.
		return
	}
	h.mirror.regroup(key)
	h.chargeGroup(key)
	g, ok := h.groups.Group(key)
	if ok {
		h.disrupted(key, g.Disrupted)
	} else {
		h.disrupted(key, nil)
	}
	switch {
	case !ok:
		h.release(key, nil, "its PodGroup is gone")
		h.keep(owner{gang: true, NamespacedName: key}, nil)
		h.awaited.forget(owner{gang: true, NamespacedName: key})
	case g.IsGang():
		h.wakeGang(key)
	default:
		h.activate(h.lister.Members(key).Pending...)
	}
}

func (h *Hub) podAdded(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok {
		h.podChanged(pod, pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0)
	}
}

func (h *Hub) podUpdated(oldObj, newObj any) {
	before, ok1 := oldObj.(*corev1.Pod)
	after, ok2 := newObj.(*corev1.Pod)
	if !ok1 || !ok2 {
		return
	}
	oldKey, wasMember := h.groupOf(before)
	newKey, isMember := h.groupOf(after)
	moved := wasMember != isMember || oldKey != newKey
	if wasMember && moved {
		h.memberLeft(oldKey, after)
	}
	if after.DeletionTimestamp != nil && before.DeletionTimestamp == nil && after.Spec.NodeName == "" {
		h.board.Forget(after.UID)
		h.podLeft(after)
		return
	}
	ungated := len(before.Spec.SchedulingGates) > 0 && len(after.Spec.SchedulingGates) == 0
	h.podChanged(after, after.Spec.NodeName == "" && (ungated || moved || reconciled(before, after)))
	if after.Spec.NodeName == "" && h.queueOf(before) != h.queueOf(after) {
		h.changedQueue(h.ownerOf(after))
	}
}

// changedQueue has work start over that is in another queue now.
func (h *Hub) changedQueue(o owner) {
	if h.isBarred(o) && !h.isEvicting(o) {
		h.displace(context.Background(), o, "it is in another queue")
		return
	}
	h.wake(o)
}

// podChanged follows members onto their nodes. One that has just come forward may be what its gang lacked.
func (h *Hub) podChanged(pod *corev1.Pod, cameForward bool) {
	h.seeNomination(pod)
	// A pod that is assumed no more has to be known as placed by then.
	h.charge(pod)
	if pod.Spec.NodeName != "" {
		h.assumed.remove(pod.UID)
		h.seats.take(pod.UID)
		h.settled(pod.UID)
	}
	key, ok := h.groupOf(pod)
	switch {
	case !ok:
	case pod.Spec.NodeName != "":
		h.registry.Settled(key, pod.UID)
	case cameForward && pod.DeletionTimestamp == nil && h.registry.Verdict(key).Reason == v1alpha1.ReasonUnschedulable:
		if leader := h.registry.Leader(key); leader != "" && leader != pod.UID {
			h.wakeSoon(key)
		}
	}
}

// podDeleted wakes those who waited for a pod to go, and repairs the gang that it was a member of.
func (h *Hub) podDeleted(obj any) {
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = d.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	h.leaving.gone(pod, h.clock.Now())
	if h.board.Forget(pod.UID) {
		// The scheduler's queue may have heard of it first, and tried those at the limit too early.
		h.wakeLimited()
	}
	h.departed(pod.UID)
	h.podLeft(pod)
}

// departed wakes those for whom a pod was the last that had to go.
func (h *Hub) departed(uid types.UID) {
	for _, o := range h.awaited.gone(uid) {
		h.wake(o)
	}
}

// podLeft forgets a pod that will not be scheduled any more.
func (h *Hub) podLeft(pod *corev1.Pod) {
	h.nominees.forget(pod.UID)
	h.overstated.see(pod.UID, "")
	h.assumed.remove(pod.UID)
	h.settled(pod.UID)
	own := owner{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}}
	h.awaited.forget(own)
	h.timers.cancel(own)
	h.turns.forget(own)
	h.mu.Lock()
	h.atLimit.Delete(own)
	delete(h.failures, own)
	h.mu.Unlock()
	if h.seats.giveUp(pod.UID) {
		h.wakeRefused()
	}
	if now, err := h.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && now.UID != pod.UID {
		// What has just been forgotten by name was the next one's, if the scheduler's queue has heard of that first.
		h.activate(now)
	}
	if key, ok := h.groupOf(pod); ok {
		h.memberLeft(key, pod)
	}
}

// emptySeats takes seats back that are kept for pods which have left since they were looked at: they had none to give up.
func (h *Hub) emptySeats(seats []*seat) {
	gaveUp := false
	for _, s := range seats {
		if !h.awaitsPlace(s.pod.GetPod()) {
			gaveUp = h.seats.giveUp(s.uid) || gaveUp
		}
	}
	if gaveUp {
		h.wakeRefused()
	}
}

// forgetLeft repairs a gang that has been decided on with members which have left since they were looked at.
func (h *Hub) forgetLeft(key types.NamespacedName, members []*corev1.Pod) {
	for _, pod := range members {
		if !h.awaitsPlace(pod) {
			h.memberLeft(key, pod)
		}
	}
}

// memberLeft repairs a gang that has lost a member.
func (h *Hub) memberLeft(key types.NamespacedName, pod *corev1.Pod) {
	disturbed := h.registry.Forget(key, pod.UID)
	members := h.members(key)
	if members.Total() == 0 {
		h.dropGang(key)
		return
	}
	if g, ok := h.groups.Group(key); ok && g.Priority == nil {
		// It stands by the highest of those that are left.
		h.mirror.regroup(key)
	}
	if disturbed {
		if g, ok := h.groups.Group(key); ok && h.through(key, &members)+h.registry.Planned(key) < g.MinCount {
			h.release(key, nil, "member "+pod.Name+" has gone")
		}
	}
	if disturbed || isGateReason(h.registry.Verdict(key).Reason) || h.registry.Idle(key) {
		if pod := h.spokesman(key, &members); pod != nil {
			h.activate(pod)
		}
	}
}

// dropGang forgets a gang that has no members any more.
func (h *Hub) dropGang(key types.NamespacedName) {
	o := owner{gang: true, NamespacedName: key}
	h.registry.Drop(key)
	h.awaited.forget(o)
	h.timers.cancel(o)
	h.turns.forget(o)
	h.keep(o, nil)
	h.mu.Lock()
	h.atLimit.Delete(o)
	delete(h.failures, o)
	h.mu.Unlock()
}

// settled forgets what was remembered of a pod that waits for nothing more.
func (h *Hub) settled(uid types.UID) {
	h.mu.Lock()
	delete(h.refused, uid)
	h.mu.Unlock()
	h.rejecting.Lock()
	defer h.rejecting.Unlock()
	h.rejected.Delete(uid)
}

// through counts the members that have had a node or are assumed to have one, and keep it.
func (h *Hub) through(key types.NamespacedName, members *gang.Members) int {
	count := members.Placed()
	reserved := h.registry.Reserved(key)
	if len(reserved) == 0 {
		return count
	}
	counted := make(map[types.UID]bool, len(members.Assigned))
	for _, pods := range [...][]*corev1.Pod{members.Assigned, members.Terminating} {
		for _, pod := range pods {
			counted[pod.UID] = true
		}
	}
	for _, uid := range reserved {
		if !counted[uid] && !h.leaving.takes(uid) {
			count++
		}
	}
	return count
}

// release takes back what is left of a gang's plan, seats and nominations included, and turns back the
// members that wait at Permit. A member that failed, if any, comes back by itself and plans anew.
func (h *Hub) release(key types.NamespacedName, failed *corev1.Pod, why string) {
	var uid types.UID
	if failed != nil {
		uid = failed.UID
	}
	planned := h.registry.Release(key, uid)
	gaveUp := false
	for _, member := range planned {
		gaveUp = h.seats.giveUp(member) || gaveUp
		h.handle.DeleteNominatedPodIfExists(&corev1.Pod{ObjectMeta: objectMetaOf(member)})
	}
	why = fmt.Sprintf("PodGroup %s is released: %s", key, why)
	waiting := h.turnAway(key, uid, why)
	h.turnBackBinding(key, why)
	if len(planned)+waiting > 0 {
		klog.Background().V(2).Info("Released gang", "podGroup", key, "reason", why)
	}
	if failed != nil {
		h.activate(failed)
	}
	if gaveUp {
		h.wakeRefused()
	}
}

// turnAway rejects the members that wait at Permit, each once, and counts them. The one that failed knows.
func (h *Hub) turnAway(key types.NamespacedName, failed types.UID, why string) int {
	// A waiting pod must not be rejected by two at a time.
	h.rejecting.Lock()
	defer h.rejecting.Unlock()
	h.rejected.Delete(failed)
	var waiting []fwk.WaitingPod
	h.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		pod := w.GetPod()
		// One that has been deleted is rejected by the framework, perhaps at this very moment.
		if k, ok := h.groupOf(pod); ok && k == key && pod.UID != failed && !h.rejected.Has(pod.UID) && h.exists(pod) {
			waiting = append(waiting, w)
		}
	})
	for _, w := range waiting {
		h.rejected.Insert(w.GetPod().UID)
		w.Reject(Name, why)
	}
	return len(waiting)
}

// exists reports whether the informer still has a pod.
func (h *Hub) exists(pod *corev1.Pod) bool {
	now, err := h.pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && now.UID == pod.UID
}

// passOn has another member lead, after the leader was turned away before it could plan. When all have had
// their turn, the next event that concerns any of them starts over.
func (h *Hub) passOn(key types.NamespacedName, leader types.UID) {
	next := h.registry.PassOn(key, leader)
	members := h.lister.Members(key)
	gang.SortByAge(members.Pending)
	for _, pod := range members.Pending {
		if next(pod.UID) && h.entersQueue(pod) {
			h.activate(pod)
			return
		}
	}
	h.registry.Planning(key)
}
