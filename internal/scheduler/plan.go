package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// preemptor is the pod or gang that a decision is for.
type preemptor struct {
	// owner and uid are those of the PodGroup for a gang, of the pod otherwise.
	owner owner
	uid   types.UID
	// group is the PodGroup that the pod or gang belongs to, or nil.
	group *gang.Group
	// queue is the name of the leaf queue, or "".
	queue    string
	priority int32
	never    bool
	// minCount is how many more members have to be placed.
	minCount int
	// pods are the pending members, oldest first.
	pods []*corev1.Pod
}

// podPreemptor describes a single pod.
func (p *Plugin) podPreemptor(pod *corev1.Pod) preemptor {
	g := p.hub.group(pod)
	return preemptor{
		owner:    owner{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}},
		uid:      pod.UID,
		group:    g,
		queue:    p.hub.queueOf(pod),
		priority: p.hub.priorityOf(pod),
		never:    p.neverPreempts(g, pod),
		minCount: 1,
		pods:     []*corev1.Pod{pod},
	}
}

// gangPreemptor describes a gang by its members as they are now. Members that run, or are assumed to, count
// towards minCount; those that other plugins hold back cannot be planned.
func (p *Plugin) gangPreemptor(g *gang.Group, members *gang.Members) preemptor {
	reserved := sets.New(p.hub.registry.Reserved(g.Key)...)
	var pending, through []*corev1.Pod
	for _, pod := range members.Pending {
		switch {
		case reserved.Has(pod.UID):
			through = append(through, pod)
		case p.hub.entersQueue(pod):
			pending = append(pending, pod)
		}
	}
	gang.SortByAge(pending)
	pre := preemptor{
		owner: owner{gang: true, NamespacedName: g.Key}, uid: g.UID, group: g,
		minCount: max(g.MinCount-p.hub.through(g.Key, members), 0),
		pods:     pending,
	}
	if len(pending) > 0 {
		pre.queue = p.hub.queueOf(pending[0])
		pre.priority = p.hub.priorityOf(pending[0])
		pre.never = p.neverPreempts(g, pending...)
	}
	if g.PodPriorities {
		// As one, they stand no higher than the lowest of them.
		pre.priority = lowestPriority(slices.Concat(pending, through, members.Assigned)...)
	}
	return pre
}

// neverPreempts reports whether a group, or pods without one, may take nothing from others. Where the group's
// own policy is not known, its class decides, and where that has gone, the pods: what one of them is not to do
// all leave.
func (p *Plugin) neverPreempts(g *gang.Group, pods ...*corev1.Pod) bool {
	if g != nil && g.PreemptionPolicy != "" {
		return g.PreemptionPolicy == corev1.PreemptNever
	}
	if g != nil && g.PriorityClassName != "" {
		if class, err := p.priorityClasses.Get(g.PriorityClassName); err == nil {
			return class.PreemptionPolicy != nil && *class.PreemptionPolicy == corev1.PreemptNever
		}
	}
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
	})
}

// rank is how the preemptor stands.
func (pre *preemptor) rank() rank { return rank{priority: pre.priority, queue: pre.queue} }

// rankOf is how a pod stands.
func (h *Hub) rankOf(pod *corev1.Pod) rank {
	return rank{priority: h.priorityOf(pod), queue: h.queueOf(pod)}
}

// owns reports whether a pod is one of those that the decision is for.
func (pre *preemptor) owns(pod *corev1.Pod) bool {
	if !pre.owner.gang {
		return pod.UID == pre.uid
	}
	key, ok := gang.GroupOf(pod)
	return ok && key == pre.owner.NamespacedName
}

// decide takes a view of the snapshot and asks the core.
func (p *Plugin) decide(ctx context.Context, pre preemptor) (*cycleDecision, error) {
	start := p.hub.clock.Now()
	classes, err := classesOf(pre.pods)
	if err != nil {
		return nil, err
	}
	v, err := p.look(&pre)
	if err != nil {
		return nil, fmt.Errorf("decide for %s: %w", pre.owner, err)
	}
	return p.decideIn(ctx, pre, v, classes, start)
}

