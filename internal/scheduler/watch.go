package scheduler

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/workload"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// GroupChanged looks at the members of a group again, because its PodGroup has come, changed or gone. Any
// goroutine may call it once the scheduler runs.
func (h *Hub) GroupChanged(key types.NamespacedName) {
	g, ok := h.groups.Group(key)
	if ok {
		h.runs.Touch(key)
	} else {
		h.runs.Forget(key)
	}
	h.cluster.GroupChanged(key)
	h.wanted.askAnew()
	h.groupChangedByOwner(key, g)
	change := h.chargeGroup(key)
	h.eased(change.Eased)
	h.telling.retouch(key, h.clock.Now())
	if ok {
		h.disrupted(key, g.Disrupted)
	} else {
		g = nil
		h.disrupted(key, nil)
	}
	if h.terms.eased(key, g) && len(h.lister.Members(key).Assigned) > 0 {
		h.lifted()
	}
	switch {
	case !ok:
		h.endWait(gangKey(key), decisionlog.Gone)
		h.waits.LeaveTurns(gangKey(key))
		h.release(key, nil, "its PodGroup is gone")
		h.takeBack(gangKey(key), "its PodGroup is gone")
	case g.IsGang():
		h.joined(key)
		h.review(key)
		h.replanShort(key, g)
		h.needAnew(key, g)
		if change.Moved {
			h.changedQueue(gangKey(key))
		}
		h.wakeGang(key)
	default:
		h.endWait(gangKey(key), decisionlog.Gone)
		h.waits.LeaveTurns(gangKey(key))
		h.takeBack(gangKey(key), "it is no gang any more")
		pending := h.lister.Members(key).Pending
		if change.Moved {
			for _, pod := range pending {
				h.changedQueue(podKey(pod))
			}
		}
		h.activate(pending...)
	}
}

// needAnew has those that wait at Permit, where they are enough by now, wait for planned members of roles that the gang lacks alone.
func (h *Hub) needAnew(key types.NamespacedName, g *gang.Group) {
	if h.registry.Planned(key) == 0 {
		return
	}
	if members := h.members(key); h.through(&members) >= g.MinCount {
		h.registry.SetNeeded(key, h.lacking(g, &members, unplaced(&members)))
	}
}

// joined takes back what members of a group were promised by themselves, as long as it was no gang, and the turns for which each of them waits.
func (h *Hub) joined(key types.NamespacedName) {
	queued, promised := h.board.Used(), !h.reserved.Empty()
	if !queued && !promised {
		return
	}
	for _, pod := range h.lister.Members(key).Pending {
		single := podKey(pod)
		if queued {
			h.waits.LeaveTurns(single)
		}
		if promised && len(h.reserved.Of(single)) > 0 {
			h.takeBack(single, "it is part of a gang now")
		}
	}
}

// replanShort takes back a plan that has fewer members than are needed since minCount was raised.
func (h *Hub) replanShort(key types.NamespacedName, g *gang.Group) {
	planned := h.registry.Planned(key)
	if members := h.members(key); planned+members.Reserved.Len() > 0 && h.through(&members)+planned < g.MinCount {
		h.release(key, nil, "more members are needed than it was planned for")
	}
}

func (h *Hub) podAdded(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok {
		if key, isMember := h.groupOf(pod); isMember && pod.Spec.NodeName != "" {
			h.runs.Touch(key)
			h.regroup(key)
		}
		h.podChanged(pod, pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0)
		h.occupies(nil, pod)
	}
}

func (h *Hub) podUpdated(oldObj, newObj any) {
	before, ok1 := oldObj.(*corev1.Pod)
	after, ok2 := newObj.(*corev1.Pod)
	if !ok1 || !ok2 {
		return
	}
	if before.UID != after.UID {
		// It was deleted and made anew while the watch was interrupted, and the informer tells of both at once.
		h.podDeleted(before)
		h.podAdded(after)
		return
	}
	moved := h.followMembership(before, after)
	h.changedByOwner(before, after)
	if after.DeletionTimestamp != nil && before.DeletionTimestamp == nil && after.Spec.NodeName == "" {
		h.board.Forget(after.UID)
		h.witness.Heard(after, true)
		h.podLeft(after)
		return
	}
	ungated := len(before.Spec.SchedulingGates) > 0 && len(after.Spec.SchedulingGates) == 0
	h.podChanged(after, after.Spec.NodeName == "" && (ungated || moved || reconciled(before, after)))
	h.occupies(before, after)
	if after.Spec.NodeName == "" && (moved || rehomed(before, after)) && h.profiles.of(after.Spec.SchedulerName) != nil {
		// No event of the scheduler's queue is about owners or annotations, and it may not have heard of the change itself. One that was held
		// back for what it named may be in no group, before and after.
		h.waits.Gather(h.keyOf(after), h.clock.Now().Add(chargeDelay))
	}
}

