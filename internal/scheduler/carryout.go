package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// carryOut does what a decision says that finds no room as things are. The pod is the one in the cycle.
func (p *Plugin) carryOut(ctx context.Context, pod *corev1.Pod, made *cycleDecision) (*fwk.PostFilterResult, *fwk.Status) {
	d, pre := &made.decision, &made.pre
	p.measure(made)
	nodes := placements(d)
	news := !p.hub.seats.keeps(nodes)
	p.nominate(ctx, pre, nodes)
	nominations := p.nominations(pre, nodes, pod)
	p.hub.timers.cancel(pre.owner)
	if d.Outcome == core.Infeasible {
		p.hub.turns.failed(pre.owner)
		p.hub.evictor.Nominate(ctx, nominations)
		p.tryLater(made)
		p.hub.awaited.forget(pre.owner)
		if len(made.view.held) > 0 {
			p.hub.refuse(pod, made.view.freed)
		}
		// An empty node takes back what the pod may have been nominated to before.
		return framework.NewPostFilterResultWithNominatedNode(""), made.status(fwk.Unschedulable)
	}
	p.hub.turns.decided(pre.owner)
	if news {
		p.displace(ctx, pre, nodes)
	}
	if d.Outcome == core.Preempts {
		if err := p.evict(ctx, made, nodes, nominations); err != nil {
			return framework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.Unschedulable, "preemption failed: "+err.Error())
		}
	} else {
		p.hub.evictor.Nominate(ctx, nominations)
		p.await(pre.owner, made.leaving(nodes), nil)
	}
	node := nodes[pod.UID]
	if node != "" && p.hub.overstates(pod) {
		// The framework would take it for more than it is. Its seat keeps the room, the evictor tells the API.
		return nil, made.status(fwk.Success)
	}
	// An empty node, again, takes a nomination back.
	return framework.NewPostFilterResultWithNominatedNode(node), made.status(fwk.Success)
}

// tryLater has a preemptor for whom there is no room tried again when that may have changed, unless events say so.
func (p *Plugin) tryLater(made *cycleDecision) {
	d, pre := &made.decision, &made.pre
	switch {
	case d.RetryAt != 0:
		p.hub.timers.set(pre.owner, time.Unix(0, d.RetryAt))
	case !p.hub.isCharged(pre):
		p.hub.timers.set(pre.owner, p.hub.clock.Now().Add(chargeDelay))
	case slices.ContainsFunc(d.Protected, func(c core.RuleCount) bool { return c.Rule == core.RuleToleration }):
		p.hub.timers.hold(pre.owner)
	default:
		return
	}
	if p.hub.mirror.isOutdated() {
		// A class may have lifted its toleration before there was anyone to wake.
		p.hub.wake(pre.owner)
	}
}

// status is what the pod in the cycle is told of a decision. For a gang, PreFilter has said most of it.
func (made *cycleDecision) status(code fwk.Code) *fwk.Status {
	said := made.waitsFor()
	if !made.pre.owner.gang {
		said = "preemption: " + joined(made.decision.Message, said)
	}
	if said == "" {
		return fwk.NewStatus(code)
	}
	return fwk.NewStatus(code, said)
}

