package scheduler

import (
	"context"
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

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/leaving"
	"github.com/reprieve-dev/reprieve/internal/logging"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/pauses"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/reporter"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// carryOut applies a decision for a preemptor that does not fit on any node now. pod is the
// preemptor's pod in the current cycle.
func (p *Plugin) carryOut(ctx context.Context, pod *corev1.Pod, made *cycleDecision) (*fwk.PostFilterResult, *fwk.Status) {
	d, pre := &made.decision, &made.pre
	p.sched.records.HasLookedElsewhere(string(pod.UID))
	p.measure(made)
	if node, ends := p.sched.rooms.dipUnder(made); node != "" {
		return p.waitForDip(made, pod, node, ends)
	}
	if d.Outcome != core.Preempts {
		p.record(made)
	}
	said := p.reportGang(made)
	if pre.key.Gang {
		p.sched.gangs.Unplanned(pre.key)
	}
	nodes := snapshot.Placements(d)
	promised, plan := nodes, seats(d)
	if pre.pause != nil {
		// A workload in a pause gets no reservations; see [engine.PreemptionPause].
		promised, plan = nil, nil
	}
	news := !p.sched.reserved.Keeps(nodesByUID(maps.All(promised)))
	// Mark the victims as gone before reserving their room. Otherwise, [rooms] would release the
	// reservations, because the nodes would seem too small.
	taken := p.take(made)
	p.reserve(ctx, pre, plan)
	nominations := p.nominations(pre, promised, pod)
	if d.Outcome == core.Preempts && pre.key.Gang {
		sayWith(nominations, said, pod.UID)
	}
	p.sched.waits.Resolve(pre.key, engine.Reserved, engine.Protection, engine.ProtectionEnds)
	if d.Outcome == core.Infeasible {
		p.sched.turns.TurnFailed(pre.key)
		p.sched.evictor.Nominate(ctx, nominations)
		p.sched.waits.ResolveVictims(pre.key)
		p.scheduleRetry(made)
		// The empty node name deletes the pod's earlier nomination.
		return framework.NewPostFilterResultWithNominatedNode(""), made.status(fwk.Unschedulable)
	}
	p.sched.turns.Decided(pre.key)
	if news {
		p.displace(ctx, pre, nodes)
	}
	if d.Outcome == core.Preempts {
		if err := p.evict(ctx, made, taken, nodes, nominations); err != nil {
			return framework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.Unschedulable, "preemption failed: "+err.Error())
		}
	} else {
		p.sched.evictor.Nominate(ctx, nominations)
		p.await(made, nodes)
		p.retryAfterPause(pre)
	}
	if news {
		p.sched.rooms.releaseCrowded(sets.New(slices.Collect(maps.Values(nodes))...), pre.key)
	}
	p.sched.rooms.replanOutdated(pre.key)
	// An empty node name deletes the pod's earlier nomination.
	return p.show(pre.key, pod, promised[pod.UID]), made.status(fwk.Success)
}

// reportGang reports the decision to the members of a gang, unless they will have room soon. It
// returns the reported verdict; the zero Verdict for a single pod.
func (p *Plugin) reportGang(made *cycleDecision) gang.Verdict {
	if !made.pre.key.Gang {
		return gang.Verdict{}
	}
	reason := v1alpha1.ReasonPreempting
	if made.decision.Outcome == core.Infeasible {
		reason = v1alpha1.ReasonUnschedulable
	}
	v := gang.Verdict{Reason: reason, Message: joined(made.decision.Message, made.waitsFor())}
	p.sched.reporter.NoRoom(made.pre.key, v)
	return v
}

// sayWith adds the condition of each member to its nomination, so that one API call writes both. It
// skips the pod in the current cycle, because the framework writes the condition of that pod.
func sayWith(nominations []podstatus.Nomination, said gang.Verdict, inCycle types.UID) {
	for i := range nominations {
		if n := &nominations[i]; n.Pod.UID != inCycle {
			condition := reporter.Condition(n.Pod, said)
			n.Saying = &condition
		}
	}
}

// retryDelay is the minimum delay before a retry that is scheduled for a certain time.
const retryDelay = 200 * time.Millisecond

