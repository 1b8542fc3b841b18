package scheduler

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/filters"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/logging"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/reporter"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// PreFilter prepares the cycle of a pod. A member of a planned gang is confined to its planned
// node. If the gang lacks a plan, the member plans for all members.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if filters.Simulates(state) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	p.sched.nominations.dropInflated()
	if p.sched.index.HasMoved(pod) {
		p.sched.memberships.retryMoved(pod)
		state.Write(rejectionKey, rejection{groupHasChanged})
		return nil, fwk.NewStatus(fwk.Unschedulable, groupHasChanged)
	}
	key := p.sched.index.KeyOf(pod)
	p.sched.records.Begins(string(pod.UID), key)
	p.sched.waits.Resolve(key, engine.Nodes)
	if p.sched.turns.TurnAway(key) {
		// The turn was recalled after the workload had passed PreEnqueue.
		p.sched.records.Recalls(string(pod.UID))
		state.Write(rejectionKey, rejection{queueInTheWay})
		return nil, fwk.NewStatus(fwk.Unschedulable, reporter.HoldForTurn)
	}
	result, status := p.preFilter(ctx, state, pod)
	if p.sched.reserved.Has(string(pod.UID)) {
		p.sched.records.HasReservation(string(pod.UID))
	}
	return result, status
}

func (p *Plugin) preFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
	key, ok := p.sched.index.GroupOf(pod)
	if !ok {
		return p.preFilterSingle(ctx, state, pod)
	}
	if v := gang.Contradiction(pod); v != (gang.Verdict{}) {
		return nil, fwk.NewStatus(fwk.Unschedulable, v.Message)
	}
	if node, planned := p.sched.gangs.PlannedNode(gangKey(key), string(pod.UID)); planned && p.sched.gangs.Next(gangKey(key)) == string(pod.UID) && !p.sched.waits.Evicting(gangKey(key)) {
		// Every event that invalidates the plan also releases it, so the plan is valid. Do not
		// check all members again in each member's cycle: these checks would take longer than all
		// other steps.
		return p.confine(state, pod, node)
	}
	p.sched.gangs.ListsMembers(gangKey(key))
	g, members, verdict := p.sched.gates.of(key)
	if verdict != (gang.Verdict{}) {
		// The gang passed PreEnqueue, but is blocked now.
		p.sched.gates.blockGroup(key, pod, verdict)
		if verdict.Reason == v1alpha1.ReasonDriversWithoutWorkers {
			return nil, p.rejectDriver(state, verdict)
		}
		return nil, fwk.NewStatus(fwk.Unschedulable, verdict.Message)
	}
	if !g.IsGang() {
		return p.preFilterSingle(ctx, state, pod)
	}
	if p.sched.waits.Evicting(gangKey(key)) {
		return nil, fwk.NewStatus(fwk.Unschedulable, holdForEviction)
	}
	switch a := p.sched.gangs.Admit(gangKey(key), string(pod.UID), p.sched.index.CanLead(&members)); a {
	case engine.AdmitPlanned:
		node, _ := p.sched.gangs.PlannedNode(gangKey(key), string(pod.UID))
		return p.confine(state, pod, node)
	case engine.AdmitLeader:
		p.sched.records.TakesTurn(string(pod.UID))
		return p.planGang(ctx, state, pod, g, &members)
	default:
		return nil, fwk.NewStatus(fwk.Unschedulable, p.sched.reporter.WhyHeld(key, a))
	}
}

