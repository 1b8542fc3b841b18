package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/logging"
	"github.com/reprieve-dev/reprieve/internal/pauses"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// cycles handles the ends of scheduling cycles: it ends turns, chooses the next leader of a gang,
// and retries pods that were rejected. Permit, PostFilter and the failure handler report to it. Its
// neighbor [pauses.Pauses] handles failures after a decision. It is safe for concurrent use.
type cycles struct {
	index       *cluster.Index
	gangs       *engine.Gangs
	records     *engine.Pods
	reserved    *engine.Reservations
	waits       *engine.Waits
	turns       *admission.List
	retries     *retries
	releases    *releases
	nominations *nominations
	pauses      *pauses.Pauses
}

// FailureHandler is the type of kube-scheduler's handler for failed scheduling and binding cycles.
type FailureHandler = func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time)

// AfterFailures wraps the failure handler of a scheduler. The handler nominates pods at the end of
// a cycle and informs no plugin. So the wrapper checks the nomination afterwards, and deletes it if
// the reservation has ended. The caller sets the wrapper as the failure handler.
func (ps *Plugins) AfterFailures(handle FailureHandler) FailureHandler {
	return func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		settle := func() {}
		if sched := ps.Scheduler(); sched != nil {
			status, settle = sched.cycles.attemptEnds(profile, pod.Pod, status)
		}
		handle(ctx, profile, pod, status, nominating, start)
		settle()
	}
}

// attemptEnds closes the attempt of a pod that was not placed. It returns the status for the
// failure handler, and a function to call after the handler. The attempt must be closed before the
// handler runs: the handler returns the pod to the queue, so the pod's next attempt may begin at
// once.
func (cs *cycles) attemptEnds(profile framework.Framework, pod *corev1.Pod, status *fwk.Status) (*fwk.Status, func()) {
	attempt, returned := cs.records.Ends(string(pod.UID))
	status = cs.pauses.FailedAfterDecision(profile, pod, &attempt, status)
	cs.nominations.restore(attempt.HiddenOn, attempt.Hidden)
	return status, func() { cs.finishAttempt(pod, &attempt, returned, status) }
}

// finishAttempt completes the handling of a closed attempt. returned is the gang that waited only
// for this pod to give up its node; the zero Key for none.
func (cs *cycles) finishAttempt(pod *corev1.Pod, attempt *engine.Attempt, returned workload.Key, status *fwk.Status) {
	if returned != (workload.Key{}) {
		cs.retries.returned(returned)
	}
	if attempt.Shown {
		cs.releaseNominated(attempt.As, pod)
	}
	if attempt.Recalled && cs.turns.IsUnderway(attempt.As) {
		// The pod's next turn began during this attempt, but the framework makes the pod back off.
		cs.retries.activate(pod)
	}
	// An error is not a rejection: the pod is retried soon and keeps its reservation.
	if attempt.Reserved && status.IsRejected() {
		cs.rejectedEarly(attempt.As, pod)
	}
	if attempt.Turn && status.IsRejected() {
		cs.outcomeUnknown(attempt.As, pod)
	}
}

// outcomeKnown records that one of this plugin's extension points has received the outcome of a
// pod's cycle. It restores the nominations that were hidden from the cycle.
func (cs *cycles) outcomeKnown(pod *corev1.Pod) {
	cs.nominations.restore(cs.records.Reveals(string(pod.UID)))
	if key, turn := cs.records.Hears(string(pod.UID)); turn && key.Gang {
		cs.gangs.Planning(key)
	}
}

// outcomeUnknown ends the turn of a workload that was rejected before one of this plugin's
// extension points received the outcome. If the pod was the leader of its gang, the gang gets
// another leader, and the turn continues. A member with a planned node loses its reservation.
func (cs *cycles) outcomeUnknown(key workload.Key, pod *corev1.Pod) {
	if !key.Gang {
		cs.turns.TurnFailed(key)
		return
	}
	if _, planned := cs.gangs.PlannedNode(key, string(pod.UID)); planned {
		cs.rejectedEarly(key, pod)
		return
	}
	if cs.gangs.Leader(key) == string(pod.UID) && cs.retries.nextLeader(nameOf(key), pod.UID) {
		// The turn continues with the next leader. Other workloads need not wait for it.
		cs.turns.Decided(key)
	} else {
		cs.turns.TurnFailed(key)
	}
}

// show returns a PostFilter result that makes the framework nominate the pod to a node when the
// cycle ends. The node "" deletes the pod's nomination.
func (p *Plugin) show(key workload.Key, pod *corev1.Pod, node string) *fwk.PostFilterResult {
	if node != "" {
		p.sched.records.Shows(string(pod.UID), key)
		if p.sched.index.Inflates(pod) {
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
func (cs *cycles) releaseNominated(key workload.Key, pod *corev1.Pod) {
	if cs.records.IsAssumed(string(pod.UID)) || cs.reserved.Has(string(pod.UID)) || !cs.index.AwaitsPlace(pod) {
		return
	}
	cs.releases.withdraw([]*corev1.Pod{pod})
	if len(cs.reserved.Of(key)) > 0 || cs.waits.Evicting(key) {
		return
	}
	cs.waits.ResolveVictims(key)
	cs.retries.Retry(key)
}

// rejectedEarly releases the reservation of a pod that was rejected before Reprieve's PostFilter
// ran, so that other pods can use the room. This happens in two cases:
//
//   - PreFilter of another plugin finds the pod unresolvable, for example because a volume claim is
//     gone.
//   - PostFilter of another plugin fails first.
//
// The plugin that rejected the pod retries it after a change.
func (cs *cycles) rejectedEarly(key workload.Key, pod *corev1.Pod) {
	if !cs.reserved.Has(string(pod.UID)) || cs.waits.Evicting(key) || cs.records.IsAssumed(string(pod.UID)) || !cs.index.AwaitsPlace(pod) {
		return
	}
	const why = "another plugin rejects the pod regardless of free capacity"
	logging.Happened(logging.Of(context.Background(), key), "Took a promise back", why)
	if g := cs.index.GangOf(pod); g != nil {
		if _, planned := cs.gangs.PlannedNode(gangKey(g.Key), string(pod.UID)); planned {
			// Pass no failed member to planFailed, because the pod's cycle has ended. Retry the pod
			// here.
			if cs.releases.planFailed(g, nil, "member "+pod.Name+" is refused: "+why); !cs.gangs.Stuck(gangKey(g.Key)) {
				cs.retries.activate(pod)
			}
			return
		}
	}
	cs.releases.All(key, why)
}