// scheduleRetry records in the waiting list why a preemptor found no room, so that it is retried
// when these causes end. The framework has no events for these causes.
func (p *Plugin) scheduleRetry(made *cycleDecision) {
	d, pre, waits := &made.decision, &made.pre, p.sched.waits
	missed := false
	if p.exceedsNodes(made) {
		waits.Wait(pre.key, engine.Nodes, made.view.mark)
		return
	}
	p.retryAfterPause(pre)
	if made.view.HasPromised() {
		missed = !waits.Wait(pre.key, engine.Reserved, made.view.mark)
	}
	if d.RetryAt != 0 {
		// A decision assumes that a protection which has not begun begins now. So each decision may
		// compute the same short delay. The minimum delay avoids a busy loop.
		now := p.sched.clock.Now()
		at := engine.OnClock(time.Unix(0, d.RetryAt), now)
		if soonest := now.Add(retryDelay); at.Before(soonest) {
			at = soonest
		}
		if pre.pause == nil || at.Before(pre.pause.Until) {
			waits.WaitUntil(pre.key, engine.ProtectionEnds, at)
		}
	} else if !p.sched.ledger.IsCharged(pre.queue, pre.pods) {
		waits.Gather(pre.key, p.sched.clock.Now().Add(chargeDelay))
	}
	mayBeLifted := slices.ContainsFunc(d.Protected, func(c core.RuleCount) bool { return c.Rule.MayBeLifted() })
	if d.RetryAt != 0 || mayBeLifted {
		missed = !waits.Wait(pre.key, engine.Protection, made.view.mark) || missed
	}
	if missed {
		p.sched.retries.requeue(pre.key)
	}
}

// retryAfterPause schedules a retry at the end of the preemptor's pause; see
// [engine.PreemptionPause]. During the pause, the preemptor preempts nothing and gets no
// reservation, even where terminating pods will free room.
func (p *Plugin) retryAfterPause(pre *preemptor) {
	if pre.pause == nil {
		return
	}
	p.sched.waits.WaitUntil(pre.key, engine.ProtectionEnds, pre.pause.Until)
}

// status returns the status for the pod in the current cycle. For a gang, this status is short,
// because the status of PreFilter already has most of the message.
func (made *cycleDecision) status(code fwk.Code) *fwk.Status {
	said := made.waitsFor()
	if !made.pre.key.Gang {
		said = "preemption: " + joined(made.decision.Message, said)
	}
	if said == "" {
		return fwk.NewStatus(code)
	}
	return fwk.NewStatus(code, said)
}

// waitsFor returns a phrase that names the terminating pods that the preemptor waits for, if it
// fits without victims once they are gone; "" for other outcomes.
func (made *cycleDecision) waitsFor() string {
	const most = 3
	if made.decision.Outcome != core.Waits {
		return ""
	}
	var names []string
	pods := made.leaving(snapshot.Placements(&made.decision))
	for _, pod := range made.related {
		if !slices.ContainsFunc(pods, func(other *corev1.Pod) bool { return other.UID == pod.UID }) {
			pods = append(pods, pod)
		}
	}
	for _, pod := range pods {
		names = append(names, klog.KObj(pod).String()+" on "+pod.Spec.NodeName)
	}
	if len(names) == 0 {
		return ""
	}
	return "waits for " + strings.Join(core.FewNames(names, most), ", ")
}

// joined joins two parts of a message by a separator. Either part may be empty.
func joined(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "; " + second
}

// measure records the outcome of a search for room in the metrics.
func (p *Plugin) measure(made *cycleDecision) {
	if made.repeated {
		return
	}
	p.count(&made.pre, attemptOf(made.decision.Outcome))
	p.sched.metrics.Decided(made.pre.kind(), p.handle.ProfileName(), made.decision.Elapsed)
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
	p.sched.metrics.Attempted(pre.kind(), came, p.handle.ProfileName())
}

func (pre *preemptor) kind() metrics.PreemptorType {
	if pre.key.Gang {
		return metrics.Gang
	}
	return metrics.Pod
}

// These constants bound the delay before the retry of a preemptor whose last victim is gone. The
// delay is needed because the scheduler's cache may still contain the victim: the cache and this
// package learn of a deletion in any order. The delay equals the time since the deletion, so it
// doubles with each retry. It is bounded because each retry that fails costs a cycle, and a busy
// cache may be seconds late.
const (
	leastCacheDelay = 10 * time.Millisecond
	mostCacheDelay  = time.Second
)

func cacheDelay(since time.Duration) time.Duration {
	return min(max(since, leastCacheDelay), mostCacheDelay)
}