// preFilterSingle prepares the cycle of a pod without a gang. It rejects the pod early if no node
// can have room, and skips Filter if nothing is reserved. A pod with a reservation is confined to
// the reserved node. If it does not fit there, its next cycle looks at all nodes.
func (p *Plugin) preFilterSingle(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
	if v := p.sched.drivers.BlockSingle(pod); v != (gang.Verdict{}) {
		return nil, p.rejectDriver(state, v)
	}
	if p.sched.quotas.Used() {
		p.sched.records.TakesTurn(string(pod.UID))
	}
	if v := p.sched.gates.blockedByQueue(pod); v != (gang.Verdict{}) {
		pre := p.podPreemptor(pod)
		made, v, err := p.atLimit(ctx, pre, v)
		if err != nil {
			return nil, p.broken(&pre, err)
		}
		return nil, blockedStatus(state, made, v)
	}
	if status := p.fastReject(ctx, state, pod); !status.IsSuccess() {
		return nil, status
	}
	kept, err := p.keptFromSingle(pod)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if p.sched.reserved.Empty() && len(kept) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	loose := p.sched.records.IsElsewhere(string(pod.UID))
	if node := p.sched.reserved.NodeOf(string(pod.UID)); node != "" && !loose && !p.sched.waits.WaitsForVictims(p.sched.index.KeyOf(pod)) {
		return p.confine(state, pod, node)
	}
	switch {
	case !p.claimsAreReserved(pod):
		return nil, p.restrictFilter(state, pod, beside(kept))
	case loose:
		return nil, p.restrictFilter(state, pod, apart, beside(kept))
	default:
		return p.goByDecision(ctx, state, pod)
	}
}

// confine restricts a pod to its reserved or planned node. It hides nominations of other pods to
// the node from the filters, which would count these pods as if they were on the node. Later
// members and other pods with reservations are not there yet, and their reservations keep the room.
func (p *Plugin) confine(state fwk.CycleState, pod *corev1.Pod, node string) (*fwk.PreFilterResult, *fwk.Status) {
	p.sched.nominations.dropInTheWay(pod, node)
	p.sched.nominations.hide(pod, node)
	if status := p.restrictFilter(state, pod, onlyOn(node)); !status.IsSuccess() {
		return nil, status
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(node)}, nil
}

// claimsAreReserved reports whether a pod claims devices or local volumes, and must respect
// reservations of other pods with such claims. Filter keeps the room of those reservations. But no
// filter keeps devices or volumes that are not allocated yet.
func (p *Plugin) claimsAreReserved(pod *corev1.Pod) bool {
	if !filters.IsClaimant(p.handle, pod) {
		return false
	}
	standing, key := p.sched.ledger.StandingOf(pod), p.sched.index.KeyOf(pod)
	for _, reserved := range p.sched.reserved.Nodes() {
		for _, r := range reserved {
			if r.KeepsFrom(standing) && p.sched.index.KeyOf(cluster.PodIn(r)) != key && filters.IsClaimant(p.handle, cluster.PodIn(r)) {
				return true
			}
		}
	}
	return false
}

// goByDecision makes a decision to choose the node of a single pod, because decisions account for
// the claims of other pods.
func (p *Plugin) goByDecision(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
	pre := p.podPreemptor(pod)
	made, err := p.decide(ctx, pre)
	if err != nil {
		return nil, p.broken(&pre, err)
	}
	if made.decision.Outcome == core.Fits {
		return p.confine(state, pod, snapshot.Placements(&made.decision)[pod.UID])
	}
	state.Write(decisionKey, made)
	return nil, fwk.NewStatus(fwk.Unschedulable, made.decision.Message)
}

