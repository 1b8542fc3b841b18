package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/filters"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/pauses"
	"github.com/reprieve-dev/reprieve/internal/profiles"
	"github.com/reprieve-dev/reprieve/internal/scoring"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// preemptor describes the pod or gang that a decision is made for.
type preemptor struct {
	// key identifies the workload.
	key workload.Key
	// uid is the UID of the gang's PodGroup, or of the single pod.
	uid types.UID
	// group is the PodGroup of the gang or pod; nil for none.
	group *gang.Group
	// queue is the name of the leaf queue; "" for none.
	queue    string
	priority int32
	never    bool
	// further is true for a group in a tree that is not needed for the minGroupCount of its parent.
	further bool
	// minCount is the number of members that must still be placed.
	minCount int
	// pods are the pending members, oldest first.
	pods []*corev1.Pod
	// rounds are the attempts to place members of a tree, in order; nil for other preemptors.
	rounds []gang.Round
	// beside lists the nodes of the placed members, if the gang must share a topology domain.
	beside []string
	// keptOut names a pending member that other plugins block, with the reason; "" if there is
	// none.
	keptOut string
	// atLimit is true if the pods do not fit below the limit of their queue now. In this case, the
	// preemptor must wait for all victims, on any node.
	atLimit bool
	// pause is the time without preemptions for this preemptor, with the reason; nil if it may
	// preempt.
	pause *engine.PreemptionPause
}

func (p *Plugin) podPreemptor(pod *corev1.Pod) preemptor {
	g := p.sched.index.Group(pod)
	return preemptor{
		key:      podKey(pod),
		uid:      pod.UID,
		group:    g,
		queue:    p.sched.ledger.QueueOf(pod),
		priority: p.sched.index.PriorityOf(pod),
		never:    p.sched.tolerations.NeverPreempts(g, pod),
		minCount: 1,
		pods:     []*corev1.Pod{pod},
		pause:    p.sched.pauses.Of(podKey(pod), pod),
	}
}

// gangPreemptor returns the preemptor for a gang with these members. Running and assumed members
// count towards minCount. Members that other plugins block are left out.
func (p *Plugin) gangPreemptor(g *gang.Group, members *gang.Members) preemptor {
	var pending, through []*corev1.Pod
	var keptOut cluster.GatedMember
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) {
			through = append(through, pod)
		} else if why := p.sched.index.GatedBy(pod); why != "" {
			keptOut.See(pod.Name, why)
		} else {
			pending = append(pending, pod)
		}
	}
	gang.SortByAge(pending)
	pre := preemptor{
		key: gangKey(g.Key), uid: g.UID, group: g,
		minCount: p.sched.placements.Lacking(g, members, pending),
		pods:     pending,
		keptOut:  keptOut.String(),
		pause:    p.sched.pauses.Of(gangKey(g.Key)),
	}
	if g.Tree != nil {
		pre.rounds = gang.RoundsOf(g, members, pending)
		if pre.enter(pre.rounds[0]); len(pre.rounds) == 1 {
			pre.rounds = nil
		}
	}
	if len(pending) > 0 {
		pre.queue = p.sched.ledger.QueueOf(pending[0])
		pre.priority = p.sched.index.PriorityOf(pending[0])
		pre.never = pre.never || p.sched.tolerations.NeverPreempts(g, pending...)
	}
	if g.TopologyKey != "" || len(g.PreferredKeys) > 0 {
		pre.beside = p.sched.placements.NodesOf(slices.Concat(members.Assigned, through))
	}
	if g.PodPriorities {
		// A gang without a priority has the priority of its lowest member.
		pre.priority = lowestPriority(slices.Concat(pending, through, members.Assigned)...)
	}
	return pre
}

// groupKey returns the key of the preemptor's PodGroup; the zero key for none.
func (pre *preemptor) groupKey() types.NamespacedName {
	if pre.group == nil {
		return types.NamespacedName{}
	}
	return pre.group.Key
}

// standing returns the standing of the preemptor. During a pause, it has the lowest priority.
func (pre *preemptor) standing() workload.Standing {
	if pre.pause != nil {
		return workload.Standing{Priority: workload.LowestPriority, Queue: pre.queue}
	}
	return workload.Standing{Priority: pre.priority, Queue: pre.queue}
}

// candidate describes the preemptor for a check against the limits of its queue.
func (pre *preemptor) candidate() *cluster.Candidate {
	return &cluster.Candidate{Key: pre.key, Standing: pre.standing(), Pods: pre.pods, MinCount: pre.minCount}
}

