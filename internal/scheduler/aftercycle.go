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

// FailureHandler is the type of kube-scheduler's handler for failed scheduling and binding cycles.
type FailureHandler = func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time)

// AfterFailures wraps the failure handler of a scheduler. The handler nominates pods at the end of
// a cycle and informs no plugin of that, so the wrapper corrects the effects on Reprieve's state.
// The caller sets the wrapper as the failure handler.
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

// attemptEnds closes the attempt of a pod that was not placed. It returns the status for the
// failure handler, and a function to call after the handler. The attempt must be closed before the
// handler runs: the handler returns the pod to the queue, so the pod's next attempt may begin at
// once.
func (h *Scheduler) attemptEnds(profile framework.Framework, pod *corev1.Pod, status *fwk.Status) (*fwk.Status, func()) {
	attempt, returned := h.records.Ends(string(pod.UID))
	status = h.pauses.failedAfterDecision(profile, pod, &attempt, status)
	h.nominations.restore(attempt.HiddenOn, attempt.Hidden)
	return status, func() { h.finishAttempt(pod, &attempt, returned, status) }
}

// finishAttempt completes the handling of a closed attempt. returned is the gang that waited only
// for this pod to give up its node; the zero Key for none.
func (h *Scheduler) finishAttempt(pod *corev1.Pod, attempt *engine.Attempt, returned workload.Key, status *fwk.Status) {
	if returned != (workload.Key{}) {
		h.retries.returned(returned)
	}
	if attempt.Shown {
		h.releaseNominated(attempt.As, pod)
	}
	if attempt.Recalled && h.turns.IsUnderway(attempt.As) {
		// The pod's next turn began during this attempt, but the framework makes the pod back off.
		h.retries.activate(pod)
	}
	// An error is not a rejection: the pod is retried soon and keeps its reservation.
	if attempt.Reserved && status.IsRejected() {
		h.rejectedEarly(attempt.As, pod)
	}
	if attempt.Turn && status.IsRejected() {
		h.outcomeUnknown(attempt.As, pod)
	}
}

// outcomeKnown records that one of this plugin's extension points has received the outcome of a
// pod's cycle. It restores the nominations that were hidden from the cycle.
func (h *Scheduler) outcomeKnown(pod *corev1.Pod) {
	h.nominations.restore(h.records.Reveals(string(pod.UID)))
	if key, turn := h.records.Hears(string(pod.UID)); turn && key.Gang {
		h.gangs.Planning(key)
	}
}

// outcomeUnknown ends the turn of a workload that was rejected before one of this plugin's
// extension points received the outcome. If the pod was the leader of its gang, the gang gets
// another leader, and the turn continues. A member with a planned node loses its reservation.
func (h *Scheduler) outcomeUnknown(key workload.Key, pod *corev1.Pod) {
	if !key.Gang {
		h.turns.TurnFailed(key)
		return
	}
	if _, planned := h.gangs.PlannedNode(key, string(pod.UID)); planned {
		h.rejectedEarly(key, pod)
		return
	}
	if h.gangs.Leader(key) == string(pod.UID) && h.retries.nextLeader(nameOf(key), pod.UID) {
		// The turn continues with the next leader. Other workloads need not wait for it.
		h.turns.Decided(key)
	} else {
		h.turns.TurnFailed(key)
	}
}

// show returns a PostFilter result that makes the framework nominate the pod to a node when the
// cycle ends. The node "" deletes the pod's nomination.
func (p *Plugin) show(key workload.Key, pod *corev1.Pod, node string) *fwk.PostFilterResult {
	if node != "" {
		p.sched.records.Shows(string(pod.UID), key)
		if p.sched.index.inflates(pod) {
			// The framework would rank the nomination by the pod's own priority, which is too high
			// here. The reservation keeps the room instead, and the evictor writes the nomination
			// to the API.
			return nil
		}
	}
	return framework.NewPostFilterResultWithNominatedNode(node)
}

// releaseNominated deletes the nomination of a pod whose reservation ended during its cycle, and
// retries the workload. The framework wrote the nomination at the end of the cycle, after the
// reservation had ended.
func (h *Scheduler) releaseNominated(key workload.Key, pod *corev1.Pod) {
	if h.records.IsAssumed(string(pod.UID)) || h.reserved.Has(string(pod.UID)) || !h.index.awaitsPlace(pod) {
		return
	}
	h.releases.withdraw([]*corev1.Pod{pod})
	if len(h.reserved.Of(key)) > 0 || h.waits.Evicting(key) {
		return
	}
	h.waits.ResolveVictims(key)
	h.retries.now(key)
}

// rejectedEarly releases the reservation of a pod that was rejected before Reprieve's PostFilter
// ran, so that other pods can use the room. This happens in two cases:
//
//   - PreFilter of another plugin finds the pod unresolvable, for example because a volume claim is
//     gone.
//   - PostFilter of another plugin fails first.
//
// The plugin that rejected the pod retries it after a change.
func (h *Scheduler) rejectedEarly(key workload.Key, pod *corev1.Pod) {
	if !h.reserved.Has(string(pod.UID)) || h.waits.Evicting(key) || h.records.IsAssumed(string(pod.UID)) || !h.index.awaitsPlace(pod) {
		return
	}
	const why = "another plugin rejects the pod regardless of free capacity"
	happened(logOf(context.Background(), key), "Took a promise back", why)
	if g := h.index.gangOf(pod); g != nil {
		if _, planned := h.gangs.PlannedNode(gangKey(g.Key), string(pod.UID)); planned {
			// The pod's cycle has ended, so planFailed gets no failed member. Retry the pod here.
			if h.releases.planFailed(g, nil, "member "+pod.Name+" is refused: "+why); !h.gangs.Stuck(gangKey(g.Key)) {
				h.retries.activate(pod)
			}
			return
		}
	}
	h.releases.all(key, why)
}
