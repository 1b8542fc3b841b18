package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// Preview is what the next scheduling cycle of a workload would come to.
type Preview struct {
	// Held is why the workload cannot be placed whatever room there is: members are missing, its queue cannot be used, or
	// has reached its limit and has nothing to give. It is the zero Verdict where a Decision says what becomes of it.
	Held gang.Verdict
	// RetryAt and Protected are what time does for a workload that is held at the limit of its queue: when protections have ended that
	// keep it from making room there, as a [core.Decision] has it, and which these are.
	RetryAt   int64
	Protected []core.ProtectedUnit
	// Limited is true where the queue has reached its limit, and the Decision makes room below it.
	Limited bool
	// Decision is what would be carried out; nil where the workload is held, unless it is one for want of room below a limit.
	Decision *core.Decision
	// Victims are the pods that the decision takes.
	Victims []*corev1.Pod
	// Leaving are the pods on their way out that the decision counts on to go, by name.
	Leaving []*corev1.Pod
	// Pods are those that the decision is for.
	Pods []*corev1.Pod
}

// Preview decides for the workload of a pending pod as its cycle would, and carries nothing out: no room is reserved, nothing is
// written. It goes by the framework's snapshot, which has to be level with the cache, and like a cycle it may run only where no
// other cycle does.
func (p *Plugin) Preview(ctx context.Context, pod *corev1.Pod) (Preview, error) {
	if gated := p.behindGates(pod); len(gated) > 0 {
		return heldBack(fmt.Sprintf("scheduling gate %q has not been lifted", pod.Spec.SchedulingGates[0].Name), gated...), nil
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
		gang.SortByAge(members.Pending)
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
	return p.preview(ctx, &pre, made, v, err)
}

// behindGates are the pods of a workload of which nothing can be tried before scheduling gates are lifted; none where something can:
// the other members of a gang are planned without those behind one.
func (p *Plugin) behindGates(pod *corev1.Pod) []*corev1.Pod {
	if len(pod.Spec.SchedulingGates) == 0 {
		return nil
	}
	g := p.hub.gangOf(pod)
	if g == nil {
		return []*corev1.Pod{pod}
	}
	members := p.hub.members(g.Key)
	if len(members.Pending) > 0 {
		return nil
	}
	gang.SortByAge(members.Gated)
	return members.Gated
}

func heldBack(why string, pods ...*corev1.Pod) Preview {
	return Preview{Held: gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: why}, Pods: pods}
}

func (p *Plugin) previewPod(ctx context.Context, pod *corev1.Pod) (Preview, error) {
	for _, pl := range p.handle.PreEnqueuePlugins() {
		if pl.Name() == GateName {
			continue
		}
		if status := pl.PreEnqueue(ctx, pod); !status.IsSuccess() {
			return heldBack(status.Message(), pod), nil
		}
	}
	if v := p.hub.BlockedDriver(pod); v != (gang.Verdict{}) {
		return Preview{Held: v, Pods: []*corev1.Pod{pod}}, nil
	}
	pre := p.podPreemptor(pod)
	if v := p.hub.keptByQueue(pod); v != (gang.Verdict{}) {
		made, v, err := p.atLimit(ctx, pre, v)
		return p.preview(ctx, &pre, made, v, err)
	}
	made, err := p.decide(ctx, pre)
	return p.preview(ctx, &pre, made, gang.Verdict{}, err)
}

func (p *Plugin) preview(ctx context.Context, pre *preemptor, made *cycleDecision, v gang.Verdict, err error) (Preview, error) {
	if err != nil {
		return Preview{}, err
	}
	if made == nil {
		return p.held(ctx, *pre, v)
	}
	leaving, err := p.leavingFor(made)
	if err != nil {
		return Preview{}, err
	}
	out := Preview{Decision: &made.decision, Victims: made.victims, Leaving: leaving, Limited: made.pre.atLimit, Pods: pre.pods}
	if made.decision.Outcome == core.Fits && pre.key.Gang {
		plan := p.hub.leaveToOthers(pre, seats(&made.decision))
		out.Decision.Placements = out.Decision.Placements[:len(plan)]
	}
	return out, nil
}

// held is the Preview of a preemptor that its queue keeps out. Of one at a limit, [Plugin.atLimit] keeps to itself when the scheduler
// tries again, so the decision is made once more.
func (p *Plugin) held(ctx context.Context, pre preemptor, v gang.Verdict) (Preview, error) {
	out := Preview{Held: v, Pods: pre.pods}
	if v.Reason != v1alpha1.ReasonQueueLimit || pre.never || pre.minCount == 0 {
		return out, nil
	}
	pre.atLimit, pre.pods = true, pre.pods[:pre.minCount]
	made, err := p.decide(ctx, pre)
	if err != nil {
		return Preview{}, err
	}
	if made.decision.Outcome == core.Infeasible {
		out.RetryAt, out.Protected = made.decision.RetryAt, made.decision.ProtectedUnits
	}
	return out, nil
}

// leavingFor are the pods on their way out that a decision counts on to go: those on its nodes and, at a limit, those that any limit
// above its queue counts, on whichever nodes.
func (p *Plugin) leavingFor(made *cycleDecision) ([]*corev1.Pod, error) {
	outcome, atLimit := made.decision.Outcome, made.pre.atLimit
	if outcome == core.Infeasible || outcome == core.Fits && !atLimit {
		return nil, nil
	}
	all, err := p.hub.pods.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	nodes, board := snapshot.Placements(&made.decision), p.hub.board
	in, limits := sets.New(slices.Collect(maps.Values(nodes))...), sets.New[string]()
	if atLimit {
		limits.Insert(board.LimitsOn(made.pre.queue)...)
	}
	out := slices.DeleteFunc(all, func(pod *corev1.Pod) bool {
		if pod.Spec.NodeName == "" || !p.hub.isLeaving(pod) {
			return true
		}
		return !in.Has(pod.Spec.NodeName) && !limits.HasAny(board.LimitsOn(board.CountsFor(pod.UID))...)
	})
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
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
