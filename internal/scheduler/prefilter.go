package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// PreFilter confines a member of a gang to the node that the plan has for it. Where there is no plan yet, the
// member makes one for all.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if _, err := state.Read(planningKey); err == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	p.hub.hush()
	key, ok := p.hub.groupOf(pod)
	if !ok {
		return p.preFilterSingle(ctx, state, pod)
	}
	if v := gang.Contradiction(pod); v != (gang.Verdict{}) {
		return nil, fwk.NewStatus(fwk.Unschedulable, v.Message)
	}
	g, members, verdict := p.hub.gate(key)
	if verdict != (gang.Verdict{}) {
		// It passed PreEnqueue, and things have changed since.
		p.hub.registry.SetVerdict(key, verdict)
		return nil, fwk.NewStatus(fwk.Unschedulable, verdict.Message)
	}
	if !g.IsGang() {
		return p.preFilterSingle(ctx, state, pod)
	}
	switch a := p.hub.registry.Admit(key, pod.UID, p.hub.canLead(&members)); a {
	case gang.AdmitPlanned:
		node, _ := p.hub.registry.PlannedNode(key, pod.UID)
		return p.confine(state, pod, node)
	case gang.AdmitLeader:
		return p.planGang(ctx, state, pod, g, &members)
	default:
		return nil, fwk.NewStatus(fwk.Unschedulable, string(a))
	}
}

// preFilterSingle lets Filter look only where seats are kept at all, and where there may be room.
func (p *Plugin) preFilterSingle(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
	if v := p.hub.keptByQueue(pod); v != (gang.Verdict{}) {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, v.Message)
	}
	if status := p.foresee(ctx, state, pod); !status.IsSuccess() {
		return nil, status
	}
	if p.hub.seats.empty() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, p.seek(state, pod, "")
}

// confine holds a member to the node that the plan has for it.
func (p *Plugin) confine(state fwk.CycleState, pod *corev1.Pod, node string) (*fwk.PreFilterResult, *fwk.Status) {
	if status := p.seek(state, pod, node); !status.IsSuccess() {
		return nil, status
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(node)}, nil
}

// PreFilterExtensions returns nil: the plan does not depend on other pods once it is made.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// planGang plans all pending members in one pass. If they fit, every member gets a seat and the others are
// let through; if not, PostFilter carries out what was decided.
func (p *Plugin) planGang(ctx context.Context, state fwk.CycleState, leader *corev1.Pod, g *gang.Group, members *gang.Members) (*fwk.PreFilterResult, *fwk.Status) {
	p.hub.registry.Planning(g.Key)
	pre := p.gangPreemptor(g, members)
	if have := len(pre.pods); have < pre.minCount {
		// Whoever of the others is let through next plans for all.
		p.hub.registry.Yield(g.Key, leader.UID)
		msg := fmt.Sprintf("%d more members are needed and %d can be scheduled; other plugins hold back the rest", pre.minCount, have)
		p.hub.registry.SetVerdict(g.Key, gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: msg})
		return nil, fwk.NewStatus(fwk.Unschedulable, msg)
	}
	if v := p.hub.ask(pre.owner, func() gang.Verdict { return p.hub.withinLimits(&pre) }); v != (gang.Verdict{}) {
		p.turnDown(ctx, state, &pre, v)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, v.Message)
	}
	made, err := p.decide(ctx, pre)
	if err != nil {
		p.count(&pre, metrics.Broken)
		p.hub.turns.failed(pre.owner)
		if pre.minCount > 0 {
			p.hub.registry.SetVerdict(g.Key, gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: "it could not be decided where the members go: " + err.Error()})
		}
		return nil, fwk.AsStatus(err)
	}
	d := &made.decision
	if d.Outcome != core.Fits {
		state.Write(decisionKey, made)
		return nil, fwk.NewStatus(fwk.Unschedulable, d.Message)
	}
	nodes := placements(d)
	p.hub.leaveToOthers(&pre, nodes)
	p.nominate(ctx, &pre, nodes)
	p.hub.awaited.forget(pre.owner)
	p.hub.turns.decided(pre.owner)
	p.hub.registry.SetPlan(g.Key, nodes)
	if pre.minCount > 0 {
		p.hub.registry.SetVerdict(g.Key, gang.Verdict{Reason: v1alpha1.ReasonPending, Message: d.Message})
	}
	p.hub.forgetLeft(g.Key, pre.pods)
	if _, planned := p.hub.registry.PlannedNode(g.Key, leader.UID); nodes[leader.UID] != "" && !planned {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members have left while the gang was planned; it is planned anew")
	}
	p.letThrough(pre.pods, nodes, leader.UID)
	node, ok := nodes[leader.UID]
	if !ok {
		// The leader is surplus for which there is no room; the others go without it.
		return nil, fwk.NewStatus(fwk.Unschedulable, "no room is left for this member of the surplus")
	}
	return p.confine(state, leader, node)
}

// turnDown has a gang wait that its queue leaves no room for. What it was promised before goes to others.
func (p *Plugin) turnDown(ctx context.Context, state fwk.CycleState, pre *preemptor, v gang.Verdict) {
	p.hub.turns.failed(pre.owner)
	if pre.minCount > 0 {
		p.hub.registry.SetVerdict(pre.owner.NamespacedName, v)
	}
	p.nominate(ctx, pre, nil)
	p.hub.awaited.forget(pre.owner)
	p.hub.evictor.Nominate(ctx, p.nominations(pre, nil, nil))
	state.Write(turnedDownKey, turnedDown{})
}

// letThrough activates the members that the plan has a node for, the one that is in the cycle left out.
func (p *Plugin) letThrough(pods []*corev1.Pod, nodes map[types.UID]string, inCycle types.UID) {
	var others []*corev1.Pod
	for _, pod := range pods {
		if _, ok := nodes[pod.UID]; ok && pod.UID != inCycle {
			others = append(others, pod)
		}
	}
	p.hub.activate(others...)
}
