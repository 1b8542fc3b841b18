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
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// podWatch follows the pods. It is safe for concurrent use.
type podWatch struct {
	index       *clusterIndex
	placements  *placements
	ledger      *ledger
	leaving     *leavingPods
	quotas      *queue.Ledger
	cluster     *snapshot.Cache
	gangs       *engine.Gangs
	records     *engine.Pods
	waits       *engine.Waits
	refused     *eviction.Refusals
	reporter    *reporter
	recorder    Recorder
	finished    cache.SharedIndexInformer
	clock       clock.WithTicker
	steps       *stepper
	retries     *retries
	releases    *releases
	drivers     *driverBounds
	gates       *gates
	nominations *nominations
	rooms       *rooms
	departures  *departures
	pauses      *pauses
	recorded    *recordedWaits
	surplus     *surplus
	memberships *memberships
	groupWatch  *groupWatch
}

// groupWatch follows the PodGroups. It is safe for concurrent use.
type groupWatch struct {
	index            *clusterIndex
	placements       *placements
	ledger           *ledger
	quotas           *queue.Ledger
	cluster          *snapshot.Cache
	engine           *engine.Engine
	gangs            *engine.Gangs
	reserved         *engine.Reservations
	turns            *admission.List
	wanted           *wants
	clock            clock.WithTicker
	retries          *retries
	releases         *releases
	departures       *departures
	pauses           *pauses
	victimPriorities *victimPriorities
	recorded         *recordedWaits
	memberships      *memberships

	// changes delays the handling of PodGroups that change very often.
	changes groupChanges
}

// memberships follows the members of groups: those that leave a group or change it. It is safe for
// concurrent use.
type memberships struct {
	index      *clusterIndex
	placements *placements
	ledger     *ledger
	quotas     *queue.Ledger
	cluster    *snapshot.Cache
	gangs      *engine.Gangs
	records    *engine.Pods
	reserved   *engine.Reservations
	waits      *engine.Waits
	turns      *admission.List
	clock      clock.WithTicker
	steps      *stepper
	retries    *retries
	releases   *releases
	recorded   *recordedWaits
}

// GroupSaved handles a change of a PodGroup's annotations about lost work. Any goroutine may call
// it once the scheduler runs.
func (h *Scheduler) GroupSaved(key types.NamespacedName) { h.cluster.GroupChanged(key) }

// changed handles a created, changed or deleted PodGroup and checks its members again.
// Decisions use the change at once. The other effects may come later if the PodGroup changes very
// often. Any goroutine may call it once the scheduler runs.
func (gw *groupWatch) changed(key types.NamespacedName) {
	g, ok := gw.index.groups.Group(key)
	if ok {
		gw.gangs.Touch(gangKey(key))
	} else {
		g = nil
		gw.gangs.ForgetRun(gangKey(key))
	}
	gw.cluster.GroupChanged(key)
	gw.wanted.askAnew()
	urgency := patient
	if ok {
		gw.departures.disrupted(key, g.Disrupted)
	} else {
		gw.departures.disrupted(key, nil)
		urgency = urgent
	}
	// Record the priority before any delay. If the priority rises and falls within one delay, a
	// later comparison would find no change.
	gw.victimPriorities.follow(key, g)
	if gw.changes.isDelayed(key, urgency, gw.clock.Now()) {
		gw.engine.Look()
		return
	}
	gw.follow(key)
}