// rehomed reports whether what a pod belongs to may have changed by something else than labels.
func rehomed(before, after *corev1.Pod) bool {
	return !apiequality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) ||
		slices.ContainsFunc(grouping.PodAnnotations(), func(name string) bool { return before.Annotations[name] != after.Annotations[name] })
}

// followMembership follows a pod that was updated, on a node or off one, into the group that it is in now, and reports whether that is another
// one.
func (h *Hub) followMembership(before, after *corev1.Pod) (moved bool) {
	oldKey, wasMember := h.groupOf(before)
	newKey, isMember := h.groupOf(after)
	moved = wasMember != isMember || oldKey != newKey
	if moved {
		h.regrouped(after, oldKey, wasMember)
	}
	if settles := moved || settlesAnew(before, after); isMember && (settles || before.Status.Phase != after.Status.Phase) {
		if after.DeletionTimestamp != nil || after.Status.Phase == corev1.PodFailed {
			h.runs.Lost(newKey)
		} else {
			h.runs.Touch(newKey)
		}
		if settles {
			h.regroup(newKey)
		}
		if after.Status.Phase == corev1.PodRunning {
			h.runsOn(newKey)
		}
	}
	return moved
}

// regroup has the members of a group that run read anew on all their nodes where what counts for all of them depends on which
// they are: a group without a priority stands by the highest of theirs, and the clock of one that is not whole began when the last of
// them was scheduled.
func (h *Hub) regroup(key types.NamespacedName) {
	g, ok := h.groups.Group(key)
	if !ok {
		return
	}
	if g.Priority == nil || !h.runs.IsWhole(key) {
		h.cluster.GroupChanged(key)
	}
}

// settlesAnew reports whether a pod on a node is another one by now for those of its group.
func settlesAnew(before, after *corev1.Pod) bool {
	return after.Spec.NodeName != "" && (before.Spec.NodeName == "" || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!preemptiontoleration.ScheduledAt(before).Equal(preemptiontoleration.ScheduledAt(after)))
}

// changedQueue has work start over that is in another queue now.
func (h *Hub) changedQueue(key workload.Key) {
	h.wanted.askAnew()
	if h.isBarred(key) && !h.waits.Evicting(key) {
		h.displace(key, "it is in another queue")
		return
	}
	h.wake(key)
}

// podChanged follows members onto their nodes. One that has just come forward may be what its gang lacked.
func (h *Hub) podChanged(pod *corev1.Pod, cameForward bool) {
	h.nominees.See(pod, h.inflates)
	// A pod that is assumed no more has to be known as placed by then.
	change := h.charge(pod)
	// Its queue may have room again, although the pod has not gone.
	h.eased(change.Eased)
	h.witness.Heard(pod, true)
	if pod.Spec.NodeName != "" {
		h.records.Places(string(pod.UID))
		h.reserved.Use(pod.UID, pod.Spec.NodeName)
		h.waits.Forget(podKey(pod))
		h.forgetUnbound(pod)
		h.telling.keptOff.forget(pod.UID)
		h.telling.statuses.Bound(pod.UID)
		h.endWait(podKey(pod), decisionlog.Bound)
		h.followDeparture(pod)
	}
	h.touchDrivers(pod)
	key, ok := h.groupOf(pod)
	if ok && pod.Spec.NodeName == "" && h.profiles.of(pod.Spec.SchedulerName) != nil {
		h.telling.touch(key, h.clock.Now())
	}
	switch {
	case !ok:
	case pod.Spec.NodeName != "":
		if h.registry.Settled(key, pod.UID) {
			// Its cycle, which would have woken the next one, does not come.
			h.wakeNext(key)
		}
		h.endTurns(key)
		h.memberBound(key)
		h.moved.Store(true)
		h.telling.retouch(key, h.clock.Now())
	case cameForward && pod.DeletionTimestamp == nil && h.registry.Verdict(key).Reason == v1alpha1.ReasonUnschedulable:
		if leader := h.registry.Leader(key); leader != "" && leader != pod.UID {
			h.wakeSoon(key)
		}
	}
	if change.Moved && pod.Spec.NodeName == "" {
		h.changedQueue(h.keyOf(pod))
	}
}

