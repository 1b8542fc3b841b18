package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// FailureHandler is the kube-scheduler's handler for a scheduling or binding cycle that failed.
type FailureHandler = func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time)

// AfterFailures wraps a scheduler's failure handler so that the plugins can correct its effects.
// The handler decides the nomination of a pod last, and informs no plugin. Set the returned handler
// in the scheduler.
func (ps *Plugins) AfterFailures(handle FailureHandler) FailureHandler {
	return func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		settle := func() {}
		if sched := ps.Scheduler(); sched != nil {
			status, settle = sched.attemptEnds(profile, pod.Pod, status)
		}
		handle(ctx, profile, pod, status, nominating, start)
		settle()
	}
}

// attemptEnds handles the end of an attempt that did not place the pod. It returns the status for
// the framework, and a function to call after the framework's own handler. It closes the attempt
// before this handler runs, because the handler returns the pod to its queue, and the next attempt
// may begin at once.
func (h *Scheduler) attemptEnds(profile framework.Framework, pod *corev1.Pod, status *fwk.Status) (*fwk.Status, func()) {
	attempt, returned := h.records.Ends(string(pod.UID))
	status = h.failedAfterDecision(profile, pod, &attempt, status)
	h.restoreNominations(attempt.HiddenOn, attempt.Hidden)
	return status, func() { h.finishAttempt(pod, &attempt, returned, status) }
}

// finishAttempt completes the handling of an attempt that has ended. returned is the gang that
// waited for this pod, and for no other, to give up its node; the zero Key for none.
func (h *Scheduler) finishAttempt(pod *corev1.Pod, attempt *engine.Attempt, returned workload.Key, status *fwk.Status) {
	if returned != (workload.Key{}) {
		h.retryReturned(returned)
	}
	if attempt.Shown {
		h.releaseNominated(attempt.As, pod)
	}
	if attempt.Recalled && h.turns.IsUnderway(attempt.As) {
		// The pod's next turn has begun meanwhile, but the framework makes the pod back off.
		h.activate(pod)
	}
	// A cycle with an error is no rejection: the pod is retried soon and keeps its reservation.
	if attempt.Reserved && status.IsRejected() {
		h.rejectedEarly(attempt.As, pod)
	}
	if attempt.Turn && status.IsRejected() {
		h.outcomeUnknown(attempt.As, pod)
	}
}

// outcomeKnown records that an extension point has received the outcome of a pod's cycle. It makes
// the nominations visible again that were hidden from the cycle.
func (h *Scheduler) outcomeKnown(pod *corev1.Pod) {
	h.restoreNominations(h.records.Reveals(string(pod.UID)))
	if key, turn := h.records.Hears(string(pod.UID)); turn && key.Gang {
		h.gangs.Planning(key)
	}
}

// outcomeUnknown handles a workload that had its turn and was rejected before an extension point of
// this plugin received the outcome. If the pod led its gang, another member leads next, unless it
// was rejected as well. For a member with a place in the plan, see unanswered.
func (h *Scheduler) outcomeUnknown(key workload.Key, pod *corev1.Pod) {
	if !key.Gang {
		h.turns.TurnFailed(key)
		return
	}
	if _, planned := h.gangs.PlannedNode(key, string(pod.UID)); planned {
		h.rejectedEarly(key, pod)
		return
	}
	if h.gangs.Leader(key) == string(pod.UID) && h.nextLeader(nameOf(key), pod.UID) {
		// The turn continues, and other workloads need not wait for it.
		h.turns.Decided(key)
	} else {
		h.turns.TurnFailed(key)
	}
}

// show returns the result that makes the framework nominate the pod of a cycle to a node at the end
// of the cycle. The node "" deletes the nomination.
func (p *Plugin) show(key workload.Key, pod *corev1.Pod, node string) *fwk.PostFilterResult {
	if node != "" {
		p.sched.records.Shows(string(pod.UID), key)
		if p.sched.inflates(pod) {
			// The framework would use the pod's own priority, which is too high here. The
			// reservation keeps the room, and the evictor writes the nomination to the API.
			return nil
		}
	}
	return framework.NewPostFilterResultWithNominatedNode(node)
}

// releaseNominated deletes the nomination of a reservation that ended before the framework wrote
// the nomination, and retries the workload. A pod in its cycle does not notice the end of its
// reservation.
func (h *Scheduler) releaseNominated(key workload.Key, pod *corev1.Pod) {
	if h.records.IsAssumed(string(pod.UID)) || h.reserved.Has(string(pod.UID)) || !h.awaitsPlace(pod) {
		return
	}
	h.withdraw([]*corev1.Pod{pod})
	if len(h.reserved.Of(key)) > 0 || h.waits.Evicting(key) {
		return
	}
	h.waits.ResolveVictims(key)
	h.retryNow(key)
}

// rejectedEarly releases the reservation of a pod that was rejected before Reprieve's PostFilter
// ran. This happens if a plugin's PreFilter calls the pod unresolvable, for example because a
// volume claim is gone. It also happens if the PostFilter of another plugin fails first. Others can
// use the room, and the plugin that rejected the pod retries it after a change.
func (h *Scheduler) rejectedEarly(key workload.Key, pod *corev1.Pod) {
	if !h.reserved.Has(string(pod.UID)) || h.waits.Evicting(key) || h.records.IsAssumed(string(pod.UID)) || !h.awaitsPlace(pod) {
		return
	}
	const why = "another plugin rejects the pod regardless of free capacity"
	happened(logOf(context.Background(), key), "Took a promise back", why)
	if g := h.gangOf(pod); g != nil {
		if _, planned := h.gangs.PlannedNode(gangKey(g.Key), string(pod.UID)); planned {
			// The pod is in no cycle, so it returns like all other members.
			if h.planFailed(g, nil, "member "+pod.Name+" is refused: "+why); !h.gangs.Stuck(gangKey(g.Key)) {
				h.activate(pod)
			}
			return
		}
	}
	h.releaseAll(key, why)
}
