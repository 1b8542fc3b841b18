package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Preview is what the next scheduling cycle of a workload would come to.
type Preview struct {
	// Held is why the workload cannot be placed whatever room there is: members are missing, its queue cannot be used, or
	// has reached its limit and has nothing to give. It is the zero Verdict where a Decision says what becomes of it.
	Held gang.Verdict
	// Limited is true where the queue has reached its limit, and the Decision makes room below it.
	Limited bool
	// Decision is what would be carried out; nil where the workload is held, unless it is one for want of room below a limit.
	Decision *core.Decision
	// Victims are the pods that the decision takes.
	Victims []*corev1.Pod
	// Pods are those that the decision is for.
	Pods []*corev1.Pod
}

// Preview decides for the workload of a pending pod as its cycle would, and carries nothing out: no room is reserved, nothing is
// written. It goes by the framework's snapshot, which has to be level with the cache, and like a cycle it may run only where no
// other cycle does.
func (p *Plugin) Preview(ctx context.Context, pod *corev1.Pod) (Preview, error) {
	if len(pod.Spec.SchedulingGates) > 0 {
		return heldBack(fmt.Sprintf("scheduling gate %q has not been lifted", pod.Spec.SchedulingGates[0].Name)), nil
	}
	if v := p.hub.derived.Hold(pod); v != (gang.Verdict{}) {
		return Preview{Held: v}, nil
	}
	key, ok := p.hub.groupOf(pod)
	if !ok {
		return p.previewPod(ctx, pod)
	}
	if v := gang.Contradiction(pod); v != (gang.Verdict{}) {
		return Preview{Held: v}, nil
	}
	g, members, verdict := p.hub.gate(key)
	if verdict != (gang.Verdict{}) {
		return Preview{Held: verdict, Pods: members.Pending}, nil
	}
	if !g.IsGang() {
		return p.previewPod(ctx, pod)
	}
	pre := p.gangPreemptor(g, &members)
	if v := tooFew(&pre); v != (gang.Verdict{}) {
		return Preview{Held: v, Pods: pre.pods}, nil
	}
	made, v, err := p.decideGang(ctx, &pre)
	return p.preview(&pre, made, v, err)
}

func heldBack(why string) Preview {
	return Preview{Held: gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: why}}
}

func (p *Plugin) previewPod(ctx context.Context, pod *corev1.Pod) (Preview, error) {
	for _, pl := range p.handle.PreEnqueuePlugins() {
		if pl.Name() == GateName {
			continue
		}
		if status := pl.PreEnqueue(ctx, pod); !status.IsSuccess() {
			return heldBack(status.Message()), nil
		}
	}
	pre := p.podPreemptor(pod)
	if v := p.hub.keptByQueue(pod); v != (gang.Verdict{}) {
		made, v, err := p.atLimit(ctx, pre, v)
		return p.preview(&pre, made, v, err)
	}
	made, err := p.decide(ctx, pre)
	return p.preview(&pre, made, gang.Verdict{}, err)
}

func (p *Plugin) preview(pre *preemptor, made *cycleDecision, v gang.Verdict, err error) (Preview, error) {
	if err != nil {
		return Preview{}, err
	}
	out := Preview{Pods: pre.pods}
	if made == nil {
		out.Held = v
		return out, nil
	}
	out.Decision, out.Victims, out.Limited = &made.decision, made.victims, made.pre.atLimit
	if made.decision.Outcome == core.Fits && pre.key.Gang {
		plan := p.hub.leaveToOthers(pre, seats(&made.decision))
		out.Decision.Placements = out.Decision.Placements[:len(plan)]
	}
	return out, nil
}

// Settle returns when the hub knows all that there was when its informers started, finished pods too, has taken over what was
// promised before, and counts on no pod to go that is overdue. It is for a hub that no scheduler runs with: one that is run
// does the same on its way, see [Hub.Lead]. It returns an error when ctx ends first.
func (h *Hub) Settle(ctx context.Context) error {
	const soon = 2 * time.Millisecond
	err := wait.PollUntilContextCancel(ctx, soon, true, func(context.Context) (bool, error) {
		return h.HasSynced(), nil
	})
	if err != nil {
		return fmt.Errorf("wait for the informers: %w", err)
	}
	all, err := h.pods.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	timeout := h.profiles.terminationTimeout()
	for _, pod := range all {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp != nil && !h.clock.Now().Before(pod.DeletionTimestamp.Add(timeout)) {
			h.overdue(podKey(pod))
		}
		if g := h.gangOf(pod); g != nil {
			h.tellGroupState(g.Key)
		}
	}
	h.inherit()
	klog.FromContext(ctx).V(4).Info("Knows the cluster", "pods", len(all))
	return nil
}