// PreFilterExtensions returns nil, because the plan does not depend on pods that are added or
// removed.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// planGang plans all pending members of a gang on one snapshot. If they fit, each member gets a
// reservation, and the other members are activated. Otherwise, PostFilter applies the decision.
func (p *Plugin) planGang(ctx context.Context, state fwk.CycleState, leader *corev1.Pod, g *gang.Group, members *gang.Members) (*fwk.PreFilterResult, *fwk.Status) {
	pre := p.gangPreemptor(g, members)
	if p.awaitsReturn(g.Key, members) {
		// Other workloads need not wait until the members have returned.
		p.sched.turns.Decided(pre.key)
		state.Write(rejectionKey, rejection{membersReturn})
		return nil, fwk.NewStatus(fwk.Unschedulable, membersReturn)
	}
	if v := tooFew(&pre); v != (gang.Verdict{}) {
		p.lacksAbleMembers(state, &pre, leader, v)
		return nil, fwk.NewStatus(fwk.Unschedulable, v.Message)
	}
	made, v, err := p.decideGang(ctx, &pre)
	switch {
	case err != nil:
		return nil, p.broken(&pre, err)
	case v != (gang.Verdict{}):
		if made == nil {
			p.rejectGang(ctx, state, &pre, v)
		}
		return nil, blockedStatus(state, made, v)
	}
	d := &made.decision
	if d.Outcome != core.Fits {
		state.Write(decisionKey, made)
		return nil, fwk.NewStatus(fwk.Unschedulable, d.Message)
	}
	order := p.sched.queues.cutToFairShare(&pre, leaderFirst(d, string(leader.UID)))
	nodes := make(map[engine.UID]string, len(order))
	for _, seat := range order {
		nodes[seat.Member] = seat.Node
	}
	p.reserve(ctx, &pre, order)
	p.sched.steps.step(engine.WorkloadPlaced{Key: pre.key})
	logging.Of(ctx, pre.key).V(2).Info("Planned a gang", "members", len(nodes))
	for _, member := range pre.pods {
		p.sched.records.JoinsPlan(string(member.UID), podKey(member))
	}
	p.sched.gangs.SetPlan(gangKey(g.Key), order)
	p.sched.gangs.SetNeeded(gangKey(g.Key), pre.minCount)
	p.sched.gangs.FoundRoom(gangKey(g.Key))
	if pre.minCount > 0 {
		p.sched.gangs.SetVerdict(gangKey(g.Key), gang.Verdict{Reason: v1alpha1.ReasonPending, Message: d.Message})
	}
	p.sched.memberships.leftDuring(g.Key, pre.pods)
	if v := p.sched.gates.blockedWhilePlanned(g.Key, leader); v != (gang.Verdict{}) {
		return nil, fwk.NewStatus(fwk.Unschedulable, v.Message)
	}
	if _, planned := p.sched.gangs.PlannedNode(gangKey(g.Key), string(leader.UID)); nodes[string(leader.UID)] != "" && !planned {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members have left while the gang was planned; it is planned again")
	}
	next := p.sched.gangs.Next(gangKey(g.Key))
	if next == string(leader.UID) {
		return p.confine(state, leader, nodes[string(leader.UID)])
	}
	p.sched.releases.orNext(g.Key)
	if _, ok := nodes[string(leader.UID)]; !ok {
		// The leader is a surplus member without room. The other members are scheduled without it.
		return nil, fwk.NewStatus(fwk.Unschedulable, "no room is left for this member of the surplus")
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, string(engine.HoldForOrder))
}

// lacksAbleMembers handles a gang if too few of its members can be scheduled. The next member that
// arrives becomes the leader. The present members must not become the leader, because they would
// activate each other in a loop.
func (p *Plugin) lacksAbleMembers(state fwk.CycleState, pre *preemptor, leader *corev1.Pod, v gang.Verdict) {
	p.sched.gangs.Yield(pre.key, string(leader.UID))
	p.sched.turns.Decided(pre.key)
	p.sched.releases.All(pre.key, v.Message)
	p.sched.gangs.SetVerdict(pre.key, v)
	state.Write(rejectionKey, rejection{notPlanned})
}

// blockedWhilePlanned releases the new plan of a gang if a cause blocks the gang, and returns the
// cause. The event of that cause came before the plan existed, so its handler released nothing.
func (gs *gates) blockedWhilePlanned(key types.NamespacedName, leader *corev1.Pod) gang.Verdict {
	if gs.gangs.Planned(gangKey(key)) == 0 {
		return gang.Verdict{}
	}
	_, _, v := gs.of(key)
	if v != (gang.Verdict{}) {
		gs.blockGroup(key, leader, v)
		gs.releases.plan(key, nil, v.Message)
	}
	return v
}

// tooFew returns the verdict on a gang that has enough members, but too few that can be scheduled.
func tooFew(pre *preemptor) gang.Verdict {
	if v := noPart(pre); v != (gang.Verdict{}) {
		return v
	}
	have := len(pre.pods)
	if have >= pre.minCount {
		return gang.Verdict{}
	}
	return gang.Verdict{
		Reason:  v1alpha1.ReasonUnschedulable,
		Message: joined(fmt.Sprintf("%d more members are needed and %d can be scheduled", pre.minCount, have), pre.keptOut),
	}
}