// podDeleted wakes the workloads that waited for a pod to go, and repairs the gang that it was a member of.
func (h *Hub) podDeleted(obj any) {
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = d.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	h.moved.Store(true)
	h.witness.Heard(pod, false)
	h.leaving.gone(pod, h.clock.Now())
	h.refused.Forget(pod.UID)
	// The scheduler's queue may have heard of it first, and tried those at the limit too early.
	h.eased(h.board.Forget(pod.UID).Eased)
	h.departed(pod.UID)
	h.awaitOutcome(pod)
	h.podLeft(pod)
}

// departed wakes the workloads for which a pod was the last that had to go, and returns them.
func (h *Hub) departed(uid types.UID) []workload.Key {
	free := h.waits.Gone(string(uid))
	for _, key := range free {
		h.wake(key)
	}
	return free
}

// podLeft forgets a pod that will not be scheduled any more.
func (h *Hub) podLeft(pod *corev1.Pod) {
	h.nominees.Forget(pod.UID)
	h.records.Leaves(string(pod.UID))
	h.waits.Forget(podKey(pod))
	h.unbound.Leaves(podKey(pod), controllerOf(pod), h.clock.Now())
	h.endWait(podKey(pod), decisionlog.Gone)
	h.telling.keptOff.forget(pod.UID)
	h.reserved.ReleasePod(pod.UID)
	h.touchDrivers(pod)
	if key, ok := h.groupOf(pod); ok {
		h.memberLeft(key, pod)
	}
}

// forgetLeft repairs a gang that has been decided on with members which have left since they were looked at, and takes back what it
// has been promised if something else has happened to it meanwhile.
func (h *Hub) forgetLeft(key types.NamespacedName, members []*corev1.Pod) {
	for _, pod := range members {
		if !h.awaitsPlace(pod) {
			h.memberLeft(key, pod)
		} else if !h.isIn(key, pod) {
			h.regrouped(pod, key, true)
		}
	}
	h.review(key)
}

// isIn reports whether a pod is a member of a group now.
func (r *roster) isIn(key types.NamespacedName, pod *corev1.Pod) bool {
	now, err := r.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil {
		return false
	}
	of, ok := r.groupOf(now)
	return ok && of == key
}

// memberLeft repairs a gang that has lost a member.
func (h *Hub) memberLeft(key types.NamespacedName, pod *corev1.Pod) {
	h.records.Unseats(string(pod.UID))
	disturbed := h.registry.Forget(key, pod.UID)
	h.tellGroupState(key)
	// Before the members are listed: one that goes through its cycle meanwhile counts twice, and not for none.
	planned := h.registry.Planned(key)
	members := h.members(key)
	if members.Total() == 0 {
		h.dropGang(key)
		return
	}
	h.endTurns(key)
	h.telling.retouch(key, h.clock.Now())
	if pod.Spec.NodeName != "" {
		h.runs.Lost(key)
	} else {
		h.runs.Touch(key)
	}
	h.regroup(key)
	h.review(key)
	if disturbed {
		if g, ok := h.groups.Group(key); ok && h.through(&members)+planned < g.MinCount {
			h.release(key, nil, "member "+pod.Name+" has gone")
		} else {
			// It may have been the last that the others waited for.
			h.letGo(key, &members)
		}
	}
	if disturbed || isGateReason(h.registry.Verdict(key).Reason) || h.registry.Idle(key) && !h.waits.Evicting(gangKey(key)) {
		if pod := h.spokesman(key, &members); pod != nil {
			h.activate(pod)
		}
	}
}

// endTurns has a gang wait for no turn, and hold up no others, once none of its members is without a node.
func (h *Hub) endTurns(key types.NamespacedName) {
	if !h.board.Used() || h.board.Pends(key) || len(h.lister.Members(key).Pending) > 0 {
		return
	}
	h.waits.LeaveTurns(gangKey(key))
	// One that has come meanwhile may have begun to wait.
	h.activate(h.lister.Members(key).Pending...)
}

