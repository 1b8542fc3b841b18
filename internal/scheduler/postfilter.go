package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/filters"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// PostFilter preempts for a pod or gang that did not fit. It decides for a single pod, and carries
// out the decision that PreFilter made for a gang.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	p.sched.outcomeKnown(pod)
	if why := rejectionIn(state); why != "" {
		return p.nominated(pod), fwk.NewStatus(fwk.Unschedulable, "preemption: not tried, "+why)
	}
	if g := p.sched.gangOf(pod); g != nil {
		return p.postFilterGang(ctx, state, pod, g, statuses)
	}
	if _, ok := p.sched.groupOf(pod); ok && p.sched.group(pod) == nil {
		return p.nominated(pod), fwk.NewStatus(fwk.Unschedulable, "preemption: the PodGroup does not exist")
	}
	made, decided := decisionOf(state)
	atLimit := decided && made.pre.atLimit
	if v := p.sched.blockedByQueue(pod); v != (gang.Verdict{}) && !atLimit {
		p.sched.turns.TurnFailed(p.sched.keyOf(pod))
		// The room of the pod's earlier reservations becomes available to others.
		pre := p.podPreemptor(pod)
		p.reserve(ctx, &pre, nil)
		p.sched.waits.ResolveVictims(pre.key)
		return framework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.Unschedulable, "preemption: not tried, "+queueInTheWay)
	}
	if !decided {
		var err error
		pre := p.podPreemptor(pod)
		if made, err = p.decide(ctx, pre); err != nil {
			p.count(&pre, metrics.Broken)
			p.sched.turns.TurnFailed(pre.key)
			return p.nominated(pod), fwk.AsStatus(err)
		}
	}
	if made.decision.Outcome == core.Fits && !atLimit {
		p.measure(made)
		p.sched.turns.TurnFailed(made.pre.key)
		if p.sched.dropInflated() || p.dropInTheWay(made, pod) || p.widenSearch(ctx, state, made, pod) {
			// The decision finds free room, although the cycle did not. The framework may have
			// counted a nomination that is outdated, inflates its priority or has a lower standing.
			// Or the pod was confined to one node and fits on another.
			p.sched.activate(pod)
		}
		if wasKeptOut(state) {
			// No event reports when the reserved room becomes free, so retry later.
			p.sched.waits.Gather(made.pre.key, p.sched.clock.Now().Add(keptDelay))
		}
		// Only extenders can still have rejected the pod, because the core does not know them.
		// Preemption does not help then.
		return p.nominated(pod), fwk.NewStatus(fwk.Unschedulable, "preemption: not needed")
	}
	if !atLimit {
		p.noteUnschedulable(pod)
	}
	if !decided && made.decision.Outcome == core.Infeasible {
		p.reportReserved(made, statuses)
	}
	return p.carryOut(ctx, pod, made)
}

// widenSearch makes the next cycle of a single pod look at all nodes, if the pod was confined to a
// node and failed there. It reports whether the pod was confined. The pod keeps its reservation
// meanwhile, because the plugin that rejected it may not know yet that the victims are gone. If the
// next cycle finds no node either, the reservation is released.
func (p *Plugin) widenSearch(ctx context.Context, state fwk.CycleState, made *cycleDecision, pod *corev1.Pod) bool {
	if confinedTo(state) != "" {
		p.sched.records.LooksElsewhere(string(pod.UID))
		return true
	}
	if p.sched.records.HasLookedElsewhere(string(pod.UID)) {
		p.reserve(ctx, &made.pre, nil)
	}
	return false
}

// dropInTheWay deletes nominations to the decision's node that must not block a single pod.
func (p *Plugin) dropInTheWay(made *cycleDecision, pod *corev1.Pod) bool {
	node := snapshot.Placements(&made.decision)[pod.UID]
	return node != "" && p.sched.dropInTheWay(pod, node)
}

// decisionOf returns the decision that PreFilter made in this cycle.
func decisionOf(state fwk.CycleState) (*cycleDecision, bool) {
	data, err := state.Read(decisionKey)
	if err != nil {
		return nil, false
	}
	made, ok := data.(*cycleDecision)
	return made, ok
}

// postFilterGang carries out the decision for a gang.
func (p *Plugin) postFilterGang(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, g *gang.Group, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	made, ok := decisionOf(state)
	if !ok {
		status := p.notConfirmed(state, pod, g, statuses)
		return p.nominated(pod), status
	}
	switch {
	case made.decision.Outcome != core.Infeasible:
		p.sched.gangs.SetVerdict(gangKey(g.Key), gang.Verdict{Reason: v1alpha1.ReasonPreempting, Message: joined(made.decision.Message, made.waitsFor())})
	case made.pre.minCount > 0:
		p.sched.gangs.SetVerdict(gangKey(g.Key), gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: made.decision.Message})
	}
	result, status := p.carryOut(ctx, pod, made)
	if made.decision.Outcome == core.Infeasible {
		p.releaseDevices(ctx, made.pre)
		if p.sched.gangs.HasNewMember(gangKey(g.Key)) {
			// Its event came before the verdict. It may be smaller than the others, and fit.
			p.sched.retrySoon(g.Key)
		}
	}
	p.sched.membersLeft(g.Key, made.pre.pods)
	return result, status
}