// decideIn asks the core about a view that was taken since start.
func (p *Plugin) decideIn(ctx context.Context, pre preemptor, v *view, classes []class, start time.Time) (*cycleDecision, error) {
	o, err := newOracle(ctx, p.handle, v, classes, pre.owner)
	if err != nil {
		return nil, fmt.Errorf("decide for %s: %w", pre.owner, err)
	}
	d, err := o.decide(p.input(&pre, v, classes))
	if err != nil {
		return nil, fmt.Errorf("decide for %s: %w", pre.owner, err)
	}
	d.Elapsed = p.hub.clock.Since(start)
	klog.FromContext(ctx).V(3).Info("Decided", "preemptor", pre.owner, "outcome", d.Outcome, "message", d.Message, "elapsed", d.Elapsed)
	if pre.owner.gang {
		p.hub.registry.SetMinding(pre.owner.NamespacedName, o.anyStateful)
	}
	return &cycleDecision{decision: d, view: v, pre: pre}, nil
}

// decide asks the core, again where an extender refuses what it says.
func (o *oracle) decide(input *core.Preemptor) (core.Decision, error) {
	for range extenderRounds {
		d, err := core.Decide(o.view.snapshot, input, o)
		if err != nil {
			return d, err
		}
		if o.err != nil {
			return d, o.err
		}
		refused, err := o.askPreemption(&d)
		if err != nil || !refused {
			return d, err
		}
	}
	return core.Decision{}, fmt.Errorf("extenders refused the victims of %d placements in a row", extenderRounds)
}

// input describes the preemptor to the core. What no node has is named in the view's spare dimension.
func (p *Plugin) input(pre *preemptor, v *view, classes []class) *core.Preemptor {
	rank := make(map[types.UID]int, len(pre.pods))
	for i, pod := range pre.pods {
		rank[pod.UID] = i
	}
	input := &core.Preemptor{
		Namespace: pre.owner.Namespace, Name: pre.owner.Name, UID: string(pre.uid), Gang: pre.owner.gang,
		Queue: pre.queue, Priority: pre.priority, Never: pre.never, MinCount: pre.minCount, Now: p.hub.clock.Now().UnixNano(),
		IgnoresTolerations: !*p.args.PreemptionToleration,
		MinRuntime: core.MinRuntime{
			Preempt: int64(p.args.PreemptMinRuntime.Duration), Reclaim: int64(p.args.ReclaimMinRuntime.Duration),
			Resolve: core.ResolveMethod(*p.args.ReclaimResolveMethod),
		},
		Limits: &core.Limits{
			PackingMembers: int(*p.args.Search.PackingMembers), PackingNodes: int(*p.args.Search.PackingNodes),
			PackingSteps: int(*p.args.Search.PackingSteps),
		},
	}
	var unknown []string
	input.Classes, unknown = coreClasses(classes, &p.hub.mirror.dimensions, p.ignoresResource, rank)
	nameSpare(v.snapshot, unknown)
	if pre.group != nil {
		input.PodGroup = string(pre.group.UID)
	}
	return input
}

// placements are the nodes that a decision has for pods.
func placements(d *core.Decision) map[types.UID]string {
	nodes := make(map[types.UID]string, len(d.Placements))
	for _, pl := range d.Placements {
		nodes[types.UID(pl.UID)] = pl.Node
	}
	return nodes
}

// nominate keeps a seat for every pod that has a node, and gives up all others of the preemptor.
func (p *Plugin) nominate(ctx context.Context, pre *preemptor, nodes map[types.UID]string) {
	logger := klog.FromContext(ctx)
	seats := make([]*seat, 0, len(nodes))
	for _, pod := range pre.pods {
		node := nodes[pod.UID]
		if node == "" {
			p.handle.DeleteNominatedPodIfExists(pod)
			continue
		}
		pi, err := framework.NewPodInfo(pod)
		if err != nil {
			logger.Error(err, "Nominate pod", "pod", klog.KObj(pod), "node", node)
			continue
		}
		seats = append(seats, &seat{pod: pi, uid: pod.UID, node: node, rank: pre.rank()})
		if !p.hub.overstates(pod) {
			p.handle.AddNominatedPod(logger, pi, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
		} else {
			p.handle.DeleteNominatedPodIfExists(pod)
		}
	}
	p.hub.keep(pre.owner, seats)
	p.hub.emptySeats(seats)
}
