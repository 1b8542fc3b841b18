package scheduler

import (
	"context"
	"fmt"
	"time"

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

// PostFilter handles a pod that did not pass the filters on any node. For a single pod, it makes
// and applies a decision. For a gang, it applies the decision that PreFilter made.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	p.sched.cycles.outcomeKnown(pod)
	why := rejectionIn(state)
	if why == groupHasChanged {
		// The nomination belongs to the former workload, and ends with it.
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: not tried, "+why)
	}
	if why != "" {
		return p.nominated(pod), fwk.NewStatus(fwk.Unschedulable, "preemption: not tried, "+why)
	}
	if g := p.sched.index.GangOf(pod); g != nil {
		return p.postFilterGang(ctx, state, pod, g, statuses)
	}
	if _, ok := p.sched.index.GroupOf(pod); ok && p.sched.index.Group(pod) == nil {
		return p.nominated(pod), fwk.NewStatus(fwk.Unschedulable, "preemption: the PodGroup does not exist")
	}
	made, decided := decisionOf(state)
	atLimit := decided && made.pre.atLimit
	if v := p.sched.gates.blockedByQueue(pod); v != (gang.Verdict{}) && !atLimit {
		p.sched.turns.TurnFailed(p.sched.index.KeyOf(pod))
		// Release the reservations of the pod, so that other workloads can use the room.
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
		if p.sched.nominations.dropInflated() || p.dropInTheWay(made, pod) || p.widenSearch(ctx, state, made, pod) {
			// The decision finds free room, but the filters of the cycle did not, for one of two
			// reasons. Either the framework counted a nomination that is outdated or ranks lower
			// than the pod. Or the cycle confined the pod to one node, and the pod fits on another.
			p.sched.retries.activate(pod)
		}
		if p.mayFitSoon(state) {
			p.sched.waits.Gather(made.pre.key, p.sched.clock.Now().Add(keptDelay))
		}
		// The core finds room, so an extender that the core does not call must have rejected the
		// pod. Preemption does not help.
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

// widenSearch handles a single pod that was rejected on the node of its reservation. It lets the
// pod's next cycle look at all nodes, and reports whether the pod was confined. The pod keeps the
// reservation, because the plugin that rejected it may not know yet that the victims are gone. If
// the next cycle finds no node either, the reservation is released.
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

// dropInTheWay deletes the nominations to the decision's node that must not block a single pod. It
// reports whether it deleted any.
func (p *Plugin) dropInTheWay(made *cycleDecision, pod *corev1.Pod) bool {
	node := snapshot.Placements(&made.decision)[pod.UID]
	return node != "" && p.sched.nominations.dropInTheWay(pod, node)
}

// decisionOf returns the decision in the state of a cycle; false if PreFilter made none.
func decisionOf(state fwk.CycleState) (*cycleDecision, bool) {
	data, err := state.Read(decisionKey)
	if err != nil {
		return nil, false
	}
	made, ok := data.(*cycleDecision)
	return made, ok
}

// postFilterGang applies the decision that PreFilter made for a gang.
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
			// The event of the new member came before the verdict of this decision. The member may
			// be smaller and may fit, so retry the gang.
			p.sched.retries.soon(g.Key)
		}
	}
	p.sched.memberships.leftDuring(g.Key, made.pre.pods)
	return result, status
}

// releaseDevices releases devices that tie members to nodes without room. The calls run in a
// goroutine, and the gang is gated until they end. If the gang were planned during the calls,
// members could be bound with devices that are being released.
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