// decideGang makes the decision for as many members as the limits of the queue allow. If the limits
// allow too few members, it returns a verdict. In that case, the decision evicts work that counts
// for the limit. The decision is nil if such evictions do not help.
func (p *Plugin) decideGang(ctx context.Context, pre *preemptor) (*cycleDecision, gang.Verdict, error) {
	if len(pre.rounds) > 0 {
		return p.decideRounds(ctx, pre)
	}
	if v := p.sched.gates.askQueue(pre.key, engine.Queue, func() gang.Verdict { return pre.limit(p.sched.ledger) }); v != (gang.Verdict{}) {
		return p.atLimit(ctx, *pre, v)
	}
	made, err := p.decide(ctx, *pre)
	return made, gang.Verdict{}, err
}

// blockedStatus returns the status for a preemptor that its queue blocks. It stores the decision,
// if there is one, for PostFilter.
func blockedStatus(state fwk.CycleState, made *cycleDecision, v gang.Verdict) *fwk.Status {
	if made != nil {
		state.Write(decisionKey, made)
	}
	// The code is not UnschedulableAndUnresolvable, because the framework would then not run
	// PreFilter of the later plugins. Without its PreFilter, PostFilter of DynamicResources fails
	// with "not found", and the framework would not call PostFilter of this plugin.
	return fwk.NewStatus(fwk.Unschedulable, v.Message)
}

// broken records the error of a decision in the metrics and the log, and returns it as a status.
func (p *Plugin) broken(pre *preemptor, err error) *fwk.Status {
	p.count(pre, metrics.Broken)
	p.sched.turns.TurnFailed(pre.key)
	if pre.key.Gang && pre.minCount > 0 {
		p.sched.gangs.SetVerdict(pre.key, gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: "it could not be decided where the members go: " + err.Error()})
	}
	return fwk.AsStatus(err)
}

// seats returns the placements of a decision as assignments, in the same order.
func seats(d *core.Decision) []engine.Assignment {
	out := make([]engine.Assignment, 0, len(d.Placements))
	for _, p := range d.Placements {
		out = append(out, engine.Assignment{Member: p.UID, Node: p.Node})
	}
	return out
}

// leaderFirst returns the placements of a decision as assignments. It swaps the leader with the
// first member if both have the same needs, because the leader's cycle runs already.
func leaderFirst(d *core.Decision, leader engine.UID) []engine.Assignment {
	out := seats(d)
	at := slices.IndexFunc(out, func(s engine.Assignment) bool { return s.Member == leader })
	if at > 0 && areAlike(d, out[0].Member, leader) {
		out[0].Member, out[at].Member = leader, out[0].Member
	}
	return out
}

func areAlike(d *core.Decision, a, b engine.UID) bool {
	return slices.ContainsFunc(d.Preemptor.Classes, func(c core.Class) bool {
		has := func(uid engine.UID) bool {
			return slices.ContainsFunc(c.Members, func(m core.Member) bool { return m.UID == uid })
		}
		return has(a) && has(b)
	})
}

// rejectGang sets the verdict of a gang whose queue has no room for it, and releases its
// reservations.
func (p *Plugin) rejectGang(ctx context.Context, state fwk.CycleState, pre *preemptor, v gang.Verdict) {
	p.sched.turns.TurnFailed(pre.key)
	if pre.minCount > 0 {
		p.sched.gangs.SetVerdict(pre.key, v)
	}
	p.sched.reporter.NoRoom(pre.key, v)
	p.reserve(ctx, pre, nil)
	p.sched.waits.ResolveVictims(pre.key)
	p.sched.evictor.Nominate(ctx, p.nominations(pre, nil, nil))
	state.Write(rejectionKey, rejection{queueInTheWay})
}

// driversInTheWay is the reason in the rejection of a blocked driver's cycle. Such a cycle preempts
// nothing.
const driversInTheWay = "other drivers run without their workers"

// rejectDriver ends the cycle of a driver that passed PreEnqueue together with too many other
// drivers.
func (p *Plugin) rejectDriver(state fwk.CycleState, v gang.Verdict) *fwk.Status {
	state.Write(rejectionKey, rejection{driversInTheWay})
	return fwk.NewStatus(fwk.Unschedulable, v.Message)
}