// await retries a preemptor when the terminating pods whose room it needs are gone. It retries the
// preemptor again when all terminating pods on its nodes are gone. The filters may also depend on
// terminating pods on other nodes, for example by an affinity term. Only the filters know which of
// these other pods matter. So await retries the preemptor at the end of each of them.
func (p *Plugin) await(made *cycleDecision, nodes map[types.UID]string) {
	key, pods := made.pre.key, made.leaving(nodes)
	uids := make([]string, len(pods))
	for i, pod := range pods {
		uids[i] = string(pod.UID)
	}
	p.sched.waits.WaitForVictims(key, uids, p.shortages(made, pods))
	related := make([]string, len(made.related))
	for i, pod := range made.related {
		related[i] = string(pod.UID)
	}
	p.sched.waits.RetryAtEach(key, related)
	// A pod that has gone since the snapshot causes no further event, so it is handled here.
	for _, pod := range slices.Concat(pods, made.related) {
		now, err := p.sched.index.Pods.Pods(pod.Namespace).Get(pod.Name)
		switch {
		case err != nil || now.UID != pod.UID:
			now := p.sched.clock.Now()
			p.sched.leaving.Gone(pod, now)
			if slices.Contains(p.sched.steps.podDeparted(pod.UID), key) {
				// A retry within the preemptor's own cycle would make it back off, for seconds in a
				// busy queue.
				p.sched.waits.Gather(key, now.Add(cacheDelay(now.Sub(p.sched.leaving.GoneSince(pod.UID, now)))))
			}
		case !p.sched.placements.IsLeaving(now):
			p.sched.departures.stays(pod)
		}
	}
}

// take marks the victims of a decision as gone, so that later decisions use their room. It does
// nothing for decisions without victims.
func (p *Plugin) take(made *cycleDecision) leaving.Taken {
	if made.decision.Outcome != core.Preempts {
		return nil
	}
	taken := p.sched.leaving.Take(byUID(made.victims))
	for _, victim := range made.victims {
		p.sched.cluster.NodeChanged(victim.Spec.NodeName)
	}
	return taken
}

// evict passes a decision to the evictor. The preemptor is gated until the API calls are done.
// Without asynchronous eviction in the profile, the cycle waits for the calls.
func (p *Plugin) evict(ctx context.Context, made *cycleDecision, taken leaving.Taken, nodes map[types.UID]string, nominations []podstatus.Nomination) error {
	pre := made.pre
	order := eviction.Order{
		Decision:    made.decision,
		Victims:     byUID(made.victims),
		Nominations: nominations,
		Groups:      p.sched.index.GroupsOf(made.victims),
		Seen:        made.view.seen,
		Profile:     p.handle.ProfileName(),
	}
	order.Surplus = p.surplusIn(made, order.Groups)
	p.nameClasses(&order, &made.pre)
	p.await(made, nodes)
	p.sched.unbound.Preempts(pre.key)
	p.sched.engine.Crashes.Preempts(pre.key, pauses.CrashLimitOf(&p.args.Retry), p.sched.clock.Now())
	logging.Happened(p.logOfPreemptor(ctx, pre.key), "Preempting", made.decision.Message, "victims", len(order.Victims))
	ended := p.follow(made)
	if !*p.args.Asynchronous {
		return p.evictNow(ctx, &pre, order, taken, ended)
	}
	p.evictSoon(ctx, pre, order, taken, ended)
	return nil
}

// evictNow passes an order to the evictor, waits for the API calls and returns their error. The
// preemptor need not be gated, because its cycle lasts until the calls are done.
func (p *Plugin) evictNow(ctx context.Context, pre *preemptor, order eviction.Order, taken leaving.Taken, ended func(eviction.Outcome)) error {
	outcome := <-p.sched.evictor.Evict(ctx, order, p)
	ended(outcome)
	p.sched.pauses.PreemptionEnded(pre.key, &outcome)
	if outcome.Err != nil {
		p.evictionFailed(pre, order.Victims, taken, outcome.Begun)
	} else {
		p.sched.leaving.Over(taken, sets.KeySet(taken), p.sched.clock.Now())
	}
	if delay := p.sched.pauses.BackOff(pre.key, outcome, p.args.Retry); outcome.Err != nil {
		// The retry must come after the current cycle.
		p.sched.waits.WaitUntil(pre.key, engine.RetryDue, p.sched.clock.Now().Add(max(delay, p.args.Retry.InitialBackoff.Duration)))
	}
	return outcome.Err
}

// evictSoon passes an order to the evictor and returns before the API calls are done. A goroutine
// handles the outcome.
func (p *Plugin) evictSoon(ctx context.Context, pre preemptor, order eviction.Order, taken leaving.Taken, ended func(eviction.Outcome)) {
	running := p.sched.waits.StartEviction(pre.key)
	// The evictions outlast the cycle, so they must not use its context.
	outcomes := p.sched.evictor.Evict(context.WithoutCancel(ctx), order, p)
	p.sched.executions.follow(outcomes, func(outcome eviction.Outcome) {
		ended(outcome)
		p.sched.pauses.PreemptionEnded(pre.key, &outcome)
		p.evicted(ctx, &pre, &order, taken, outcome, running)
	})
}