// devicesReleased ends the gating of a gang after the release of its devices:
//
//   - If devices were released, it retries the gang at once.
//   - If the release failed, it retries the gang later.
//   - If there were no devices, it retries the gang only if the gate stopped a retry. The retry
//     comes after a delay, because each attempt of the gang releases devices again.
func (p *Plugin) devicesReleased(ctx context.Context, pre *preemptor, running *engine.Eviction, released int, err error) {
	logger := p.logOfPreemptor(ctx, pre.key)
	if err != nil {
		logger.Error(err, "Left devices with members that find no room where they are")
		if delay := p.sched.pauses.BackOff(pre.key, eviction.Outcome{Err: err}, p.args.Retry); delay > 0 {
			p.sched.waits.WaitUntil(pre.key, engine.Backoff, p.sched.clock.Now().Add(delay))
			p.sched.waits.EndEviction(running)
			return
		}
	}
	stopped := p.sched.waits.EndEviction(running)
	switch {
	case err == nil && released > 0:
		logger.V(2).Info("Gave devices back of members that find no room where they are", "claims", released)
		p.sched.releases.review(pre.key)
	case stopped || err != nil:
		p.sched.waits.WaitUntil(pre.key, engine.RetryDue, p.sched.clock.Now().Add(p.args.Retry.InitialBackoff.Duration))
	}
}

// notConfirmed handles a gang member that was rejected in its scheduling cycle:
//
//   - If a nomination on the planned node was in the way, it deletes the nomination and retries the
//     member with the same plan.
//   - If the member no longer fits on its planned node, it releases the plan. If the node has a
//     dip, the release waits until the dip ends.
//   - If other members of the plan come first, the member waits.
//   - If the leader was rejected before it planned, it makes another member the leader.
func (p *Plugin) notConfirmed(state fwk.CycleState, pod *corev1.Pod, g *gang.Group, statuses fwk.NodeToStatusReader) *fwk.Status {
	node, planned := p.sched.gangs.PlannedNode(gangKey(g.Key), string(pod.UID))
	switch {
	case planned && confinedTo(state) != "" && p.sched.nominations.dropInTheWay(pod, node):
		// Since the cycle began, the framework has copied a nomination from the API. It was in the
		// way.
		p.sched.retries.activate(pod)
		return fwk.NewStatus(fwk.Unschedulable, "the framework kept the node for a pod that uses another node or ranks lower; the scheduler retries this pod")
	case planned && (confinedTo(state) != "" || p.sched.gangs.Next(gangKey(g.Key)) == string(pod.UID)):
		if at, waits := p.sched.dips.SettlesAt(node); waits {
			p.sched.waits.WaitUntil(gangKey(g.Key), engine.RetryDue, at)
			return fwk.NewStatus(fwk.Unschedulable, waitsForDip(node))
		}
		return p.sched.releases.planFailed(g, pod, "member "+pod.Name+" no longer fits on "+node+": "+statuses.Get(node).Message())
	case planned:
		return fwk.NewStatus(fwk.Unschedulable)
	}
	// The next leader plans in the same turn. Other workloads need not wait for that.
	p.sched.turns.Decided(gangKey(g.Key))
	if p.sched.gangs.Leader(gangKey(g.Key)) == string(pod.UID) {
		p.sched.retries.nextLeader(g.Key, pod.UID)
	}
	return fwk.NewStatus(fwk.Unschedulable, "preemption: not tried, "+notPlanned)
}

// waitsForDip returns the message for a workload that waits for the end of a node's dip.
func waitsForDip(node string) string {
	return fmt.Sprintf("waits for node %s, which offers less, is not ready or has just recovered", node)
}

// waitForDip keeps the reservations of a preemptor until a dip ends, and does not apply the
// decision, which was made during the dip.
func (p *Plugin) waitForDip(made *cycleDecision, pod *corev1.Pod, node string, ends time.Time) (*fwk.PostFilterResult, *fwk.Status) {
	key, said := made.pre.key, waitsForDip(node)
	if key.Gang {
		p.sched.gangs.Unplanned(key)
		v := gang.Verdict{Reason: v1alpha1.ReasonPreempting, Message: said}
		p.sched.gangs.SetVerdict(key, v)
		p.sched.reporter.NoRoom(key, v)
	}
	p.sched.turns.Decided(key)
	p.sched.waits.WaitUntil(key, engine.RetryDue, ends)
	return p.show(key, pod, p.sched.reserved.NodeOf(string(pod.UID))), fwk.NewStatus(fwk.Success, "preemption: "+said)
}
