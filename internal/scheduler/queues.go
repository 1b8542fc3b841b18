package scheduler

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// queueChanges follows Queues, and the namespaces and PriorityClasses that determine their use. The
// informers call it, and the main loop calls expire. [ledger] holds the queues and answers
// questions about them. It is safe for concurrent use.
type queueChanges struct {
	index            *clusterIndex
	ledger           *ledger
	quotas           *queue.Ledger
	cluster          *snapshot.Cache
	turns            *admission.List
	clock            clock.WithTicker
	metrics          *metrics.Metrics
	retries          *retries
	releases         *releases
	victimPriorities *victimPriorities
}

// minRuntime returns the longest protection that min-runtimes give a running group. If no queue
// sets a min-runtime, the arguments of the members' profile count. The preemptor's profile does not
// matter.
func (b *ledger) minRuntime(g *gang.Group, members *gang.Members) time.Duration {
	for _, pod := range slices.Concat(members.Assigned, members.Pending) {
		if args := b.index.profiles.Of(pod.Spec.SchedulerName); args != nil && !*args.WorkloadAware {
			// In such a profile, each member is protected separately.
			return 0
		}
	}
	return b.protection(g, members, &core.MinRuntime{})
}

// protection returns the longest protection that min-runtimes give a running group. otherwise has
// the min-runtimes for members whose profile is not known.
func (b *ledger) protection(g *gang.Group, members *gang.Members, otherwise *core.MinRuntime) time.Duration {
	if of := b.index.minRuntimeOfMembers(members); of != nil {
		otherwise = of
	}
	return b.quotas.Protection(b.queueOfGroup(g), queue.MinRuntimes{
		Preempt: time.Duration(otherwise.Preempt), Reclaim: time.Duration(otherwise.Reclaim), FromLeaf: otherwise.Resolve == core.ResolveQueue,
	})
}

// orphaned returns the reason why a group's running members do not count for the queue that the
// group names. The Verdict is zero if they do count. before is true if this reason was reported
// already.
func (b *ledger) orphaned(g *gang.Group, before bool) gang.Verdict {
	work := b.workOfGroup(g)
	return b.quotas.Orphaned(b.quotas.NameFor(work), before)
}

// set records a Queue that was created or changed. The caller must not change the Queue afterwards.
// Any goroutine may call it.
func (qc *queueChanges) set(q *v1alpha1.Queue) {
	first, confining := qc.quotas.SetQueue(q)
	if first {
		all, err := qc.index.pods.List(labels.Everything())
		if err != nil {
			klog.Background().Error(err, "List pods to charge them to their queues")
		}
		for _, pod := range all {
			qc.ledger.recharge(pod)
		}
		qc.quotas.AllCharged()
		qc.cluster.Invalidate()
		qc.retryNamed(all)
	}
	if confining {
		qc.rechargeWaiting()
	}
	qc.changed()
}

// retryNamed retries the pending pods that name a queue. It is called for the first Queue: until
// then, the scheduler ordered all pods by priority alone.
func (qc *queueChanges) retryNamed(pods []*corev1.Pod) {
	keys := sets.New[workload.Key]()
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && qc.ledger.queueOf(pod) != "" {
			keys.Insert(qc.index.keyOf(pod))
		}
	}
	for key := range keys {
		qc.retries.now(key)
	}
}

// changed retries all workloads that a change of a queue may affect.
func (qc *queueChanges) changed() {
	qc.victimPriorities.review()
	qc.releases.disallowed()
	qc.retries.ended(engine.Queue)
	qc.retries.ended(engine.Access)
	qc.retries.ended(engine.Protection)
}

// isDisallowed reports whether a workload's queue no longer allows the workload's reservations.
// Possible reasons are that the work is in another queue, the queue is unusable, or a limit is too
// low. For a workload that waits for terminating pods, these pods do not count as usage. A gang
// with a plan does not wait for terminating pods.
func (b *ledger) isDisallowed(key workload.Key) bool {
	if !b.asksForQueues() {
		return false
	}
	reserved := b.reserved.Of(key)
	if len(reserved) == 0 {
		return false
	}
	name := reserved[0].Queue
	for _, r := range reserved {
		// The informer may have a newer version of the pod than the reservation.
		if now, ok := b.index.podOf(podKey(podIn(r))); ok {
			if c := b.claimOf(now); c.Bar != (gang.Verdict{}) || name != "" && b.quotas.Used() && c.Queue != name {
				return true
			}
		}
	}
	if name == "" || !b.quotas.Used() {
		return false
	}
	if b.quotas.Check(name) != (gang.Verdict{}) {
		return true
	}
	return b.quotas.IsLimited(name) && b.exceedsLimits(key, reserved)
}

