package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/logging"
)

// Reserve records that a pod has passed its cycle on a node. It releases reservations of lower
// standing that no longer fit beside the pod.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	p.sched.cycles.outcomeKnown(pod)
	p.sched.steps.step(engine.PodAssumes{Pod: string(pod.UID), Key: podKey(pod), Node: node})
	p.sched.seals.seal(pod)
	p.sched.leaving.Placed(pod.UID)
	if len(p.sched.reserved.On(node)) > 0 {
		p.sched.rooms.releaseCrowded(sets.New(node), p.sched.index.KeyOf(pod))
	}
	g := p.sched.index.GangOf(pod)
	if g == nil {
		p.sched.releases.overLimit(p.sched.ledger.StandingOf(pod))
		p.sched.steps.step(engine.WorkloadPlaced{Key: p.sched.index.KeyOf(pod)})
		return nil
	}
	if complete := p.sched.gangs.Reserve(gangKey(g.Key), string(pod.UID), node); complete {
		// The turn ends. Members outside the plan wait for another turn and another leader.
		p.sched.turns.TurnEnds(gangKey(g.Key))
		p.sched.retries.gang(g.Key)
	} else {
		p.sched.releases.orNext(g.Key)
	}
	return nil
}

// Unreserve releases the node of a pod that was not bound. For a gang, it releases all reservations
// and the plan, because a gang is placed together or not at all.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) {
	if key, tried := p.sched.records.HasTurn(string(pod.UID)); tried && !key.Gang {
		// Reserve of an earlier plugin rejected the pod, so this plugin's Reserve was not called.
		// The pod's turn must end here.
		p.sched.records.HearsReservation(string(pod.UID))
	} else {
		p.sched.cycles.outcomeKnown(pod)
	}
	p.sched.records.GivesUp(string(pod.UID), p.sched.index.KeyOf(pod), node)
	p.sched.drivers.Touch(pod)
	if g := p.sched.index.GangOf(pod); g != nil {
		p.sched.releases.plan(g.Key, pod, fmt.Sprintf("member %s could not take its place on %s", pod.Name, node))
		return
	}
	// The PodGroup may have been deleted since Reserve.
	if key, ok := p.sched.index.GroupOf(pod); ok {
		p.sched.releases.plan(key, pod, "its PodGroup is gone")
	}
}

// Permit makes members wait until minCount of them have passed their cycles.
func (p *Plugin) Permit(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	key, ok := p.sched.index.GroupOf(pod)
	if !ok {
		return nil, 0
	}
	g, ok := p.sched.index.Groups.Group(key)
	switch {
	case !ok:
		return fwk.NewStatus(fwk.Unschedulable, gang.Title(key)+" does not exist any more"), 0
	case !g.IsGang():
		return nil, 0
	}
	if p.sched.gangs.Lacks(gangKey(key)) {
		return fwk.NewStatus(fwk.Wait, fmt.Sprintf("%d more members of %s are to come", p.sched.gangs.Planned(gangKey(key)), gang.Title(key))), p.args.Gang.PermitTimeout.Duration
	}
	members := p.sched.placements.Members(key)
	if p.sched.placements.IsInPart(g, &members, nil) {
		if !p.sched.placements.MayBecomeWhole(g, &members) {
			// The plan was released during the member's cycle. No other members will come, so it
			// must not wait.
			return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("the plan of %s was released", gang.Title(key))), 0
		}
		return fwk.NewStatus(fwk.Wait, fmt.Sprintf("%d of %d members of %s are through", p.sched.placements.Through(&members), g.MinCount, gang.Title(key))), p.args.Gang.PermitTimeout.Duration
	}
	if why := p.sched.ledger.SplitOver(key); why != "" {
		return fwk.NewStatus(fwk.Unschedulable, why), 0
	}
	logging.Of(ctx, gangKey(key)).V(2).Info("Enough members of a gang are through", "members", g.MinCount)
	p.sched.retries.allow(key)
	return nil, 0
}