// limit removes from the preemptor the pods that do not fit below the limits of its queue. If too
// few pods would remain, it removes none, and returns a verdict that names the limit. Pods in gone
// do not count as usage.
func (pre *preemptor) limit(l *cluster.Ledger, gone ...types.UID) (v gang.Verdict) {
	pre.pods, v = l.WithinLimits(pre.candidate(), gone...)
	return v
}

// classesOf groups the preemptor's pods into classes with the same scheduling needs. If some
// members are surplus, the members of a class also have the same role.
func (p *Plugin) classesOf(pre *preemptor) ([]snapshot.Class, error) {
	if pre.minCount == 0 || pre.minCount >= len(pre.pods) {
		return snapshot.ClassesOf(pre.pods, p.claims, nil)
	}
	return snapshot.ClassesOf(pre.pods, p.claims, func(pod *corev1.Pod) string {
		role, _ := p.sched.index.Derived.RoleOf(pod)
		return role
	})
}

// decide takes a view of the snapshot and makes a decision for a preemptor.
func (p *Plugin) decide(ctx context.Context, pre preemptor) (*cycleDecision, error) {
	start := p.sched.clock.Now()
	defer p.sched.progress.Begin("the decision on "+pre.key.String(), start)()
	classes, err := p.classesOf(&pre)
	if err != nil {
		return nil, err
	}
	v, err := p.newView(&pre)
	if err != nil {
		return nil, fmt.Errorf("decide for %s: %w", pre.key, err)
	}
	return p.decideIn(ctx, pre, v, classes, start)
}

// decideIn makes a decision for a preemptor on a view. start is the time when the cycle began to
// take the view.
func (p *Plugin) decideIn(ctx context.Context, pre preemptor, v *decisionView, classes []snapshot.Class, start time.Time) (*cycleDecision, error) {
	input := p.input(&pre, v, classes)
	if d, ok := p.refusals.of(p, &pre, v); ok {
		d.Preemptor = *input
		p.logOfPreemptor(ctx, pre.key).V(4).Info("Found no room, as an equal pod before", "reason", d.Message)
		return p.recordInputs(&cycleDecision{decision: d, view: v, pre: pre, repeated: true}), nil
	}
	o, err := filters.NewOracle(ctx, p.handle, v.View, input, classes)
	if err != nil {
		return nil, fmt.Errorf("decide for %s: %w", pre.key, err)
	}
	d, victims, err := o.Decide()
	if err != nil {
		return nil, fmt.Errorf("decide for %s: %w", pre.key, err)
	}
	d.Elapsed = p.sched.clock.Since(start)
	if d.Outcome != core.Fits {
		d.Message = joined(d.Message, p.overdueSentence(v, classes))
	}
	if d.Outcome == core.Infeasible && pre.pause != nil {
		d.Message = joined(d.Message, pauses.Sentence(pre.pause, pre.key))
	}
	if d.Outcome == core.Infeasible && v.HasPromised() {
		d.Message = joined(d.Message, p.reservedSentence(&pre, v.kept, classes))
	}
	p.logOfPreemptor(ctx, pre.key).V(4).Info("Decided", "outcome", d.Outcome, "reason", d.Message, "took", d.Elapsed)
	if pre.key.Gang {
		p.sched.gangs.SetPodSensitive(pre.key, o.PodSensitive())
	} else if d.Outcome == core.Infeasible && !o.PodSensitive() {
		p.refusals.add(p, &pre, v, &d)
	}
	made := &cycleDecision{decision: d, victims: victims, view: v, pre: pre}
	if d.Outcome == core.Waits || d.Outcome == core.Preempts {
		made.related = o.Related()
	}
	return p.recordInputs(made), nil
}

