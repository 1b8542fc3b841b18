package scheduler

import (
	"context"

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
	for _, c := range h.shown.takeOver() {
		if c.marked {
			h.takeBackShown(&c)
		}
	}
	for _, c := range h.asked.takeOver() {
		if !c.marked {
			h.unanswered(&c)
		}
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
// unresolvable (a claim of it has gone, say), and the PostFilter of a third failed for it, before Reprieve's. The room goes to others.
// That plugin has the pod tried again when things change.
func (h *Hub) unanswered(c *loggedCycle) {
	if !h.reserved.Has(c.pod.UID) || h.waits.Evicting(c.key) || h.assumed.has(c.pod.UID) || !h.awaitsPlace(c.pod) {
		return
	}
	const why = "another plugin turns it away, whatever room there is"
	logOf(context.Background(), c.key).V(2).Info("Took a promise back", "reason", why)
	if g := h.gangOf(c.pod); g != nil {
		if node, planned := h.registry.PlannedNode(g.Key, c.pod.UID); planned {
			h.planFailed(c.pod, g, node, why)
			return
		}
	}
	h.takeBack(c.key, why)
}
