package scheduler

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// PostFilter makes room for a pod or gang that did not fit: it decides for a single pod, and carries out the
// decision that PreFilter made for a gang.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if g := p.hub.gangOf(pod); g != nil {
		return p.postFilterGang(ctx, state, pod, g, statuses)
	}
	if _, ok := groupOf(pod); ok && p.hub.group(pod) == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: the PodGroup does not exist")
	}
	made, err := p.decide(ctx, p.podPreemptor(pod))
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if made.decision.Outcome == core.Fits {
		// Only what the core does not see (extenders) can still be in the way, and taking pods from others is
		// no help against that.
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: not needed")
	}
	return p.carryOut(ctx, pod, made)
}

// postFilterGang carries out the decision for a gang.
func (p *Plugin) postFilterGang(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, g *gang.Group, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	data, err := state.Read(decisionKey)
	if err != nil {
		return nil, p.planFailed(pod, g, statuses)
	}
	made, ok := data.(*cycleDecision)
	if !ok {
		return nil, p.planFailed(pod, g, statuses)
	}
	switch {
	case made.decision.Outcome != core.Infeasible:
		p.hub.registry.SetVerdict(g.Key, gang.Verdict{Reason: v1alpha1.ReasonPreempting, Message: made.decision.Message})
	case made.pre.minCount > 0:
		p.hub.registry.SetVerdict(g.Key, gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: made.decision.Message})
	}
	return p.carryOut(ctx, pod, made)
}

// carryOut does what a decision says that finds no room as things are. The pod is the one in the cycle.
func (p *Plugin) carryOut(ctx context.Context, pod *corev1.Pod, made *cycleDecision) (*fwk.PostFilterResult, *fwk.Status) {
	d, pre := &made.decision, &made.pre
	nodes := placements(d)
	p.nominate(ctx, pre, nodes)
	if d.Outcome == core.Infeasible {
		p.hub.awaited.forget(pre.owner)
		if len(made.view.held) > 0 {
			p.hub.refuse(pod, made.view.freed)
		}
		status := fwk.NewStatus(fwk.Unschedulable)
		if !pre.owner.gang {
			// For a gang, PreFilter has said it.
			status.AppendReason("preemption: " + d.Message)
		}
		// An empty node takes back what the pod may have been nominated to before.
		return framework.NewPostFilterResultWithNominatedNode(""), status
	}
	p.await(pre.owner, made.leaving(nodes))
	if d.Outcome == core.Preempts {
		p.evict(ctx, made)
	}
	// An empty node, again, takes a nomination back. A seat says all there is to say where the priority that
	// counts is not the pod's own.
	node := nodes[pod.UID]
	if !pre.speaksFor(pod) {
		node = ""
	}
	return framework.NewPostFilterResultWithNominatedNode(node), fwk.NewStatus(fwk.Success)
}

// await has a preemptor woken when the last of the pods has gone that its placement counts as gone.
func (p *Plugin) await(o owner, pods []*corev1.Pod) {
	uids := make([]types.UID, len(pods))
	for i, pod := range pods {
		uids[i] = pod.UID
	}
	p.hub.awaited.expect(o, uids)
	// Those that went since the snapshot was taken will not be heard of again.
	for _, pod := range pods {
		if now, err := p.hub.pods.Pods(pod.Namespace).Get(pod.Name); err != nil || now.UID != pod.UID {
			p.hub.departed(pod.UID)
		}
	}
}

// planFailed takes the plan of a gang back after one of its members could not confirm its node, or has
// another one lead after the leader was turned away before it could plan.
func (p *Plugin) planFailed(pod *corev1.Pod, g *gang.Group, statuses fwk.NodeToStatusReader) *fwk.Status {
	if node, ok := p.hub.registry.PlannedNode(g.Key, pod.UID); ok {
		why := statuses.Get(node).Message()
		p.hub.release(g.Key, pod, "member "+pod.Name+" no longer fits on "+node+": "+why)
		return fwk.NewStatus(fwk.Unschedulable, "the node planned for this member no longer fits; the gang is planned anew")
	}
	if p.hub.registry.Leader(g.Key) == pod.UID {
		p.hub.passOn(g.Key, pod.UID)
	}
	return fwk.NewStatus(fwk.Unschedulable, "preemption: not tried, the gang has not been planned")
}

// evict hands a decision to the evictor.
func (p *Plugin) evict(ctx context.Context, made *cycleDecision) {
	pre := made.pre
	order := EvictionOrder{
		Decision: made.decision,
		Victims:  made.victimPods(),
		TurnBack: p.turnBack,
	}
	p.hub.startEviction(pre.owner, pre.uid)
	klog.FromContext(ctx).Info("Preempting", "preemptor", pre.owner, "victims", len(order.Victims), "decision", made.decision.Message)
	// The cycle's context ends with the cycle, long before the last call.
	ctx = context.WithoutCancel(ctx)
	p.hub.evictor.Evict(ctx, order, func(err error) {
		if err != nil {
			p.hub.awaited.forget(pre.owner)
			p.nominate(ctx, &pre, nil)
		}
		over := func() {
			p.hub.endEviction(pre.owner, pre.uid)
			p.hub.wake(pre.owner)
		}
		if delay := p.hub.retryDelay(pre.owner, err); delay > 0 {
			time.AfterFunc(delay, over)
			return
		}
		over()
	})
}

// turnBack sends a victim that waits at Permit or in PreBind back to the queue. It has not started anywhere,
// so nothing has to be deleted, and nobody will hear of its departure.
func (p *Plugin) turnBack(victim *corev1.Pod) bool {
	const why = "preempted before it was bound"
	turned := false
	if w := p.handle.GetWaitingPod(victim.UID); w != nil {
		turned = w.Preempt(Name, why)
	} else if b := p.handle.GetPodInPreBind(victim.UID); b != nil {
		turned = b.CancelPod(why)
	}
	if turned {
		p.hub.departed(victim.UID)
	}
	return turned
}

// victimPods are the pods that a decision takes, as the framework knows them.
func (made *cycleDecision) victimPods() map[types.UID]*corev1.Pod {
	byNode := make(map[string]sets.Set[types.UID])
	for i := range made.decision.Victims {
		for _, pod := range made.decision.Victims[i].Pods {
			if byNode[pod.Node] == nil {
				byNode[pod.Node] = sets.New[types.UID]()
			}
			byNode[pod.Node].Insert(types.UID(pod.UID))
		}
	}
	pods := make(map[types.UID]*corev1.Pod)
	for node, wanted := range byNode {
		for _, pod := range made.view.podsByUID(node, wanted) {
			pods[pod.UID] = pod
		}
	}
	return pods
}

// leaving are the pods that have to go before a placement is free: its victims, and those on its nodes that
// are on their way out.
func (made *cycleDecision) leaving(nodes map[types.UID]string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range made.victimPods() {
		pods = append(pods, pod)
	}
	return append(pods, made.view.leavingOn(sets.New(slices.Collect(maps.Values(nodes))...))...)
}