// exceedsLimits reports whether the reservations of a workload together exceed a limit of its
// queue.
func (b *ledger) exceedsLimits(key workload.Key, reserved []*engine.Reservation) bool {
	requests, own := make([]queue.Amounts, len(reserved)), make(sets.Set[types.UID], len(reserved))
	for i, r := range reserved {
		requests[i] = b.quotas.Request(podIn(r))
		own.Insert(types.UID(r.UID))
	}
	var gone []types.UID
	if !key.Gang || b.gangs.Planned(key) == 0 {
		gone = b.departing()
	}
	// Some pods of the workload may have been assumed since its reservations were read. They must
	// not count twice, so leave them out of the others.
	others := slices.DeleteFunc(b.placedOrReserved(func(r *engine.Reservation) bool { return r.KeepsFrom(reserved[0].Standing) }), own.Has)
	n, _ := b.quotas.Room(reserved[0].Queue, requests, others, gone)
	return n < len(requests)
}

// askQueue calls question, which checks the queue of a workload, and returns its verdict. If the
// verdict blocks the workload, the cause is added to the waiting list. If the cause ends during the
// call, askQueue calls question again, up to a few times. After that, the workload is retried a
// moment later.
func (gs *gates) askQueue(key workload.Key, c engine.Cause, question func() gang.Verdict) gang.Verdict {
	const most = 3
	for n := 1; ; n++ {
		mark := gs.waits.Mark()
		v := question()
		if v == (gang.Verdict{}) {
			gs.waits.Resolve(key, c)
			return v
		}
		if gs.waits.Wait(key, c, mark) {
			return v
		}
		if n == most {
			gs.waits.Gather(key, gs.clock.Now().Add(chargeDelay))
			return v
		}
	}
}

// charge charges a pod to its queue in the quota ledger, and returns the change.
func (b *ledger) charge(pod *corev1.Pod) queue.Change {
	if !b.quotas.Used() {
		return queue.Change{}
	}
	key, isMember := b.index.groupOf(pod)
	var of queue.Membership
	if isMember {
		of = b.index.membership(key)
	}
	change := b.chargeTo(pod, of)
	if isMember && change.Any {
		b.updateGroupState(key)
	}
	return change
}

// chargeTo charges a pod to its current queue. It reads the current queue while it holds a lock, so
// that the last of several concurrent calls stores the newest queue.
func (b *ledger) chargeTo(pod *corev1.Pod, of queue.Membership) queue.Change {
	b.charging.Lock()
	defer b.charging.Unlock()
	if pod.Spec.NodeName == "" && b.index.derived.Hold(pod) != (gang.Verdict{}) {
		// Until the group of a pod is known, the pod requests nothing.
		return b.quotas.Forget(pod.UID)
	}
	if b.isOnMissingNode(pod) {
		return b.quotas.Forget(pod.UID)
	}
	of.Overdue = b.leaving.IsOverdue(pod.UID) || b.placements.leavesLate(pod)
	return b.quotas.ChargeMember(pod, b.queueOf(pod), of)
}

// membership returns the group of pods and whether the group is evicted as a whole.
func (r *clusterIndex) membership(key types.NamespacedName) queue.Membership {
	g, ok := r.groups.Group(key)
	return queue.Membership{Group: key, Whole: ok && g.Whole}
}

// updateGroupState updates the state of a group in the quota ledger. The requests of pending
// members count as demand only while the group can be placed.
func (b *ledger) updateGroupState(key types.NamespacedName) {
	if !b.quotas.Pends(key) {
		return
	}
	// The lock serializes the calls, so the last call stores the newest state.
	b.groupStates.Lock()
	defer b.groupStates.Unlock()
	g, ok := b.index.groups.Group(key)
	if !ok {
		g = nil
	}
	members := b.placements.members(key)
	now := queue.GroupState{Held: gang.Gate(key, g, &members) != gang.Verdict{}}
	if g != nil {
		now.Held = now.Held || b.claimOfGroup(g, &members).Confined
		now.Need = max(g.MinCount-members.Placed(), 0)
	}
	b.quotas.SetGroupState(key, now)
}

// chargeDelay is the delay before the retry of a preemptor whose requests the quota ledger did not
// have at its decision.
const chargeDelay = 200 * time.Millisecond