// follow applies the current state of a PodGroup to its members.
func (gw *groupWatch) follow(key types.NamespacedName) {
	g, ok := gw.index.groups.Group(key)
	gw.pauses.groupChangedByOwner(key, g)
	change := gw.ledger.chargeGroup(key)
	gw.retries.atLimit(change.Eased)
	gw.gangs.CheckReported(gangKey(key), gw.clock.Now())
	minCount := 0
	if ok {
		minCount = g.MinCount
	} else {
		g = nil
	}
	if gw.gangs.NeedsMembers(gangKey(key), minCount) && len(gw.index.lister.Members(key).Assigned) > 0 {
		gw.retries.protectionEnded()
	}
	switch {
	case !ok:
		gw.recorded.end(gangKey(key), decisionlog.Gone)
		gw.turns.Forget(gangKey(key))
		gw.releases.plan(key, nil, "its PodGroup is gone")
		gw.releases.all(gangKey(key), "its PodGroup is gone")
	case g.IsGang():
		gw.joinedGang(key)
		gw.memberships.review(key)
		gw.replanShort(key, g)
		gw.updateNeeded(key, g)
		if change.Moved {
			gw.releases.changedQueue(gangKey(key))
		}
		gw.retries.gang(key)
	default:
		gw.recorded.end(gangKey(key), decisionlog.Gone)
		gw.turns.Forget(gangKey(key))
		gw.releases.all(gangKey(key), "it is no gang any more")
		pending := gw.index.lister.Members(key).Pending
		if change.Moved {
			for _, pod := range pending {
				gw.releases.changedQueue(podKey(pod))
			}
		}
		gw.retries.activate(pending...)
	}
}

// updateNeeded updates the roles that a gang still lacks members of. If enough members wait at
// Permit, they wait only for planned members of these roles.
func (gw *groupWatch) updateNeeded(key types.NamespacedName, g *gang.Group) {
	if gw.gangs.Planned(gangKey(key)) == 0 {
		return
	}
	if members := gw.placements.members(key); gw.placements.through(&members) >= g.MinCount {
		gw.gangs.SetNeeded(gangKey(key), gw.placements.lacking(g, &members, unplaced(&members)))
	}
}

// joinedGang handles pods whose group has become a gang. It releases the reservations that they got
// as single pods, and ends their waits for turns.
func (gw *groupWatch) joinedGang(key types.NamespacedName) {
	queued, promised := gw.quotas.Used(), !gw.reserved.Empty()
	if !queued && !promised {
		return
	}
	for _, pod := range gw.index.lister.Members(key).Pending {
		single := podKey(pod)
		if queued {
			gw.turns.Forget(single)
		}
		if promised && len(gw.reserved.Of(single)) > 0 {
			gw.releases.all(single, "it is part of a gang now")
		}
	}
}

// replanShort releases a plan that has too few members because minCount was raised.
func (gw *groupWatch) replanShort(key types.NamespacedName, g *gang.Group) {
	planned := gw.gangs.PlannedMembers(gangKey(key))
	if members := gw.placements.members(key); len(planned)+members.Reserved.Len() > 0 && gw.placements.isInPart(g, &members, planned) {
		gw.releases.plan(key, nil, "more members are needed than it was planned for")
	}
}

func (pw *podWatch) added(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok {
		pw.steps.arrives(pod)
		if key, isMember := pw.index.groupOf(pod); isMember && pod.Spec.NodeName != "" {
			pw.gangs.Touch(gangKey(key))
			pw.memberships.regroup(key)
		}
		pw.changed(pod, pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0)
		pw.rooms.occupies(nil, pod)
	}
}

func (pw *podWatch) updated(oldObj, newObj any) {
	before, ok1 := oldObj.(*corev1.Pod)
	after, ok2 := newObj.(*corev1.Pod)
	if !ok1 || !ok2 {
		return
	}
	if before.UID != after.UID {
		// The pod was replaced by a pod of the same name while the watch was interrupted. The
		// informer reports that as an update.
		pw.deleted(before)
		pw.added(after)
		return
	}
	moved := pw.followMembership(before, after)
	pw.pauses.changedByOwner(before, after)
	pw.pauses.followStart(before, after)
	if after.DeletionTimestamp != nil && before.DeletionTimestamp == nil && after.Spec.NodeName == "" {
		pw.quotas.Forget(after.UID)
		pw.recorder.Heard(after, true)
		pw.left(after)
		return
	}
	ungated := len(before.Spec.SchedulingGates) > 0 && len(after.Spec.SchedulingGates) == 0
	pw.changed(after, after.Spec.NodeName == "" && (ungated || moved || reconciled(before, after)))
	pw.rooms.occupies(before, after)
	if after.Spec.NodeName == "" && (moved || rehomed(before, after)) && pw.index.profiles.of(after.Spec.SchedulerName) != nil {
		// The scheduler's queue has no event for changes of owners and annotations, and may not
		// have the new version of the pod yet. followMembership reports no move for a blocked pod
		// that is in no group, both before and after the change. So the retry does not depend on
		// that report.
		pw.waits.Gather(pw.index.keyOf(after), pw.clock.Now().Add(chargeDelay))
	}
}

