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

// FailureHandler is what a kube-scheduler does at the end of a cycle, or of a binding, that came to nothing.
type FailureHandler = func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time)

// AfterFailures has the plugins put right what a scheduler's handler of failures has done: it has the last word on where a pod is
// expected, and tells no plugin. Give the scheduler what is returned in its place.
func (ps *Plugins) AfterFailures(handle FailureHandler) FailureHandler {
	return func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		settle := func() {}
		if hub := ps.Hub(); hub != nil {
			status, settle = hub.attemptEnds(profile, pod.Pod, status)
		}
		handle(ctx, profile, pod, status, nominating, start)
		settle()
	}
}

// attemptEnds acts on the end of an attempt that did not place the pod. It returns the status for the framework, and the actions for
// the moment after the framework's own: the framework puts the pod back into its queue half-way, and the next attempt may begin at once.
func (h *Hub) attemptEnds(profile framework.Framework, pod *corev1.Pod, status *fwk.Status) (*fwk.Status, func()) {
	attempt, returned := h.records.Ends(string(pod.UID))
	status = h.failedAfterDecision(profile, pod, &attempt, status)
	h.reveal(attempt.HiddenOn, attempt.Hidden)
	return status, func() { h.settle(pod, &attempt, returned, status) }
}

// settle acts on an attempt that has ended. returned is the gang that waited for the pod to give its node up, if it was the last one.
func (h *Hub) settle(pod *corev1.Pod, attempt *engine.Attempt, returned workload.Key, status *fwk.Status) {
	if returned != (workload.Key{}) {
		h.tryReturned(returned)
	}
	if !h.awaitsPlace(pod) {
		h.records.Leaves(string(pod.UID))
	}
	if attempt.Shown {
		h.takeBackShown(attempt.As, pod)
	}
	if attempt.Recalled && h.waits.IsUnderway(attempt.As) {
		// Its next turn has begun meanwhile, and the framework has it back off all the same.
		h.activate(pod)
	}
	// One whose cycle met an error has not been turned away: it is tried again soon, and keeps what it was promised.
	if attempt.Reserved && status.IsRejected() {
		h.unanswered(attempt.As, pod)
	}
	if attempt.Turn && status.IsRejected() {
		h.unheard(attempt.As, pod)
	}
}

// heardOf records that an extension point has been told what comes of the cycle of a pod.
func (h *Hub) heardOf(pod *corev1.Pod) {
	h.reveal(h.records.Reveals(string(pod.UID)))
	if key, turn := h.records.Hears(string(pod.UID)); turn && key.Gang {
		h.registry.Planning(nameOf(key))
	}
}

// unheard is unanswered for what has had its turn, whether it is promised anything or not. What a member has decided for its gang has not
// been carried out, and another member decides anew, that is not turned away; what it has planned goes without it.
func (h *Hub) unheard(key workload.Key, pod *corev1.Pod) {
	if !key.Gang {
		h.waits.CameToNothing(key)
		return
	}
	if _, planned := h.registry.PlannedNode(nameOf(key), pod.UID); planned {
		h.unanswered(key, pod)
		return
	}
	if h.registry.Leader(nameOf(key)) == pod.UID && h.passOn(nameOf(key), pod.UID) {
		// In the same turn, for which others need not wait.
		h.waits.Decided(key)
	} else {
		h.waits.CameToNothing(key)
	}
}

// show has the framework say at the end of a cycle where the pod in it is expected, and nowhere if that is "".
func (p *Plugin) show(key workload.Key, pod *corev1.Pod, node string) *fwk.PostFilterResult {
	if node != "" {
		p.hub.records.Shows(string(pod.UID), key)
		if p.hub.inflates(pod) {
			// The framework would take it for more than it is. Its reservation keeps the room, the evictor tells the API.
			return nil
		}
	}
	return framework.NewPostFilterResultWithNominatedNode(node)
}

// takeBackShown takes back what is shown of a promise that had ended before the framework showed it, and has its pod try again: one
// that was in its cycle did not hear of it.
func (h *Hub) takeBackShown(key workload.Key, pod *corev1.Pod) {
	if h.records.IsAssumed(string(pod.UID)) || h.reserved.Has(pod.UID) || !h.awaitsPlace(pod) {
		return
	}
	(&bookkeeper{h}).Withdraw([]*corev1.Pod{pod})
	if len(h.reserved.Of(key)) > 0 || h.waits.Evicting(key) {
		return
	}
	h.waits.ResolveVictims(key)
	h.wake(key)
}

// unanswered takes back what is promised to a pod that was turned away without a word: another plugin's PreFilter called it
// unresolvable (a volume claim that it names has gone, say), and the PostFilter of a third failed for it, before Reprieve's. The room
// goes to others, and that plugin has the pod tried again when things change.
func (h *Hub) unanswered(key workload.Key, pod *corev1.Pod) {
	if !h.reserved.Has(pod.UID) || h.waits.Evicting(key) || h.records.IsAssumed(string(pod.UID)) || !h.awaitsPlace(pod) {
		return
	}
	const why = "another plugin turns it away, whatever room there is"
	happened(logOf(context.Background(), key), "Took a promise back", why)
	if g := h.gangOf(pod); g != nil {
		if _, planned := h.registry.PlannedNode(g.Key, pod.UID); planned {
			// It is in no cycle, so it comes back like all others.
			if h.planFailed(g, nil, "member "+pod.Name+" is refused: "+why); !h.registry.Stuck(g.Key) {
				h.activate(pod)
			}
			return
		}
	}
	h.takeBack(key, why)
}
