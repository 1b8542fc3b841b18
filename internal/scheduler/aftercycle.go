package scheduler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// show has the framework say at the end of a cycle where the pod in it is expected, and nowhere if that is "".
func (p *Plugin) show(ctx context.Context, key workload.Key, pod *corev1.Pod, node string) *fwk.PostFilterResult {
	if node != "" {
		p.hub.shown.add(ctx, key, pod)
		if !p.hub.reserved.Has(pod.UID) {
			p.hub.shown.mark(pod.UID)
		}
		if p.hub.inflates(pod) {
			// The framework would take it for more than it is. Its reservation keeps the room, the evictor tells the API.
			return nil
		}
	}
	return framework.NewPostFilterResultWithNominatedNode(node)
}

// reviewCycles puts right what the framework has done at the end of cycles without a word to the plugin.
func (h *Hub) reviewCycles() {
	for _, c := range h.shown.review(1) {
		if c.marked {
			h.takeBackShown(&c)
		}
	}
	// What the framework says of a pod is known a little later.
	for _, c := range h.asked.review(2) {
		h.unanswered(&c)
	}
}

// takeBackShown takes back what is shown of a promise that had ended before the framework showed it, and has its pod try again: one
// that was in its cycle did not hear of it.
func (h *Hub) takeBackShown(c *loggedCycle) {
	if h.assumed.has(c.pod.UID) || h.reserved.Has(c.pod.UID) || !h.awaitsPlace(c.pod) {
		return
	}
	(&bookkeeper{h}).Withdraw([]*corev1.Pod{c.pod})
	if len(h.reserved.Of(c.key)) > 0 || h.waits.Evicting(c.key) {
		return
	}
	h.waits.ResolveVictims(c.key)
	h.wake(c.key)
}

// unanswered takes back what is promised to a pod that was turned away without a word: another plugin's PreFilter called it
// unresolvable (a volume claim that it names has gone, say), and the PostFilter of a third failed for it, before Reprieve's. The room
// goes to others, and that plugin has the pod tried again when things change. One whose cycle met an error has not been turned away:
// it is tried again soon, and keeps what it was promised.
func (h *Hub) unanswered(c *loggedCycle) {
	if !h.reserved.Has(c.pod.UID) || h.waits.Evicting(c.key) || h.assumed.has(c.pod.UID) || !h.awaitsPlace(c.pod) {
		return
	}
	if now, ok := h.podOf(podKey(c.pod)); !ok || metErrors(now) {
		return
	}
	const why = "another plugin turns it away, whatever room there is"
	happened(logOf(context.Background(), c.key), "Took a promise back", why)
	if g := h.gangOf(c.pod); g != nil {
		if _, planned := h.registry.PlannedNode(g.Key, c.pod.UID); planned {
			// It is in no cycle, so it comes back like all others.
			if h.planFailed(g, nil, "member "+c.pod.Name+" is refused: "+why); !h.registry.Stuck(g.Key) {
				h.activate(c.pod)
			}
			return
		}
	}
	h.takeBack(c.key, why)
}

// metErrors reports whether the framework says of a pod that it could not be tried.
func metErrors(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulerError
	})
}