// rehomed reports whether the owners or the annotations that determine a pod's group have changed.
func rehomed(before, after *corev1.Pod) bool {
	return !apiequality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) ||
		slices.ContainsFunc(grouping.PodAnnotations(), func(name string) bool { return before.Annotations[name] != after.Annotations[name] })
}

// followMembership handles a change of a pod's group, whether the pod has a node or not. It reports
// whether the group has changed.
func (pw *podWatch) followMembership(before, after *corev1.Pod) (moved bool) {
	oldKey, wasMember := pw.index.groupOf(before)
	newKey, isMember := pw.index.groupOf(after)
	moved = wasMember != isMember || oldKey != newKey
	if moved {
		pw.memberships.regrouped(after, oldKey, wasMember)
	}
	if settles := moved || settlesAnew(before, after); isMember && (settles || before.Status.Phase != after.Status.Phase) {
		if after.DeletionTimestamp != nil || after.Status.Phase == corev1.PodFailed {
			pw.gangs.Lost(gangKey(newKey))
		} else {
			pw.gangs.Touch(gangKey(newKey))
		}
		if settles {
			pw.memberships.regroup(newKey)
		}
		if after.Status.Phase == corev1.PodRunning {
			pw.surplus.runsOn(newKey)
		}
	}
	return moved
}

// regroup makes the snapshot read all running members of a group again, if facts about the group
// depend on its members:
//
//   - A group without a priority has the highest priority of its members.
//   - The protections of an incomplete group count from the time when its last member was
//     scheduled.
func (ms *memberships) regroup(key types.NamespacedName) {
	g, ok := ms.index.groups.Group(key)
	if !ok {
		return
	}
	if g.Priority == nil || !ms.gangs.IsWhole(gangKey(key)) {
		ms.cluster.GroupChanged(key)
	}
}

// settlesAnew reports whether an update of a pod on a node affects the other members of its group.
// For example, the pod has got its node or has begun to terminate.
func settlesAnew(before, after *corev1.Pod) bool {
	return after.Spec.NodeName != "" && (before.Spec.NodeName == "" || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!preemptiontoleration.ScheduledAt(before).Equal(preemptiontoleration.ScheduledAt(after)))
}

// changedQueue restarts a workload that has moved to another queue.
func (x *releases) changedQueue(key workload.Key) {
	x.wanted.askAnew()
	if x.ledger.isDisallowed(key) && !x.waits.Evicting(key) {
		x.andRetry(key, "it is in another queue")
		return
	}
	x.retries.now(key)
}

