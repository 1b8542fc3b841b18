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

// Preview is the expected result of a workload's next scheduling cycle.
type Preview struct {
	// Held is the reason why the workload is blocked, regardless of room. For example, members are
	// missing, or its queue is unusable or at its limit. It is the zero Verdict if the workload is
	// not blocked.
	Held gang.Verdict
	// RetryAt is the time when enough protections end, for a workload that is blocked at the limit
	// of its queue. It is in nanoseconds since 1970; see [core.Decision].
	RetryAt int64
	// Protected lists the protected units, for a workload at the limit of its queue.
	Protected []core.ProtectedUnit
	// Limited is true if the queue is at its limit, so that the Decision evicts work that counts
	// for the limit.
	Limited bool
	// Decision is the decision that a cycle would apply; nil if the workload is blocked.
	Decision *core.Decision
	// Victims are the pods that the decision evicts.
	Victims []*corev1.Pod
	// Leaving are the terminating pods that the Decision counts as gone, sorted by name.
	Leaving []*corev1.Pod
	// Pods are the pods of the workload that the Decision is for.
	Pods []*corev1.Pod
}

// Preview makes the decision for the workload of a pending pod, as its next cycle would. It applies
// nothing: it reserves no room and writes nothing to the API. It reads the framework's snapshot, so
// the caller must update the snapshot from the cache first. It must not run at the same time as a
// scheduling cycle.
func (p *Plugin) Preview(ctx context.Context, pod *corev1.Pod) (Preview, error) {
	if gated := p.behindGates(pod); len(gated) > 0 {
		return heldBack(fmt.Sprintf("scheduling gate %q has not been lifted", pod.Spec.SchedulingGates[0].Name), gated...), nil
	}
	if v := p.sched.index.Derived.Hold(pod); v != (gang.Verdict{}) {
		return Preview{Held: v}, nil
	}
	key, ok := p.sched.index.GroupOf(pod)
	if !ok {
		return p.previewPod(ctx, pod)
	}
	if v := gang.Contradiction(pod); v != (gang.Verdict{}) {
		return Preview{Held: v}, nil
	}
	g, members, verdict := p.sched.gates.of(key)
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

// behindGates returns the pods of a workload that have scheduling gates, if no pod of the workload
// can be scheduled before the gates are removed. A gang is planned without its gated members.
func (p *Plugin) behindGates(pod *corev1.Pod) []*corev1.Pod {
	if len(pod.Spec.SchedulingGates) == 0 {
		return nil
	}
	g := p.sched.index.GangOf(pod)
	if g == nil {
		return []*corev1.Pod{pod}
	}
	members := p.sched.placements.Members(g.Key)
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
	if v := p.sched.drivers.Blocked(pod); v != (gang.Verdict{}) {
		return Preview{Held: v, Pods: []*corev1.Pod{pod}}, nil
	}
	pre := p.podPreemptor(pod)
	if v := p.sched.gates.blockedByQueue(pod); v != (gang.Verdict{}) {
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
		return p.previewAtLimit(ctx, *pre, v)
	}
	leaving, err := p.leavingFor(made)
	if err != nil {
		return Preview{}, err
	}
	out := Preview{Decision: &made.decision, Victims: made.victims, Leaving: leaving, Limited: made.pre.atLimit, Pods: pre.pods}
	if made.decision.Outcome == core.Fits && pre.key.Gang {
		plan := p.sched.queues.cutToFairShare(pre, seats(&made.decision))
		out.Decision.Placements = out.Decision.Placements[:len(plan)]
	}
	return out, nil
}

// previewAtLimit returns the Preview of a preemptor that the limit of its queue blocks. It makes
// the decision again, because the result of [Plugin.atLimit] lacks the time of the next retry.
func (p *Plugin) previewAtLimit(ctx context.Context, pre preemptor, v gang.Verdict) (Preview, error) {
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

// leavingFor returns the terminating pods that a decision counts as gone: the terminating pods on
// its nodes. For a queue at its limit, these are also the terminating pods on any node that count
// for that limit.
func (p *Plugin) leavingFor(made *cycleDecision) ([]*corev1.Pod, error) {
	outcome, atLimit := made.decision.Outcome, made.pre.atLimit
	if outcome == core.Infeasible || outcome == core.Fits && !atLimit {
		return nil, nil
	}
	all, err := p.sched.index.Pods.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	nodes, board := snapshot.Placements(&made.decision), p.sched.quotas
	in, limits := sets.New(slices.Collect(maps.Values(nodes))...), sets.New[string]()
	if atLimit {
		limits.Insert(board.LimitsOn(made.pre.queue)...)
	}
	out := slices.DeleteFunc(all, func(pod *corev1.Pod) bool {
		if pod.Spec.NodeName == "" || !p.sched.placements.IsLeaving(pod) {
			return true
		}
		return !in.Has(pod.Spec.NodeName) && !limits.HasAny(board.LimitsOn(board.CountsFor(pod.UID))...)
	})
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// Settle prepares Preview in a process that runs no scheduler. It waits until all informers have
// synced, marks overdue pods, and turns existing nominations into reservations. A running scheduler
// does this when it becomes the leader. Settle returns an error if ctx ends first.
func (h *Scheduler) Settle(ctx context.Context) error {
	const soon = 2 * time.Millisecond
	err := wait.PollUntilContextCancel(ctx, soon, true, func(context.Context) (bool, error) {
		return h.HasSynced(), nil
	})
	if err != nil {
		return fmt.Errorf("wait for the informers: %w", err)
	}
	all, err := h.index.Pods.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	limits := h.index.Profiles.DepartureLimits()
	for _, pod := range all {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp != nil && !h.clock.Now().Before(limits.OverdueAt(pod)) {
			h.departures.overdue(podKey(pod))
		}
		if g := h.index.GangOf(pod); g != nil {
			h.ledger.UpdateGroupState(g.Key)
		}
	}
	h.nominations.inherit()
	klog.FromContext(ctx).V(4).Info("Knows the cluster", "pods", len(all))
	return nil
}