// input converts the preemptor for the core. The resources that no node has are added up in one
// place: the view's spare resource.
func (p *Plugin) input(pre *preemptor, v *decisionView, classes []snapshot.Class) *core.Preemptor {
	input := &core.Preemptor{
		Namespace: pre.key.Namespace, Name: pre.key.Name, UID: string(pre.uid), Gang: pre.key.Gang,
		Queue: pre.queue, Priority: pre.priority, Never: pre.never, FurtherGroup: pre.further, BacksOff: pre.pause != nil, MinCount: pre.minCount, Now: p.sched.clock.Now().UnixNano(),
		IgnoresTolerations: !*p.args.PreemptionToleration,
		MinRuntime:         *profiles.MinRuntimeIn(p.args),
		Limits: &core.Limits{
			PackingMembers: int(*p.args.Search.PackingMembers), PackingNodes: int(*p.args.Search.PackingNodes),
			PackingSteps: int(*p.args.Search.PackingSteps),
		},
		Classes: v.Describe(classes, p.resources), Devices: devicesAmong(v.Cluster.Resources, &p.args.LostWork),
		Mix: scoring.MixOf(&p.args.Placement, v.Cluster.Resources),
	}
	if p.args.CountsLostWork() {
		input.Order = core.OrderLostWork
	}
	input.CountsStops = p.args.CountsStops()
	input.Restart, input.Step, input.PodCost = p.args.LostWork.RestartCost.Nanoseconds(), p.args.LostWork.Step.Nanoseconds(), p.args.LostWork.PodCost.Nanoseconds()
	input.Bands, input.Cascade = BandsOf(p.args), CascadeOf(p.args)
	if pre.group != nil {
		input.PodGroup = string(pre.group.UID)
	}
	if pre.key.Gang && pre.group != nil && pre.group.TopologyKey != "" {
		input.Domain = v.RequiredDomain(pre.group.TopologyKey, pre.beside)
	}
	if pre.key.Gang && pre.group != nil && len(pre.group.PreferredKeys) > 0 {
		input.LevelRule = levelRuleOf(p.args)
		input.Preferred = v.PreferredLevels(pre.group.PreferredKeys, pre.beside)
	}
	for _, r := range v.own {
		input.Nominated = append(input.Nominated, core.Placement{Member: cluster.PodIn(r).Name, UID: r.UID, Node: r.Node})
	}
	return input
}

func levelRuleOf(args *configv1alpha1.ReprieveArgs) core.LevelRule {
	if *args.LevelOrder == configv1alpha1.NearerLevel {
		return core.NearerLevel
	}
	return core.LowerCost
}

// BandsOf returns the priority bands in a profile's arguments, in ascending order; nil for none.
func BandsOf(args *configv1alpha1.ReprieveArgs) []core.Band {
	var bands []core.Band
	for _, band := range args.PriorityBands {
		bands = append(bands, core.Band{Min: band.Min, Max: band.Max})
	}
	slices.SortFunc(bands, func(a, b core.Band) int { return cmp.Compare(a.Min, b.Min) })
	return bands
}

// CascadeOf returns the cascade mode in a profile's arguments.
func CascadeOf(args *configv1alpha1.ReprieveArgs) core.CascadeMode {
	switch *args.Cascade {
	case configv1alpha1.CascadeMeasure:
		return core.CascadeMeasure
	case configv1alpha1.CascadeDecide:
		return core.CascadeDecide
	default:
		return core.CascadeOff
	}
}

// devicesAmong returns the number of devices, in thousandths, that one unit of each resource
// represents.
func devicesAmong(resources []string, args *configv1alpha1.LostWorkArgs) core.Amounts {
	out := make(core.Amounts, len(resources))
	for r, name := range resources {
		out[r] = args.MilliDevices(name)
	}
	return out
}

// reserve makes a reservation for each pod in a plan, and releases all other reservations of the
// preemptor. If the reservations then exceed a limit of the queue, reservations of less important
// work in the queue are released.
func (p *Plugin) reserve(ctx context.Context, pre *preemptor, plan []engine.Assignment) {
	logger := p.logOfPreemptor(ctx, pre.key)
	places := make(map[engine.UID]int, len(plan))
	for i, seat := range plan {
		places[seat.Member] = i
	}
	reserved := make([]*engine.Reservation, 0, len(plan))
	for _, pod := range pre.pods {
		// The informer lists the pod, but the handler of its event may not have run yet.
		p.sched.steps.ensurePresent(pod)
		place, ok := places[string(pod.UID)]
		if !ok {
			p.handle.DeleteNominatedPodIfExists(pod)
			continue
		}
		node := plan[place].Node
		pi, err := framework.NewPodInfo(pod)
		if err != nil {
			logger.Error(err, "Reserve room for a pod", "pod", klog.KObj(pod), "node", node)
			continue
		}
		logger.V(6).Info("Reserved room", "pod", klog.KObj(pod), "node", node)
		reserved = append(reserved, &engine.Reservation{Pod: pi, UID: string(pod.UID), Node: node, Place: place, Standing: pre.standing()})
		if !p.sched.index.Inflates(pod) {
			p.handle.AddNominatedPod(logger, pi, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
		} else {
			p.handle.DeleteNominatedPodIfExists(pod)
		}
	}
	p.sched.steps.reserveRooms(pre.key, reserved)
	if len(reserved) > 0 {
		p.sched.releases.overLimit(pre.standing())
	}
}