// changed handles a created or changed pod. cameForward is true if the pod has just become ready
// for scheduling, so that its gang may have one more member.
func (pw *podWatch) changed(pod *corev1.Pod, cameForward bool) {
	pw.steps.arrives(pod)
	pw.nominations.nominates(pod, pw.index.nominationOf(pod))
	// Charge the pod first. When the pod is no longer assumed, the quota ledger must already count
	// it as placed.
	change := pw.ledger.charge(pod)
	// The queue that the pod counted for before may have room now.
	pw.retries.atLimit(change.Eased)
	pw.recorder.Heard(pod, true)
	if pod.Spec.NodeName != "" {
		pw.steps.step(engine.PodBinds{Pod: string(pod.UID), Key: podKey(pod), Node: pod.Spec.NodeName})
		pw.reporter.statuses.Bound(pod.UID)
		pw.recorded.end(podKey(pod), decisionlog.Bound)
		pw.departures.follow(pod)
	}
	pw.drivers.touch(pod)
	key, ok := pw.index.groupOf(pod)
	if ok && pod.Spec.NodeName == "" && pw.index.profiles.of(pod.Spec.SchedulerName) != nil {
		pw.gangs.CheckReport(gangKey(key), pw.clock.Now())
	}
	switch {
	case !ok:
	case pod.Spec.NodeName != "":
		if pw.gangs.Settled(gangKey(key), string(pod.UID)) {
			// This member will have no cycle that activates the next member of the plan, so
			// activate the next member here.
			pw.releases.orNext(key)
		}
		pw.memberships.endTurns(key)
		pw.pauses.endUnbound(key)
		pw.recorded.memberBound(key)
		pw.gates.moved.Store(true)
		pw.gangs.CheckReported(gangKey(key), pw.clock.Now())
	case cameForward && pod.DeletionTimestamp == nil:
		pw.gangs.MemberComes(gangKey(key))
		if leader := pw.gangs.Leader(gangKey(key)); leader != "" && leader != string(pod.UID) && pw.foundNoRoom(key) {
			pw.retries.soon(key)
		}
	}
	if change.Moved && pod.Spec.NodeName == "" {
		pw.releases.changedQueue(pw.index.keyOf(pod))
	}
}

// foundNoRoom reports whether a gang found no room, or whether only its surplus waits. A new member
// may be smaller than the leader and may fit, so the gang is then retried for it.
func (pw *podWatch) foundNoRoom(key types.NamespacedName) bool {
	if pw.gangs.Verdict(gangKey(key)).Reason == v1alpha1.ReasonUnschedulable {
		return true
	}
	g, ok := pw.index.groups.Group(key)
	if !ok || !g.IsGang() {
		return false
	}
	members := pw.index.lister.Members(key)
	return members.Placed() >= g.MinCount
}

// deleted handles the deletion of a pod. It retries the workloads that waited for the pod to
// terminate, and updates the pod's gang.
func (pw *podWatch) deleted(obj any) {
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = d.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	pw.gates.moved.Store(true)
	pw.recorder.Heard(pod, false)
	pw.pauses.startEnds(pod)
	pw.pauses.memberEnds(pod)
	pw.leaving.gone(pod, pw.clock.Now())
	pw.refused.Forget(pod.UID)
	// The scheduler's queue may have received the deletion before the quota ledger. It then retried
	// workloads at the limit too early, so retry them here.
	pw.retries.atLimit(pw.quotas.Forget(pod.UID).Eased)
	pw.steps.podDeparted(pod.UID)
	pw.placements.awaitOutcome(pod)
	pw.left(pod)
}

// podDeparted retries and returns the workloads whose last pending victim was this pod.
func (s *stepper) podDeparted(uid types.UID) []workload.Key {
	return retriedBy(s.step(engine.VictimGone{Pod: string(uid)}))
}

// arrives records a pod and its group as present in the engine.
func (s *stepper) arrives(pod *corev1.Pod) {
	group := workload.Key{}
	if key, ok := s.index.groupOf(pod); ok {
		group = gangKey(key)
	}
	switch {
	case pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil:
		s.step(engine.PodArrives{Pod: string(pod.UID), Key: podKey(pod), Group: group})
	default:
		// The update that brought the node or the deletion may also have changed the group.
		s.step(engine.PodRegroups{Pod: string(pod.UID), Group: group})
	}
}

// ensurePresent records a pod from the scheduler's queue, or from a list of the informer, as
// present in the engine. The queue, the list and the informer's handlers learn of a pod in any
// order. So the pod may have been deleted already; then ensurePresent does nothing.
func (s *stepper) ensurePresent(queued *corev1.Pod) {
	// The queue may have an older version of the pod, which belongs to another group.
	pod, ok := s.index.podOf(podKey(queued))
	if !ok || !s.index.awaitsPlace(pod) {
		return
	}
	if s.arrives(pod); s.index.awaitsPlace(pod) {
		return
	}
	if now, ok := s.index.podOf(podKey(pod)); ok && now.Spec.NodeName != "" {
		s.stepUnderLock(engine.PodBinds{Pod: string(now.UID), Key: podKey(now), Node: now.Spec.NodeName})
		return
	}
	s.stepUnderLock(leavingOf(pod))
	if key, ok := s.index.groupOf(pod); ok {
		if members := s.index.lister.Members(key); members.Total() == 0 {
			s.stepUnderLock(engine.GroupLeaves{Group: gangKey(key)})
		}
	}
}

