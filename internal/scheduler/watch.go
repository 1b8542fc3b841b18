package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/drivers"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/leaving"
	"github.com/reprieve-dev/reprieve/internal/pauses"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/reporter"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// podWatch follows the pods: it reports each change of a pod to the components and the engine. The
// informers of unfinished and finished pods call it. [groupWatch] does the same for PodGroups, and
// [memberships] updates gangs that lose members. It is safe for concurrent use.
type podWatch struct {
	index       *cluster.Index
	placements  *cluster.Placements
	ledger      *cluster.Ledger
	leaving     *leaving.Pods
	quotas      *queue.Ledger
	cluster     *snapshot.Cache
	gangs       *engine.Gangs
	records     *engine.Pods
	waits       *engine.Waits
	refused     *eviction.Refusals
	reporter    *reporter.Reporter
	recorder    Recorder
	finished    cache.SharedIndexInformer
	clock       clock.WithTicker
	steps       *stepper
	retries     *retries
	releases    *releases
	drivers     *drivers.Bounds
	gates       *gates
	nominations *nominations
	rooms       *rooms
	departures  *departures
	pauses      *pauses.Pauses
	recorded    *recordedWaits
	surplus     *surplus
	memberships *memberships
	groupWatch  *groupWatch
}

func (pw *podWatch) added(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok {
		pw.steps.arrives(pod)
		if key, isMember := pw.index.GroupOf(pod); isMember && pod.Spec.NodeName != "" {
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
	pw.pauses.ChangedByOwner(before, after)
	pw.pauses.FollowStart(before, after)
	if after.DeletionTimestamp != nil && before.DeletionTimestamp == nil && after.Spec.NodeName == "" {
		pw.quotas.Forget(after.UID)
		pw.recorder.Heard(after, true)
		pw.left(after)
		return
	}
	ungated := len(before.Spec.SchedulingGates) > 0 && len(after.Spec.SchedulingGates) == 0
	pw.changed(after, after.Spec.NodeName == "" && (ungated || moved || reconciled(before, after)))
	pw.rooms.occupies(before, after)
	if rehomed(before, after) {
		// followMembership reports no move for a blocked pod that is in no group, both before and
		// after the change. So this retry does not depend on that report.
		pw.memberships.retryMoved(after)
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
	oldKey, wasMember := pw.index.GroupOf(before)
	newKey, isMember := pw.index.GroupOf(after)
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

// settlesAnew reports whether an update of a pod with a node affects the other members of its
// group. For example, the pod has got its node or has begun to terminate.
func settlesAnew(before, after *corev1.Pod) bool {
	return after.Spec.NodeName != "" && (before.Spec.NodeName == "" || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!preemptiontoleration.ScheduledAt(before).Equal(preemptiontoleration.ScheduledAt(after)))
}

// changed handles a created or changed pod. cameForward is true if the pod has just become ready
// for scheduling, so that its gang may have one more member.
func (pw *podWatch) changed(pod *corev1.Pod, cameForward bool) {
	pw.steps.arrives(pod)
	pw.nominations.nominates(pod, pw.index.NominationOf(pod))
	// Charge the pod first. When the pod is no longer assumed, the quota ledger must already count
	// it as placed.
	change := pw.ledger.Charge(pod)
	// The queue that the pod counted for before may have room now.
	pw.retries.atLimit(change.Eased)
	pw.recorder.Heard(pod, true)
	if pod.Spec.NodeName != "" {
		pw.steps.step(engine.PodBinds{Pod: string(pod.UID), Key: podKey(pod), Node: pod.Spec.NodeName})
		pw.reporter.Bound(pod.UID)
		pw.recorded.end(podKey(pod), decisionlog.Bound)
		pw.departures.follow(pod)
	}
	pw.drivers.Touch(pod)
	key, ok := pw.index.GroupOf(pod)
	if ok && pod.Spec.NodeName == "" && pw.index.Profiles.Of(pod.Spec.SchedulerName) != nil {
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
		pw.pauses.EndUnbound(key)
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
		pw.releases.changedQueue(pw.index.KeyOf(pod))
	}
}

// foundNoRoom reports whether a gang found no room without evictions, or whether only its surplus
// waits. In both cases, the caller retries the gang for a new member, which may be smaller than the
// leader and may fit. Without the retry, the gang would wait for its victims although it could run
// beside them.
func (pw *podWatch) foundNoRoom(key types.NamespacedName) bool {
	switch pw.gangs.Verdict(gangKey(key)).Reason {
	case v1alpha1.ReasonUnschedulable, v1alpha1.ReasonPreempting:
		return true
	}
	g, ok := pw.index.Groups.Group(key)
	if !ok || !g.IsGang() {
		return false
	}
	members := pw.index.Lister.Members(key)
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
	pw.pauses.StartEnds(pod)
	pw.pauses.MemberEnds(pod)
	pw.leaving.Gone(pod, pw.clock.Now())
	pw.refused.Forget(pod.UID)
	// The scheduler's queue may have received the deletion before the quota ledger. In that case it
	// has retried the workloads at the limit of the queue too early. Retry them here.
	pw.retries.atLimit(pw.quotas.Forget(pod.UID).Eased)
	pw.steps.podDeparted(pod.UID)
	pw.placements.AwaitOutcome(pod)
	pw.left(pod)
}

// podDeparted retries and returns the workloads whose last pending victim was this pod.
func (s *stepper) podDeparted(uid types.UID) []workload.Key {
	return retriedBy(s.step(engine.VictimGone{Pod: string(uid)}))
}

// arrives records a pod and its group as present in the engine.
func (s *stepper) arrives(pod *corev1.Pod) {
	group := workload.Key{}
	if key, ok := s.index.GroupOf(pod); ok {
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
// order. ensurePresent does nothing for a pod that has been deleted already.
func (s *stepper) ensurePresent(queued *corev1.Pod) {
	// The queue may have an older version of the pod, which belongs to another group.
	pod, ok := s.index.PodOf(podKey(queued))
	if !ok || !s.index.AwaitsPlace(pod) {
		return
	}
	if s.arrives(pod); s.index.AwaitsPlace(pod) {
		return
	}
	if now, ok := s.index.PodOf(podKey(pod)); ok && now.Spec.NodeName != "" {
		s.stepUnderLock(engine.PodBinds{Pod: string(now.UID), Key: podKey(now), Node: now.Spec.NodeName})
		return
	}
	s.stepUnderLock(leavingOf(pod))
	if key, ok := s.index.GroupOf(pod); ok {
		if members := s.index.Lister.Members(key); members.Total() == 0 {
			s.stepUnderLock(engine.GroupLeaves{Group: gangKey(key)})
		}
	}
}

// leavingOf returns the engine's event for a pod that is deleted or will not be scheduled any more.
func leavingOf(pod *corev1.Pod) engine.PodLeaves {
	return engine.PodLeaves{Pod: string(pod.UID), Key: podKey(pod), Controller: pauses.ControllerOf(pod)}
}

// left removes the state of a pod that will not be scheduled any more.
func (pw *podWatch) left(pod *corev1.Pod) {
	pw.nominations.nominates(pod, engine.Nomination{})
	pw.steps.step(leavingOf(pod))
	pw.recorded.end(podKey(pod), decisionlog.Gone)
	pw.drivers.Touch(pod)
	if key, ok := pw.index.GroupOf(pod); ok {
		pw.memberships.left(key, pod)
	}
}
