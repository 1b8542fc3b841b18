package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// memberships updates the state of gangs whose members are deleted, finish or move to another
// group. [podWatch] and [groupWatch] call it after each such change, and the plugin calls it at the
// end of a decision. It is safe for concurrent use.
type memberships struct {
	index      *cluster.Index
	placements *cluster.Placements
	ledger     *cluster.Ledger
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

// leftDuring handles members that left their gang during its decision. It also releases the gang's
// reservations if another change requires that.
func (ms *memberships) leftDuring(key types.NamespacedName, members []*corev1.Pod) {
	for _, pod := range members {
		now, ok := ms.index.PodOf(podKey(pod))
		if !ok || !ms.index.AwaitsPlace(now) {
			ms.left(key, pod)
		} else if of, isMember := ms.index.GroupOf(now); !isMember || of != key {
			ms.regrouped(now, key, true)
		}
	}
	ms.review(key)
}

// left updates the state of a gang that has lost a member.
func (ms *memberships) left(key types.NamespacedName, pod *corev1.Pod) {
	ms.records.LeavesPlan(string(pod.UID))
	disturbed := ms.gangs.MemberLeaves(gangKey(key), string(pod.UID))
	ms.ledger.UpdateGroupState(key)
	// Read the plan before the members. A member in its cycle may then count twice, but is never
	// missed.
	planned := ms.gangs.PlannedMembers(gangKey(key))
	members := ms.placements.Members(key)
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
		if g, ok := ms.index.Groups.Group(key); ok && ms.placements.IsInPart(g, &members, planned) {
			ms.releases.plan(key, nil, "member "+pod.Name+" has gone")
		} else {
			// The members at Permit may have waited only for this member.
			ms.retries.allowGang(key, &members)
		}
	}
	if disturbed || cluster.IsGateReason(ms.gangs.Verdict(gangKey(key)).Reason) || ms.gangs.Idle(gangKey(key)) && !ms.waits.Evicting(gangKey(key)) {
		if pod := ms.retries.representative(key, &members); pod != nil {
			ms.retries.activate(pod)
		}
	}
}

// dropGang removes the state of a gang without members.
func (ms *memberships) dropGang(key types.NamespacedName) {
	ms.steps.step(engine.GroupLeaves{Group: gangKey(key)})
	ms.recorded.end(gangKey(key), decisionlog.Gone)
	// A member may have arrived during this call and lost its turn, so retry all pending members.
	ms.retries.activate(ms.index.Lister.Members(key).Pending...)
}

// endTurns ends the turn of a gang if all its members have nodes, so that the gang does not keep
// other workloads waiting.
func (ms *memberships) endTurns(key types.NamespacedName) {
	if !ms.quotas.Used() || ms.quotas.Pends(key) || len(ms.index.Lister.Members(key).Pending) > 0 {
		return
	}
	ms.turns.Forget(gangKey(key))
	// A member may have arrived and begun to wait for a turn during this call.
	ms.retries.activate(ms.index.Lister.Members(key).Pending...)
}

// review releases the reservations of a gang that cannot use them, for example because it lacks
// members. It is called after every change of a gang; releases.disallowed does the same after
// changes of queues.
func (ms *memberships) review(key types.NamespacedName) {
	if len(ms.reserved.Of(gangKey(key))) == 0 {
		return
	}
	g, ok := ms.index.Groups.Group(key)
	if !ok {
		g = nil
	}
	members := ms.placements.MembersAsReserved(key)
	if v := gang.Gate(key, g, &members); v != (gang.Verdict{}) {
		ms.releases.All(gangKey(key), v.Message)
	}
}

// regroup makes the snapshot read all running members of a group again, if facts about the group
// depend on its members:
//
//   - A group without a priority has the highest priority of its members.
//   - The protections of an incomplete group count from the time when its last member was
//     scheduled.
func (ms *memberships) regroup(key types.NamespacedName) {
	g, ok := ms.index.Groups.Group(key)
	if !ok {
		return
	}
	if g.Priority == nil || !ms.gangs.IsWhole(gangKey(key)) {
		ms.cluster.GroupChanged(key)
	}
}

// regrouped removes the state of a pod that belonged to another group, or was scheduled as a single
// pod. It retries the pod soon.
func (ms *memberships) regrouped(pod *corev1.Pod, before types.NamespacedName, was bool) {
	ms.steps.arrives(pod)
	ms.steps.step(engine.PodRejoins{Pod: string(pod.UID), Key: podKey(pod)})
	ms.recorded.end(podKey(pod), decisionlog.Gone)
	if was {
		ms.left(before, pod)
	}
	ms.retryMoved(pod)
}

// retryMoved retries a pod whose group has changed, or may have changed. The scheduler's queue has
// no event for changes of owners and annotations, and may get the new version of the pod late.
func (ms *memberships) retryMoved(pod *corev1.Pod) {
	now := ms.index.Latest(pod)
	if now.Spec.NodeName == "" && now.DeletionTimestamp == nil && ms.index.Profiles.Of(now.Spec.SchedulerName) != nil {
		ms.waits.Gather(ms.index.KeyOf(now), ms.clock.Now().Add(chargeDelay))
	}
}