// evicted handles the outcome of an order whose preemptor is gated. ctx is the context of the
// cycle, which may still run. There are three cases:
//
//   - The calls failed: the reservations are released, and the preemptor is retried after its
//     backoff.
//   - All victims are terminating: the preemptor waits until they are gone, or for a maximum time.
//     A cycle before that would fail, and would cost an API call and an event.
//   - In all other cases, for example if the order is no longer wanted, the preemptor is retried at
//     once.
func (p *Plugin) evicted(ctx context.Context, pre *preemptor, order *eviction.Order, taken leaving.Taken, outcome eviction.Outcome, running *engine.Eviction) {
	if outcome.Err != nil {
		// The framework nominates the pod at the end of the cycle. Wait for that, because
		// evictionFailed deletes the nomination.
		if over := ctx.Done(); over != nil {
			<-over
		}
		p.evictionFailed(pre, order.Victims, taken, outcome.Begun)
	} else {
		p.sched.leaving.Over(taken, sets.KeySet(taken), p.sched.clock.Now())
	}
	if delay := p.sched.pauses.BackOff(pre.key, outcome, p.args.Retry); delay > 0 {
		p.sched.waits.WaitUntil(pre.key, engine.Backoff, p.sched.clock.Now().Add(delay))
		p.sched.waits.EndEviction(running)
		return
	}
	p.sched.waits.EndEviction(running)
	p.sched.rooms.reviewSharedNodes(pre.key)
	if outcome.Err == nil && p.Wants(order) && p.sched.waits.LeaveToVictims(pre.key, p.sched.clock.Now()) {
		return
	}
	p.sched.releases.review(pre.key)
}

// evictionFailed releases the reservations of a preemptor whose order failed. Victims whose
// eviction has not begun keep running. Other preemptors may count their room as free soon, so
// evictionFailed retries these preemptors.
func (p *Plugin) evictionFailed(pre *preemptor, victims map[types.UID]*corev1.Pod, taken leaving.Taken, begun sets.Set[types.UID]) {
	// Check the pods, because another workload may have the preemptor's name by now.
	if slices.ContainsFunc(pre.pods, p.sched.index.AwaitsPlace) {
		p.sched.waits.ResolveVictims(pre.key)
	}
	// Release the reservations pod by pod. Newer members of the gang, and pods that have changed
	// their gang, keep their reservations.
	uids := make([]engine.UID, len(pre.pods))
	for i, pod := range pre.pods {
		uids[i] = string(pod.UID)
	}
	p.sched.steps.step(engine.PodsRelease{Key: pre.key, Pods: uids})
	// Delete the nominations too, because they may have reached the API after the reservations
	// ended.
	own := *pre
	own.pods = slices.DeleteFunc(slices.Clone(pre.pods), func(pod *corev1.Pod) bool { return p.sched.reserved.Has(string(pod.UID)) })
	for _, pod := range own.pods {
		p.handle.DeleteNominatedPodIfExists(pod)
	}
	p.sched.evictor.Nominate(context.Background(), p.nominations(&own, nil, nil))
	p.sched.leaving.Spare(taken, begun)
	p.sched.leaving.Over(taken, begun, p.sched.clock.Now())
	for uid, victim := range victims {
		if !begun.Has(uid) {
			p.sched.departures.stays(victim)
		}
	}
}

func byUID(pods []*corev1.Pod) map[types.UID]*corev1.Pod {
	out := make(map[types.UID]*corev1.Pod, len(pods))
	for _, pod := range pods {
		out[pod.UID] = pod
	}
	return out
}

// leaving returns the pods that must be gone before a placement is possible: its victims, and the
// terminating pods on its nodes. nodes maps pods to their nodes in the placement.
func (made *cycleDecision) leaving(nodes map[types.UID]string) []*corev1.Pod {
	return slices.Concat(made.victims, made.view.Disrupted(sets.New(slices.Collect(maps.Values(nodes))...)))
}

// shortages returns the reasons why the preemptor has no room yet, on its nodes
// ([core.Snapshot.Shortages]) or below the limit of its queue. At a limit, every victim that is a
// single pod must terminate, because otherwise the core would have reprieved it. This stays so when
// the preemptor is retried, because then the pod is no victim of the decision. Victims that are not
// bound are left out: they return to the queue, and no informer reports that.
func (p *Plugin) shortages(made *cycleDecision, pods []*corev1.Pod) []workload.Shortage {
	shortages := made.view.Cluster.Shortages(&made.decision)
	if made.pre.atLimit {
		needed := p.sched.waits.NeededVictims(made.pre.key)
		for i := range made.decision.Victims {
			if of := made.decision.Victims[i].Pods; len(of) == 1 {
				needed = append(needed, of[0].UID)
			}
		}
		shortages = append(shortages, workload.Requires(needed...)...)
	}
	for _, pod := range pods {
		now, err := p.sched.index.Pods.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || now.UID != pod.UID || now.Spec.NodeName == "" {
			for i := range shortages {
				delete(shortages[i].Pods, string(pod.UID))
			}
		}
	}
	return shortages
}