// isCharged reports whether the quota ledger has the requests of a preemptor. Without them, the
// queue gets no share for the preemptor. The scheduler's queue may learn of a pod before the ledger
// does.
func (b *ledger) isCharged(pre *preemptor) bool {
	if pre.queue == "" || !b.quotas.Used() {
		return true
	}
	return !slices.ContainsFunc(pre.pods, func(pod *corev1.Pod) bool { return b.index.exists(pod) && !b.quotas.Knows(pod.UID) })
}

func (b *ledger) chargeGroup(key types.NamespacedName) (all queue.Change) {
	if !b.quotas.Used() {
		return all
	}
	members := b.index.lister.Members(key)
	for _, pods := range [...][]*corev1.Pod{members.Assigned, members.Pending, members.Terminating} {
		for _, pod := range pods {
			all = all.Add(b.recharge(pod))
		}
	}
	b.updateGroupState(key)
	return all
}

// recharge charges the current version of a pod to its queue. Goroutines other than the handler of
// the pod informer must use it, because a listed pod may be outdated. If the handler charges the
// pod during the call, recharge charges it again.
func (b *ledger) recharge(pod *corev1.Pod) (all queue.Change) {
	for b.quotas.Used() {
		now, err := b.index.pods.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || now.UID != pod.UID {
			return all.Add(b.quotas.Forget(pod.UID))
		}
		all = all.Add(b.charge(now))
		if after, err := b.index.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && after == now {
			break
		}
	}
	return all
}

// withinLimits removes from a preemptor the pods that do not fit below the limits of its queue. If
// too few pods remain, it returns a verdict that names the limit. Pods in gone do not count as
// usage. Reservations of less important work count only if the preemptor also fits beside them.
func (b *ledger) withinLimits(pre *preemptor, gone ...types.UID) gang.Verdict {
	if !b.quotas.Used() || pre.queue == "" {
		return gang.Verdict{}
	}
	for _, pod := range pre.pods {
		if !b.quotas.Knows(pod.UID) {
			// The scheduler's queue learned of the pod before the ledger did. Charge it, because
			// its reservation must count for the next pod.
			b.recharge(pod)
		}
	}
	if !b.quotas.IsLimited(pre.queue) {
		// Summing up all reservations would take longer than all other checks of a pod.
		return gang.Verdict{}
	}
	need := max(pre.minCount, 1)
	n, over := b.roomBeside(pre, b.reservedByOthers(pre), gone)
	if n < need && pre.minCount > 0 {
		if n, over = b.roomBeside(pre, b.reservedAbove(pre), gone); n > need {
			// Allow only the needed members, because reservations of other work must not be
			// released for surplus members.
			n = need
		}
	}
	if n < need {
		return gang.Verdict{Reason: v1alpha1.ReasonQueueLimit, Message: over.Sentence()}
	}
	pre.pods = pre.pods[:n]
	return gang.Verdict{}
}

// roomBeside returns how many pods of a preemptor fit below the limits of its queue. The pods in
// the second argument count as usage, and the pods in gone do not. It also returns the limit that
// blocks the next pod.
func (b *ledger) roomBeside(pre *preemptor, promised, gone []types.UID) (int, *queue.Over) {
	requests := make([]queue.Amounts, len(pre.pods))
	for i, pod := range pre.pods {
		requests[i] = queue.RequestOf(pod)
	}
	return b.quotas.Room(pre.queue, requests, promised, gone)
}

// reservedByOthers returns the assumed pods, and the pods of other workloads that have
// reservations.
func (b *ledger) reservedByOthers(pre *preemptor) []types.UID {
	return b.placedOrReserved(func(r *engine.Reservation) bool { return !b.index.owns(pre, podIn(r)) })
}

func (b *ledger) reservedAbove(pre *preemptor) []types.UID {
	return b.placedOrReserved(func(r *engine.Reservation) bool {
		return r.KeepsFrom(pre.standing()) && !b.index.owns(pre, podIn(r))
	})
}

// overtakesAtLimit reports whether a preemptor does not fit below the limits of its queue together
// with all reservations of other workloads. If so, only the reservations that the preemptor must
// respect count.
func (b *ledger) overtakesAtLimit(pre *preemptor) bool {
	if pre.queue == "" || pre.minCount == 0 || b.reserved.Empty() || !b.quotas.IsLimited(pre.queue) {
		return false
	}
	n, _ := b.roomBeside(pre, b.reservedByOthers(pre), nil)
	return n < pre.minCount
}