// releaseDevices deallocates devices that tie members to nodes without room, outside of the cycle.
// The gang is gated meanwhile, as it is during an eviction. If it were planned in between, members
// might be bound with devices that are being released.
func (p *Plugin) releaseDevices(ctx context.Context, pre preemptor) {
	held, err := filters.FindHeldDevices(ctx, p.handle, pre.pods)
	if err != nil {
		p.logOfPreemptor(ctx, pre.key).Error(err, "Left devices with members that find no room where they are")
		return
	}
	if held.Empty() {
		return
	}
	running := p.sched.waits.StartEviction(pre.key)
	p.sched.executions.running.Go(func() {
		released, err := held.Release(context.WithoutCancel(ctx))
		if over := ctx.Done(); over != nil {
			<-over
		}
		p.devicesReleased(ctx, &pre, running, released, err)
	})
}

// devicesReleased ends the gating of a gang after its devices were released. It retries the gang at
// once if devices were released, and later if the release failed. Otherwise it retries the gang
// only if a retry was stopped meanwhile. That retry comes after a delay, because each try releases
// devices again.
func (p *Plugin) devicesReleased(ctx context.Context, pre *preemptor, running *engine.Eviction, released int, err error) {
	logger := p.logOfPreemptor(ctx, pre.key)
	if err != nil {
		logger.Error(err, "Left devices with members that find no room where they are")
		if delay := p.sched.backOff(pre, eviction.Outcome{Err: err}, p.args.Retry); delay > 0 {
			p.sched.waits.WaitUntil(pre.key, engine.Backoff, p.sched.clock.Now().Add(delay))
			p.sched.waits.EndEviction(running)
			return
		}
	}
	stopped := p.sched.waits.EndEviction(running)
	switch {
	case err == nil && released > 0:
		logger.V(2).Info("Gave devices back of members that find no room where they are", "claims", released)
		p.sched.retry(pre.key)
	case stopped || err != nil:
		p.sched.waits.WaitUntil(pre.key, engine.RetryDue, p.sched.clock.Now().Add(p.args.Retry.InitialBackoff.Duration))
	}
}

// notConfirmed handles a gang member that was rejected in its scheduling cycle:
//
//   - If notConfirmed drops a stale nomination from the planned node, or a nomination of lower
//     standing, the member is retried with the plan.
//   - If the member no longer fits on its planned node, the plan is released. If the node has a
//     dip, that comes at the end of the dip.
//   - If other members of the plan come first, the member waits.
//   - If the leader was rejected before it planned, another member leads.
func (p *Plugin) notConfirmed(state fwk.CycleState, pod *corev1.Pod, g *gang.Group, statuses fwk.NodeToStatusReader) *fwk.Status {
	node, planned := p.sched.gangs.PlannedNode(gangKey(g.Key), string(pod.UID))
	switch {
	case planned && confinedTo(state) != "" && p.sched.dropInTheWay(pod, node):
		// The framework has copied a nomination from the API since the cycle began.
		p.sched.activate(pod)
		return fwk.NewStatus(fwk.Unschedulable, "the framework kept the node for a pod that goes elsewhere, or stands lower; this one is tried again")
	case planned && (confinedTo(state) != "" || p.sched.gangs.Next(gangKey(g.Key)) == string(pod.UID)):
		if ends, dips := p.sched.dips.endOf(node); dips {
			p.sched.waits.WaitUntil(gangKey(g.Key), engine.RetryDue, ends)
			return fwk.NewStatus(fwk.Unschedulable, waitsForDip(node))
		}
		return p.sched.planFailed(g, pod, "member "+pod.Name+" no longer fits on "+node+": "+statuses.Get(node).Message())
	case planned:
		return fwk.NewStatus(fwk.Unschedulable)
	}
	// The next leader plans in the same turn. Other workloads need not wait for it.
	p.sched.turns.Decided(gangKey(g.Key))
	if p.sched.gangs.Leader(gangKey(g.Key)) == string(pod.UID) {
		p.sched.nextLeader(g.Key, pod.UID)
	}
	return fwk.NewStatus(fwk.Unschedulable, "preemption: not tried, "+notPlanned)
}

// planFailed releases a plan after a member was rejected on its planned node. failed is the member
// in its cycle; nil after the cycle. Usually the cluster has changed since the plan was made, so
// planFailed plans the gang again at once. If the same plan fails a second time, the gang is
// planned again only after a change.
func (h *Scheduler) planFailed(g *gang.Group, failed *corev1.Pod, why string) *fwk.Status {
	if again := h.gangs.Failed(gangKey(g.Key)); !again {
		h.metrics.Unconfirmed(metrics.FirstTime)
		h.release(g.Key, failed, why)
		return fwk.NewStatus(fwk.Unschedulable, "the node planned for this member no longer fits; the gang is planned again")
	}
	h.metrics.Unconfirmed(metrics.Repeated)
	h.release(g.Key, nil, why)
	h.gangs.SetVerdict(gangKey(g.Key), gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: "the plan cannot be carried out: " + why})
	return fwk.NewStatus(fwk.Unschedulable, "the plan cannot be carried out: "+why)
}
