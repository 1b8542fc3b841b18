package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/logging"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// releases ends reservations and plans: it deletes their nominations, rejects the members at Permit
// and cancels bindings. The plugin calls it when a member fails. The watchers call it when the
// cluster changes. [retries] then starts the next attempt. It is safe for concurrent use.
type releases struct {
	index      *cluster.Index
	placements *cluster.Placements
	ledger     *cluster.Ledger
	quotas     *queue.Ledger
	evictor    Evictor
	handle     framework.Framework
	gangs      *engine.Gangs
	records    *engine.Pods
	reserved   *engine.Reservations
	waits      *engine.Waits
	wanted     *wants
	metrics    *metrics.Metrics
	steps      *stepper
	retries    *retries
}

// andRetry releases all reservations of a workload and retries it.
func (x *releases) andRetry(key workload.Key, why string) {
	x.All(key, why)
	x.retries.Retry(key)
}

// All releases all reservations of a workload. For a gang, it also releases the plan.
func (x *releases) All(key workload.Key, why string) {
	if key.Gang && x.gangs.Planned(key) > 0 {
		x.plan(nameOf(key), nil, why)
	}
	x.steps.step(engine.Releases{Key: key})
}

// plan releases a gang's plan with its reservations and nominations, and rejects the members that
// wait at Permit. failed is the member whose cycle failed; nil for none. That member returns to the
// queue at the end of its cycle, and plans again.
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
		logging.Happened(logging.Of(context.Background(), gangKey(key)), "Released a gang", why, "members", planned+waiting)
	}
	if failed != nil && !x.gangs.Stuck(gangKey(key)) {
		x.retries.activate(failed)
	}
}

// rejectWaiting rejects the members of a gang that wait at Permit, except the failed one. It skips
// members that were rejected before. It returns the number of all other members, including members
// whose rejection failed.
func (x *releases) rejectWaiting(key types.NamespacedName, failed types.UID, why string) int {
	// The lock prevents two goroutines from rejecting the same pod.
	x.placements.Rejecting.Lock()
	defer x.placements.Rejecting.Unlock()
	var waiting []fwk.WaitingPod
	x.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		pod := w.GetPod()
		// Skip deleted pods, because the framework rejects them itself.
		if k, ok := x.index.GroupOf(pod); ok && k == key && pod.UID != failed && !x.records.IsRejected(string(pod.UID)) && x.index.Exists(pod) {
			waiting = append(waiting, w)
		}
	})
	for _, w := range waiting {
		// Reject fails if another goroutine has allowed the pod to pass Permit. Such a pod will be
		// bound.
		if w.Reject(Name, why) {
			x.records.Rejects(string(w.GetPod().UID))
		}
	}
	return len(waiting)
}

// rejectAtPermit rejects a pod that waits at Permit; false for a pod that does not wait there.
func (x *releases) rejectAtPermit(uid types.UID, why string) bool {
	x.placements.Rejecting.Lock()
	defer x.placements.Rejecting.Unlock()
	if x.records.IsRejected(string(uid)) {
		return true
	}
	w := x.handle.GetWaitingPod(uid)
	if w == nil || !w.Preempt(Name, why) {
		return false
	}
	x.records.Rejects(string(uid))
	return true
}

// cancelBindings returns the members in PreBind to the queue if their gang then has too few
// members. A gang is placed together or not at all.
func (x *releases) cancelBindings(key types.NamespacedName, why string) {
	g, ok := x.index.Groups.Group(key)
	if !ok || !g.IsGang() {
		return
	}
	members := x.placements.Members(key)
	if g.Tree != nil {
		short := x.placements.Partial(g, &members, nil)
		for _, pod := range members.Pending {
			if members.Reserved.Has(pod.UID) && short.Has(g.Tree.PartOf(pod)) {
				x.cancelBinding(pod.UID, why)
			}
		}
		return
	}
	if x.placements.Missing(g, &members) == 0 {
		return
	}
	for _, uid := range x.gangs.Reserved(gangKey(key)) {
		x.cancelBinding(types.UID(uid), why)
	}
}

// cancelBinding returns a pod in PreBind to the queue; false for a pod that is not in PreBind, or
// that is being bound already.
func (x *releases) cancelBinding(uid types.UID, why string) bool {
	b := x.handle.GetPodInPreBind(uid)
	if b == nil {
		return false
	}
	// Record the cancellation before the call, because the framework may report it before CancelPod
	// returns.
	x.records.Cancels(string(uid))
	if !b.CancelPod(why) {
		x.records.KeepsBinding(string(uid))
		return false
	}
	return true
}

// orNext retries the next member of a gang's plan. If another plugin gates that member, orNext
// releases the plan.
func (x *releases) orNext(key types.NamespacedName) {
	next := x.gangs.Next(gangKey(key))
	if next == "" {
		return
	}
	member, _ := x.records.InPlan(next)
	pod, ok := x.index.PodOf(member)
	switch {
	case !ok || !x.index.AwaitsPlace(pod):
	case x.index.EntersQueue(pod):
		x.retries.activate(pod)
	default:
		// Another plugin gates the member, so the plan cannot continue. Release the plan, because
		// later members would wait for this member, and other workloads for the reserved room.
		x.plan(key, nil, "another plugin holds member "+pod.Name+" back")
	}
}