// leavingOf returns the engine's event for a pod that is deleted or will not be scheduled any more.
func leavingOf(pod *corev1.Pod) engine.PodLeaves {
	return engine.PodLeaves{Pod: string(pod.UID), Key: podKey(pod), Controller: controllerOf(pod)}
}

// left removes the state of a pod that will not be scheduled any more.
func (pw *podWatch) left(pod *corev1.Pod) {
	pw.nominations.nominates(pod, engine.Nomination{})
	pw.steps.step(leavingOf(pod))
	pw.recorded.end(podKey(pod), decisionlog.Gone)
	pw.drivers.touch(pod)
	if key, ok := pw.index.groupOf(pod); ok {
		pw.memberships.left(key, pod)
	}
}

// leftDuring handles members that left their gang during its decision. It also releases the gang's
// reservations if another change requires that.
func (ms *memberships) leftDuring(key types.NamespacedName, members []*corev1.Pod) {
	for _, pod := range members {
		now, ok := ms.index.podOf(podKey(pod))
		if !ok || !ms.index.awaitsPlace(now) {
			ms.left(key, pod)
		} else if of, isMember := ms.index.groupOf(now); !isMember || of != key {
			ms.regrouped(now, key, true)
		}
	}
	ms.review(key)
}

// left updates the state of a gang that has lost a member.
func (ms *memberships) left(key types.NamespacedName, pod *corev1.Pod) {
	ms.records.LeavesPlan(string(pod.UID))
	disturbed := ms.gangs.MemberLeaves(gangKey(key), string(pod.UID))
	ms.ledger.updateGroupState(key)
	// Read the plan before the members. A member in its cycle may then count twice, but is never
	// missed.
	planned := ms.gangs.PlannedMembers(gangKey(key))
	members := ms.placements.members(key)
	if members.Total() == 0 {
		ms.dropGang(key)
		return
	}
	ms.endTurns(key)
	ms.gangs.CheckReported(gangKey(key), ms.clock.Now())
	if pod.Spec.NodeName != "" {
		ms.gangs.Lost(gangKey(key))
	} else {
		ms.gangs.Touch(gangKey(key))
	}
	ms.regroup(key)
	ms.review(key)
	if disturbed {
		if g, ok := ms.index.groups.Group(key); ok && ms.placements.isInPart(g, &members, planned) {
			ms.releases.plan(key, nil, "member "+pod.Name+" has gone")
		} else {
			// The members at Permit may have waited only for this member.
			ms.retries.allowGang(key, &members)
		}
	}
	if disturbed || isGateReason(ms.gangs.Verdict(gangKey(key)).Reason) || ms.gangs.Idle(gangKey(key)) && !ms.waits.Evicting(gangKey(key)) {
		if pod := ms.retries.representative(key, &members); pod != nil {
			ms.retries.activate(pod)
		}
	}
}

// endTurns ends the turn of a gang if all its members have nodes, so that the gang does not keep
// other workloads waiting.
func (ms *memberships) endTurns(key types.NamespacedName) {
	if !ms.quotas.Used() || ms.quotas.Pends(key) || len(ms.index.lister.Members(key).Pending) > 0 {
		return
	}
	ms.turns.Forget(gangKey(key))
	// A member may have arrived and begun to wait for a turn during this call.
	ms.retries.activate(ms.index.lister.Members(key).Pending...)
}

// review releases the reservations of a gang that cannot use them, for example because it lacks
// members. It is called after all changes of a gang. releases.disallowed does the same after changes
// of queues.
func (ms *memberships) review(key types.NamespacedName) {
	if len(ms.reserved.Of(gangKey(key))) == 0 {
		return
	}
	g, ok := ms.index.groups.Group(key)
	if !ok {
		g = nil
	}
	members := ms.placements.membersAsReserved(key)
	if v := gang.Gate(key, g, &members); v != (gang.Verdict{}) {
		ms.releases.all(gangKey(key), v.Message)
	}
}