// waitsFor names the pods that a placement waits for without taking any more; empty where it does not.
func (made *cycleDecision) waitsFor() string {
	const most = 3
	if made.decision.Outcome != core.Waits {
		return ""
	}
	var names []string
	for _, pod := range made.leaving(placements(&made.decision)) {
		names = append(names, klog.KObj(pod).String()+" on "+pod.Spec.NodeName)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	if n := len(names); n > most {
		names = append(names[:most], fmt.Sprintf("and %d more", n-most))
	}
	return "waits for " + strings.Join(names, ", ")
}

// joined are two parts of a message, of which either may be empty.
func joined(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "; " + second
}

// measure records what came of a search for room.
func (p *Plugin) measure(made *cycleDecision) {
	p.count(&made.pre, attemptOf(made.decision.Outcome))
	p.hub.metrics.Decided(made.pre.kind(), p.handle.ProfileName(), made.decision.Elapsed)
}

func attemptOf(outcome core.Outcome) metrics.Attempt {
	switch outcome {
	case core.Preempts:
		return metrics.Preempts
	case core.Infeasible:
		return metrics.Infeasible
	default:
		return metrics.Fits
	}
}

func (p *Plugin) count(pre *preemptor, came metrics.Attempt) {
	p.hub.metrics.Attempted(pre.kind(), came, p.handle.ProfileName())
}

func (pre *preemptor) kind() metrics.PreemptorType {
	if pre.owner.gang {
		return metrics.Gang
	}
	return metrics.Pod
}

// await has a preemptor woken when the last of the pods has gone that its placement counts as gone, and before that when
// the last has of those that are in its way.
func (p *Plugin) await(o owner, pods []*corev1.Pod, inTheWay sets.Set[types.UID]) {
	uids := make([]types.UID, len(pods))
	for i, pod := range pods {
		uids[i] = pod.UID
	}
	p.hub.awaited.expect(o, uids, inTheWay)
	// What has become of them since the snapshot was taken will not be heard of again.
	for _, pod := range pods {
		now, err := p.hub.pods.Pods(pod.Namespace).Get(pod.Name)
		switch {
		case err != nil || now.UID != pod.UID:
			p.hub.leaving.gone(pod, p.hub.clock.Now())
			p.hub.departed(pod.UID)
		case !p.hub.isLeaving(now):
			p.hub.stays(pod)
		}
	}
}

// evict hands a decision to the evictor. The preemptor is gated until the calls are done, or the cycle waits for
// them where the profile wants it so.
func (p *Plugin) evict(ctx context.Context, made *cycleDecision, nodes map[types.UID]string, nominations []Nomination) error {
	pre := made.pre
	order := EvictionOrder{
		Decision:    made.decision,
		Victims:     made.victimPods(),
		Nominations: nominations,
		Profile:     p.handle.ProfileName(),
		TurnBack:    p.turnBack,
		Wanted:      func() bool { return p.hub.seats.keeps(nodes) && !p.hub.isBarred(pre.owner) },
	}
	p.hub.leaving.take(order.Victims, p.hub.clock.Now())
	for _, victim := range order.Victims {
		p.hub.mirror.unsettle(victim.Spec.NodeName)
	}
	p.await(pre.owner, made.leaving(nodes), made.inTheWay(nodes))
	klog.FromContext(ctx).Info("Preempting", "preemptor", pre.owner, "victims", len(order.Victims), "decision", made.decision.Message)
	if !*p.args.Asynchronous {
		return p.evictNow(ctx, &pre, order)
	}
	p.evictSoon(ctx, pre, order)
	return nil
}

// evictNow waits for the calls. Nothing has to be gated: the preemptor is in its cycle.
func (p *Plugin) evictNow(ctx context.Context, pre *preemptor, order EvictionOrder) error {
	done := make(chan error, 1)
	p.hub.evictor.Evict(ctx, order, func(err error) { done <- err })
	err := <-done
	unwanted := order.unwanted(err)
	if err != nil {
		p.evictionFailed(context.WithoutCancel(ctx), pre, order.Victims, err)
	}
	if delay := p.hub.retryDelay(pre, err, unwanted, p.args.Retry); err != nil {
		// At the earliest when this cycle is over.
		p.hub.timers.set(pre.owner, p.hub.clock.Now().Add(max(delay, p.args.Retry.InitialBackoff.Duration)))
	}
	return err
}

// evictSoon returns at once, long before the last call.
func (p *Plugin) evictSoon(ctx context.Context, pre preemptor, order EvictionOrder) {
	end := p.hub.startEviction(pre.owner, pre.uid)
	// The cycle's context ends with the cycle.
	p.hub.evictor.Evict(context.WithoutCancel(ctx), order, func(err error) {
		unwanted := order.unwanted(err)
		if err != nil {
			// The framework nominates the pod that was in the cycle at its end.
			if over := ctx.Done(); over != nil {
				<-over
			}
			p.evictionFailed(context.WithoutCancel(ctx), &pre, order.Victims, err)
		}
		over := func() {
			end()
			if p.hub.isBarred(pre.owner) {
				p.hub.displace(context.WithoutCancel(ctx), pre.owner, "its queue has changed")
				return
			}
			p.hub.wake(pre.owner)
		}
		if delay := p.hub.retryDelay(&pre, err, unwanted, p.args.Retry); delay > 0 {
			time.AfterFunc(delay, over)
			return
		}
		over()
	})
}

// evictionFailed takes back what was promised to a preemptor, and lets those look again who count on victims
// that stay.
func (p *Plugin) evictionFailed(ctx context.Context, pre *preemptor, victims map[types.UID]*corev1.Pod, err error) {
	var begun sets.Set[types.UID]
	var failed *EvictionError
	if errors.As(err, &failed) {
		begun = failed.Begun
	}
	if p.hub.remains(pre) {
		p.hub.awaited.forget(pre.owner)
	}
	gaveUp := false
	// By the pods' UIDs: what the next one of the preemptor's name has been promised is its own.
	for _, pod := range pre.pods {
		p.handle.DeleteNominatedPodIfExists(pod)
		gaveUp = p.hub.seats.giveUp(pod.UID) || gaveUp
	}
	if gaveUp {
		p.hub.wakeRefused()
	}
	p.hub.evictor.Nominate(ctx, p.nominations(pre, nil, nil))
	for uid := range victims {
		if !begun.Has(uid) {
			p.hub.leaving.spare(uid)
		}
	}
	for uid, victim := range victims {
		if !begun.Has(uid) {
			p.hub.stays(victim)
		}
	}
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

// inTheWay are the victims without whom there is no room on the nodes of a placement. Of a unit that goes whole, members
// elsewhere go as well.
func (made *cycleDecision) inTheWay(nodes map[types.UID]string) sets.Set[types.UID] {
	on := sets.New(slices.Collect(maps.Values(nodes))...)
	out := sets.New[types.UID]()
	for uid, pod := range made.victimPods() {
		if on.Has(pod.Spec.NodeName) {
			out.Insert(uid)
		}
	}
	return out
}