// review takes back what is promised to a gang that can make no use of it any more, because it lacks members for instance.
// Whatever changes a gang comes by here; for queues, see takeBackBarred.
func (h *Hub) review(key types.NamespacedName) {
	if len(h.reserved.Of(gangKey(key))) == 0 {
		return
	}
	g, ok := h.groups.Group(key)
	if !ok {
		g = nil
	}
	members := h.membersStill(key)
	if v := gang.Gate(key, g, &members); v != (gang.Verdict{}) {
		h.takeBack(gangKey(key), v.Message)
	}
}

// dropGang forgets a gang that has no members any more.
func (h *Hub) dropGang(key types.NamespacedName) {
	h.registry.Drop(key)
	h.runs.Forget(key)
	h.outcomes.drop(key)
	h.waits.Forget(gangKey(key))
	h.unbound.Leaves(gangKey(key), "", h.clock.Now())
	h.endWait(gangKey(key), decisionlog.Gone)
	h.telling.drop(key)
	h.reserved.Release(gangKey(key))
}

// through counts the members that have had a node or are assumed to have one, and keep it. One that went while it was in
// its cycle is assumed until the framework takes that back, and does not count for members that come after it.
func (o *occupancy) through(members *gang.Members) int {
	count := members.Placed()
	if members.Reserved.Len() == 0 {
		return count
	}
	o.rejecting.Lock()
	defer o.rejecting.Unlock()
	for _, pod := range members.Pending {
		// One that has been turned away at Permit has its place until the framework has heard of it.
		if members.Reserved.Has(pod.UID) && !o.leaving.takes(pod.UID) && !o.records.IsRejected(string(pod.UID)) {
			count++
		}
	}
	return count
}

// release takes back what is left of a gang's plan, reservations and nominations included, and turns back the
// members that wait at Permit. A member that failed, if any, comes back by itself and plans anew.
func (h *Hub) release(key types.NamespacedName, failed *corev1.Pod, why string) {
	var uid types.UID
	if failed != nil {
		uid = failed.UID
	}
	planned := h.registry.Release(key, uid)
	h.reserved.ReleasePod(planned...)
	why = fmt.Sprintf("PodGroup %s is released: %s", key, why)
	waiting := h.turnAway(key, uid, why)
	h.turnBackBinding(key, why)
	if len(planned)+waiting > 0 {
		happened(logOf(context.Background(), gangKey(key)), "Released a gang", why, "members", len(planned)+waiting)
	}
	if failed != nil && !h.registry.Stuck(key) {
		h.activate(failed)
	}
}

// turnAway rejects the members that wait at Permit, each once, and counts them. The one that failed knows.
func (h *Hub) turnAway(key types.NamespacedName, failed types.UID, why string) int {
	// A waiting pod must not be rejected by two at a time.
	h.rejecting.Lock()
	defer h.rejecting.Unlock()
	var waiting []fwk.WaitingPod
	h.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		pod := w.GetPod()
		// One that has been deleted is rejected by the framework, perhaps at this very moment.
		if k, ok := h.groupOf(pod); ok && k == key && pod.UID != failed && !h.records.IsRejected(string(pod.UID)) && h.exists(pod) {
			waiting = append(waiting, w)
		}
	})
	for _, w := range waiting {
		// One that has been allowed meanwhile is on its way to its node.
		if w.Reject(Name, why) {
			h.records.Rejects(string(w.GetPod().UID))
		}
	}
	return len(waiting)
}

// exists reports whether the informer still has a pod.
func (r *roster) exists(pod *corev1.Pod) bool {
	now, err := r.pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && now.UID == pod.UID
}

// passOn has another member lead, after the leader was turned away before it could plan. When all have had
// their turn, the next event that concerns any of them starts over, and it reports false.
func (h *Hub) passOn(key types.NamespacedName, leader types.UID) bool {
	next := h.registry.PassOn(key, leader)
	members := h.lister.Members(key)
	gang.SortByAge(members.Pending)
	for _, pod := range members.Pending {
		if next(pod.UID) && h.entersQueue(pod) {
			h.activate(pod)
			return true
		}
	}
	h.registry.Planning(key)
	return false
}