// atLimit makes the decision for a preemptor that the limit of its queue blocks. The preemptor may
// preempt less important work of that queue. If that does not help, atLimit returns the verdict
// without a decision. The preemptor then also waits for the end of protections of that work.
func (p *Plugin) atLimit(ctx context.Context, pre preemptor, v gang.Verdict) (*cycleDecision, gang.Verdict, error) {
	if v.Reason != v1alpha1.ReasonQueueLimit || pre.never || pre.minCount == 0 {
		return nil, v, nil
	}
	pre.atLimit, pre.pods = true, pre.pods[:pre.minCount]
	made, err := p.decide(ctx, pre)
	if err != nil {
		return nil, v, err
	}
	if made.decision.Outcome == core.Infeasible {
		p.measure(made)
		p.record(made)
		p.sched.waits.Resolve(pre.key, engine.Reserved, engine.Protection, engine.ProtectionEnds)
		p.scheduleRetry(made)
		if made.decision.RetryAt != 0 || pre.pause != nil {
			v.Message = joined(v.Message, made.decision.Message)
		}
		return nil, v, nil
	}
	// Check the limits again. The limit may be on a resource that no node has, and may count pods
	// that are not in the snapshot.
	gone := p.sched.ledger.departing()
	for _, victim := range made.victims {
		gone = append(gone, victim.UID)
	}
	if p.sched.ledger.withinLimits(&pre, gone...) != (gang.Verdict{}) {
		return nil, v, nil
	}
	if made.decision.Outcome != core.Preempts {
		// The decision has no victims, so the room below the limit comes from pods that are
		// terminating already.
		made.decision.Message = v.Message
	}
	return made, v, nil
}

// cutToFairShare removes surplus members that exceed the fair share of the queue from the end of a
// gang's plan. It does so only while work of other queues waits for turns, because that work would
// reclaim the room.
func (qc *queueChanges) cutToFairShare(pre *preemptor, plan []engine.Assignment) []engine.Assignment {
	least := max(pre.minCount, 1)
	if pre.queue == "" || len(plan) <= least || !qc.quotas.Used() || !qc.turns.OthersWait(pre.queue, qc.clock.Now()) {
		return plan
	}
	standing := qc.quotas.Snapshot(qc.quotas.Resources())
	if standing == nil {
		return plan
	}
	asked := make(map[engine.UID]queue.Amounts, len(pre.pods))
	for _, pod := range pre.pods {
		asked[string(pod.UID)] = queue.RequestOf(pod)
	}
	requests := make([]queue.Amounts, len(plan))
	for i, seat := range plan {
		requests[i] = asked[seat.Member]
	}
	n := standing.Within(pre.queue, requests, qc.quotas.Unplaced(qc.ledger.reservedByOthers(pre)), kindsOf(pre.pods)...)
	return plan[:max(n, least)]
}

func kindsOf(pods []*corev1.Pod) []string {
	kinds := sets.New[string]()
	for _, pod := range pods {
		kinds.Insert(queue.KindOf(pod))
	}
	return sets.List(kinds)
}

// blockedByQueue returns the verdict if the queue of a single pod blocks it; the zero Verdict
// otherwise. Either the pod may not use the queue, or a limit is reached.
func (gs *gates) blockedByQueue(pod *corev1.Pod) gang.Verdict {
	if v := gs.queueBlocks(pod); v != (gang.Verdict{}) || !gs.quotas.Used() {
		return v
	}
	key := gs.index.keyOf(pod)
	return gs.askQueue(key, engine.Queue, func() gang.Verdict {
		c := gs.ledger.claimOf(pod)
		if c.Bar != (gang.Verdict{}) {
			return c.Bar
		}
		return gs.ledger.withinLimits(&preemptor{
			key: key, uid: pod.UID, queue: c.Queue, priority: gs.index.priorityOf(pod), minCount: 1, pods: []*corev1.Pod{pod},
		})
	})
}

// placedOrReserved returns the pods that have a place, but no node in the API yet. These are all
// assumed pods, and the pods of the reservations that the function counts accepts.
func (b *ledger) placedOrReserved(counts func(*engine.Reservation) bool) []types.UID {
	// For a moment, a pod that is being placed is assumed and also has its reservation.
	assumed := b.records.Assumed()
	out := make(sets.Set[types.UID], len(assumed))
	for uid := range assumed {
		out.Insert(types.UID(uid))
	}
	for _, reserved := range b.reserved.Nodes() {
		for _, r := range reserved {
			if counts(r) {
				out.Insert(types.UID(r.UID))
			}
		}
	}
	return out.UnsortedList()
}