// planFailed releases the plan of a gang after a member was rejected on its planned node. failed is
// the rejected member if its cycle still runs; nil otherwise. Usually, the cause is a change of the
// cluster since the plan, so the gang is planned again at once. If the same plan fails a second
// time, the gang is planned again only after a change.
func (x *releases) planFailed(g *gang.Group, failed *corev1.Pod, why string) *fwk.Status {
	if again := x.gangs.Failed(gangKey(g.Key)); !again {
		x.metrics.Unconfirmed(metrics.FirstTime)
		x.plan(g.Key, failed, why)
		return fwk.NewStatus(fwk.Unschedulable, "the node planned for this member no longer fits; the gang is planned again")
	}
	x.metrics.Unconfirmed(metrics.Repeated)
	x.plan(g.Key, nil, why)
	x.gangs.SetVerdict(gangKey(g.Key), gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: "the plan cannot be carried out: " + why})
	return fwk.NewStatus(fwk.Unschedulable, "the plan cannot be carried out: "+why)
}

// withdraw deletes the nominations of pods whose reservations ended, in the framework's memory and
// in the API.
func (x *releases) withdraw(pods []*corev1.Pod) {
	none := make([]podstatus.Nomination, 0, len(pods))
	for _, pod := range pods {
		if x.reserved.Has(string(pod.UID)) {
			// The pod has a newer reservation.
			continue
		}
		x.records.HasLookedElsewhere(string(pod.UID))
		x.records.Nominates(string(pod.UID), engine.Nomination{})
		x.handle.DeleteNominatedPodIfExists(pod)
		if now, ok := x.index.PodOf(podKey(pod)); ok && now.Spec.NodeName == "" {
			none = append(none, podstatus.Nomination{Pod: now})
		}
	}
	x.evictor.Nominate(context.Background(), none)
	x.reservationsEnded(pods)
}

// review retries a workload whose cause of waiting has ended. Before that, it releases the
// workload's reservations if they are no longer valid.
func (x *releases) review(key workload.Key) {
	if why := x.ledger.InvalidBecause(key); why != "" && !x.waits.Evicting(key) {
		x.All(key, why)
	}
	x.retries.Retry(key)
}

// disallowed releases the reservations of each workload whose queue no longer allows them.
// Without this, the workload would keep the room while its queue blocks it.
func (x *releases) disallowed() {
	x.disallowedAmong(x.reserved.Keys(), "its queue has changed")
}

func (x *releases) disallowedAmong(keys []workload.Key, why string) {
	x.wanted.askAnew()
	for _, key := range keys {
		// Skip a workload with evictions under way. The end of the evictions reviews it.
		if !x.waits.Evicting(key) && x.ledger.IsDisallowed(key) {
			x.andRetry(key, why)
		}
	}
}

// overLimit releases reservations that no longer fit below the limits of their queue, because work
// of the given standing has used the room. It releases only reservations of lower standing.
func (x *releases) overLimit(standing workload.Standing) {
	if standing.Queue == "" || !x.quotas.IsLimited(standing.Queue) {
		return
	}
	if below := x.reserved.Below(standing); len(below) > 0 {
		x.disallowedAmong(below, "more important work uses the room that the limit of its queue leaves")
	}
}

// changedQueue restarts a workload that has moved to another queue.
func (x *releases) changedQueue(key workload.Key) {
	x.wanted.askAnew()
	if x.ledger.IsDisallowed(key) && !x.waits.Evicting(key) {
		x.andRetry(key, "it is in another queue")
		return
	}
	x.retries.Retry(key)
}

// reportLost changes the verdict of a gang that lost its room from Preempting or Pending to
// Unschedulable. A cycle would do the same, but without any node the framework runs no cycle.
func (x *releases) reportLost(key types.NamespacedName, why string) {
	v := x.gangs.Verdict(gangKey(key))
	if v == released() || v.Reason == v1alpha1.ReasonPreempting || v.Reason == v1alpha1.ReasonPending {
		x.gangs.SetVerdict(gangKey(key), gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: why + "; it is planned again"})
	}
}

// reservationsEnded updates the verdicts of gangs that have lost their last reservation. It changes
// the verdict only if it is Preempting. The next decision replaces the verdict, but without any
// node there is no next decision.
func (x *releases) reservationsEnded(pods []*corev1.Pod) {
	keys := sets.New[types.NamespacedName]()
	for _, pod := range pods {
		if key, ok := x.index.GroupOf(pod); ok {
			keys.Insert(key)
		}
	}
	for key := range keys {
		if x.gangs.Verdict(gangKey(key)).Reason == v1alpha1.ReasonPreempting && len(x.reserved.Of(gangKey(key))) == 0 {
			x.gangs.SetVerdict(gangKey(key), released())
		}
	}
}

// released returns the verdict for a gang that has lost its reservations, until the next decision.
func released() gang.Verdict {
	return gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: "the room that was reserved for it has been released; it is planned again"}
}