// dropGang removes the state of a gang without members.
func (ms *memberships) dropGang(key types.NamespacedName) {
	ms.steps.step(engine.GroupLeaves{Group: gangKey(key)})
	ms.recorded.end(gangKey(key), decisionlog.Gone)
	// A member may have arrived during this call and lost its turn, so retry all pending members.
	ms.retries.activate(ms.index.lister.Members(key).Pending...)
}

// through returns the number of members that have passed their cycles: they have a node, are
// assumed on one, or have succeeded. A member that is being deleted stays assumed until the
// framework forgets it. It does not count, because later members must replace it.
func (o *placements) through(members *gang.Members) int {
	count := members.Placed()
	if members.Reserved.Len() == 0 {
		return count
	}
	o.rejecting.Lock()
	defer o.rejecting.Unlock()
	for _, pod := range members.Pending {
		// A member that was rejected at Permit stays assumed until the framework has processed the
		// rejection.
		if members.Reserved.Has(pod.UID) && !o.leaving.takes(pod.UID) && !o.records.IsRejected(string(pod.UID)) {
			count++
		}
	}
	return count
}

// plan releases a gang's plan with its reservations and nominations, and rejects the members
// that wait at Permit. failed is the member whose cycle failed; nil for none. That member returns
// to the queue at the end of its cycle, and plans again.
func (x *releases) plan(key types.NamespacedName, failed *corev1.Pod, why string) {
	var uid types.UID
	if failed != nil {
		uid = failed.UID
	}
	planned := x.gangs.Planned(gangKey(key))
	x.steps.step(engine.PlanReleased{Group: gangKey(key), Failed: string(uid)})
	why = fmt.Sprintf("%s is released: %s", gang.Title(key), why)
	waiting := x.rejectWaiting(key, uid, why)
	x.cancelBindings(key, why)
	if planned+waiting > 0 {
		happened(logOf(context.Background(), gangKey(key)), "Released a gang", why, "members", planned+waiting)
	}
	if failed != nil && !x.gangs.Stuck(gangKey(key)) {
		x.retries.activate(failed)
	}
}

// rejectWaiting rejects the members of a gang that wait at Permit, except the failed one. It skips
// members that were rejected before, and returns the number of the others. That number includes
// members whose rejection failed.
func (x *releases) rejectWaiting(key types.NamespacedName, failed types.UID, why string) int {
	// The lock prevents two goroutines from rejecting the same pod.
	x.placements.rejecting.Lock()
	defer x.placements.rejecting.Unlock()
	var waiting []fwk.WaitingPod
	x.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		pod := w.GetPod()
		// Skip deleted pods, because the framework rejects them itself.
		if k, ok := x.index.groupOf(pod); ok && k == key && pod.UID != failed && !x.records.IsRejected(string(pod.UID)) && x.index.exists(pod) {
			waiting = append(waiting, w)
		}
	})
	for _, w := range waiting {
		// Reject fails for a pod that another goroutine has allowed. Such a pod will be bound.
		if w.Reject(Name, why) {
			x.records.Rejects(string(w.GetPod().UID))
		}
	}
	return len(waiting)
}

func (r *clusterIndex) exists(pod *corev1.Pod) bool {
	now, err := r.pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && now.UID == pod.UID
}

// nextLeader makes another member the leader, because the leader was rejected before it could plan.
// It returns false if all members have been leaders already. The next event that concerns a member
// makes all members eligible again.
func (t *retries) nextLeader(key types.NamespacedName, leader types.UID) bool {
	next := t.gangs.PassOn(gangKey(key), string(leader))
	members := t.index.lister.Members(key)
	gang.SortByAge(members.Pending)
	for _, pod := range members.Pending {
		if next(string(pod.UID)) && t.index.entersQueue(pod) {
			t.activate(pod)
			return true
		}
	}
	t.gangs.Planning(gangKey(key))
	return false
}
