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

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/reservation"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Board is where the books of the queues are kept. What follows Queues tells [Hub.QueueSet] and
// [Hub.QueueDeleted].
func (b *books) Board() *queue.Board { return b.board }

// MinRuntime returns the longest that min-runtimes protect a group once it runs. Where no queue has
// a setting, the arguments of the profile that schedules the members count, whichever profile the
// preemptor has.
func (b *books) MinRuntime(g *gang.Group, members *gang.Members) time.Duration {
	for _, pod := range slices.Concat(members.Assigned, members.Pending) {
		if args := b.profiles.of(pod.Spec.SchedulerName); args != nil && !*args.WorkloadAware {
			// The members are protected one by one.
			return 0
		}
	}
	return b.protection(g, members, &core.MinRuntime{})
}

// protection returns the longest that min-runtimes protect a group once it runs; otherwise counts
// for members of no profile.
func (b *books) protection(g *gang.Group, members *gang.Members, otherwise *core.MinRuntime) time.Duration {
	if of := b.minRuntimeOfMembers(members); of != nil {
		otherwise = of
	}
	return b.board.Protection(b.queueOfGroup(g), queue.MinRuntimes{
		Preempt: time.Duration(otherwise.Preempt), Reclaim: time.Duration(otherwise.Reclaim), FromLeaf: otherwise.Resolve == core.ResolveQueue,
	})
}

// Orphaned says why members that run are not in the queue that their group names; the zero Verdict where they are.
// Before is whether that was said already.
func (b *books) Orphaned(g *gang.Group, before bool) gang.Verdict {
	work := b.workOfGroup(g)
	return b.board.Orphaned(b.board.NameFor(work), before)
}

// QueueSet takes in a Queue that has come or changed, and must not be changed from now on. Any goroutine may call it.
func (h *Hub) QueueSet(q *v1alpha1.Queue) {
	first, confining := h.board.SetQueue(q)
	if first {
		all, err := h.pods.List(labels.Everything())
		if err != nil {
			klog.Background().Error(err, "List pods to charge them to their queues")
		}
		for _, pod := range all {
			h.chargeAgain(pod)
		}
		h.board.AllCharged()
		h.cluster.Invalidate()
		h.wakeNamed(all)
	}
	if confining {
		h.chargeAnew()
	}
	h.queuesChanged()
}

// wakeNamed lets pending pods try again that name a queue: they went by priority as long as there was none.
func (h *Hub) wakeNamed(pods []*corev1.Pod) {
	keys := sets.New[workload.Key]()
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && h.queueOf(pod) != "" {
			keys.Insert(h.keyOf(pod))
		}
	}
	for key := range keys {
		h.wake(key)
	}
}

// QueueDeleted drops a Queue. Any goroutine may call it.
func (h *Hub) QueueDeleted(name string) {
	if h.board.DeleteQueue(name) {
		h.chargeAnew()
	}
	h.queuesChanged()
}

// queuesChanged lets all workloads try again for which other queues may make a difference.
func (h *Hub) queuesChanged() {
	h.takeBackBarred()
	h.ended(admission.Queue)
	h.ended(admission.Access)
	h.ended(admission.Protection)
}

// takeBackBarred takes back what has been promised to work that its queue does not let have it any more: others would wait for
// that room as long as the work does.
func (h *Hub) takeBackBarred() { h.takeBackAmong(h.reserved.Keys(), "its queue has changed") }

func (h *Hub) takeBackAmong(keys []workload.Key, why string) {
	h.wanted.askAnew()
	for _, key := range keys {
		// While calls are under way for a workload, it is looked at when they are over.
		if !h.waits.Evicting(key) && h.isBarred(key) {
			h.displace(key, why)
		}
	}
}

// isBarred reports whether a workload has been promised room that its queue does not let it have: the work is in another
// queue now, the queue cannot be used, or a limit has become too low for it: even when all have gone that are on their way out, if
// it waits for that, as what has been planned already does not.
func (b *books) isBarred(key workload.Key) bool {
	if !b.asksForQueues() {
		return false
	}
	reserved := b.reserved.Of(key)
	if len(reserved) == 0 {
		return false
	}
	name := reserved[0].Queue
	for _, r := range reserved {
		// Newer than what the reservation was made with.
		if now, ok := b.podOf(podKey(r.Pod.GetPod())); ok {
			if c := b.claimOf(now); c.Bar != (gang.Verdict{}) || name != "" && b.board.Used() && c.Queue != name {
				return true
			}
		}
	}
	if name == "" || !b.board.Used() {
		return false
	}
	if b.board.Check(name) != (gang.Verdict{}) {
		return true
	}
	return b.board.IsLimited(name) && b.exceedsLimits(key, reserved)
}

// exceedsLimits reports whether the limits of its queue leave a workload no room for all that it has been promised.
func (b *books) exceedsLimits(key workload.Key, reserved []*reservation.Reservation) bool {
	requests, own := make([]queue.Amounts, len(reserved)), make(sets.Set[types.UID], len(reserved))
	for i, r := range reserved {
		requests[i] = b.board.Request(r.Pod.GetPod())
		own.Insert(r.UID)
	}
	var gone []types.UID
	if !key.Gang || b.registry.Planned(nameOf(key)) == 0 {
		gone = b.departing()
	}
	// Members may have been placed since the promise was read. They are among the requests.
	others := slices.DeleteFunc(b.promised(func(r *reservation.Reservation) bool { return r.KeepsFrom(reserved[0].Standing) }), own.Has)
	n, _ := b.board.Room(reserved[0].Queue, requests, others, gone)
	return n < len(requests)
}

// ask asks what a queue has against a workload, which waits for that to change, or rather for the end of a cause. Where that has
// ended meanwhile, it asks again.
func (h *Hub) ask(key workload.Key, c admission.Cause, question func() gang.Verdict) gang.Verdict {
	for {
		mark := h.waits.Mark()
		v := question()
		if v == (gang.Verdict{}) {
			h.waits.Resolve(key, c)
			return v
		}
		if h.waits.Wait(key, c, mark) {
			return v
		}
	}
}

// charge has a pod count for its queue, and returns what has changed with that.
func (b *books) charge(pod *corev1.Pod) queue.Change {
	if !b.board.Used() {
		return queue.Change{}
	}
	key, isMember := b.groupOf(pod)
	var of queue.Membership
	if isMember {
		of = b.membership(key)
	}
	change := b.chargeTo(pod, of)
	if isMember && change.Any {
		b.tellGroupState(key)
	}
	return change
}

// chargeTo has a pod count for its queue as that is now. Of several at a time, the one that has looked last has the last word.
func (b *books) chargeTo(pod *corev1.Pod, of queue.Membership) queue.Change {
	b.charging.Lock()
	defer b.charging.Unlock()
	if pod.Spec.NodeName == "" && b.derived.Hold(pod) != (gang.Verdict{}) {
		// It asks for nothing before it is known what it belongs to.
		return b.board.Forget(pod.UID)
	}
	of.Overdue = b.leaving.isOverdue(pod.UID)
	return b.board.ChargeMember(pod, b.queueOf(pod), of)
}

// membership is how members of a group count.
func (r *roster) membership(key types.NamespacedName) queue.Membership {
	g, ok := r.groups.Group(key)
	return queue.Membership{Group: key, Whole: ok && g.Whole}
}

// tellGroupState tells the books how a group stands: what its pending members ask for counts once they can be placed.
func (b *books) tellGroupState(key types.NamespacedName) {
	if !b.board.Pends(key) {
		return
	}
	// Of several at a time, the one that has looked last has the last word.
	b.groupStates.Lock()
	defer b.groupStates.Unlock()
	g, ok := b.groups.Group(key)
	if !ok {
		g = nil
	}
	members := b.members(key)
	now := queue.GroupState{Held: gang.Gate(key, g, &members) != gang.Verdict{}}
	if g != nil {
		now.Held = now.Held || b.claimOfGroup(g, &members).Confined
		now.Need = max(g.MinCount-members.Placed(), 0)
	}
	b.board.SetGroupState(key, now)
}

// chargeDelay is when a preemptor is tried again that was decided on before the books knew of it.
const chargeDelay = 200 * time.Millisecond

// isCharged reports whether the books know what a preemptor asks for. Its queue has no share of that before; the
// scheduler's queue may hear of a pod first.
func (b *books) isCharged(pre *preemptor) bool {
	if pre.queue == "" || !b.board.Used() {
		return true
	}
	return !slices.ContainsFunc(pre.pods, func(pod *corev1.Pod) bool { return b.exists(pod) && !b.board.Knows(pod.UID) })
}

// chargeGroup has the members of a group count for its queue, and returns what has changed with that.
func (b *books) chargeGroup(key types.NamespacedName) (all queue.Change) {
	if !b.board.Used() {
		return all
	}
	members := b.lister.Members(key)
	for _, pods := range [...][]*corev1.Pod{members.Assigned, members.Pending, members.Terminating} {
		for _, pod := range pods {
			all = all.Add(b.chargeAgain(pod))
		}
	}
	b.tellGroupState(key)
	return all
}

// chargeAgain has a pod count for its queue as it is now, on a goroutine that is not told of pods: it may have changed or
// gone since it was listed, and the informer's handler may have been here before.
func (b *books) chargeAgain(pod *corev1.Pod) (all queue.Change) {
	for b.board.Used() {
		now, err := b.pods.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || now.UID != pod.UID {
			return all.Add(b.board.Forget(pod.UID))
		}
		all = all.Add(b.charge(now))
		if after, err := b.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && after == now {
			break
		}
	}
	return all
}

// withinLimits cuts the pods of a preemptor down to those that the limits of its queue leave room for, once some have gone. It
// says what is in the way where that is not enough. What has been promised and is not kept from the preemptor, as what less important work of
// its queue has, never is: it counts as long as there is room for both.
func (b *books) withinLimits(pre *preemptor, gone ...types.UID) gang.Verdict {
	if !b.board.Used() || pre.queue == "" {
		return gang.Verdict{}
	}
	for _, pod := range pre.pods {
		if !b.board.Knows(pod.UID) {
			// The scheduler's queue has heard of it first. What it is promised is to count for those after it.
			b.chargeAgain(pod)
		}
	}
	if !b.board.IsLimited(pre.queue) {
		// To add up what is promised takes longer than all else that is asked for a pod.
		return gang.Verdict{}
	}
	need := max(pre.minCount, 1)
	n, over := b.roomBeside(pre, b.promisedToOthers(pre), gone)
	if n < need && pre.minCount > 0 {
		if n, over = b.roomBeside(pre, b.promisedBefore(pre), gone); n > need {
			// None of the surplus is worth a promise.
			n = need
		}
	}
	if n < need {
		return gang.Verdict{Reason: v1alpha1.ReasonQueueLimit, Message: over.Sentence()}
	}
	pre.pods = pre.pods[:n]
	return gang.Verdict{}
}

// roomBeside is for how many pods of a preemptor the limits of its queue leave room beside what is promised, once some have gone.
func (b *books) roomBeside(pre *preemptor, promised, gone []types.UID) (int, *queue.Over) {
	requests := make([]queue.Amounts, len(pre.pods))
	for i, pod := range pre.pods {
		requests[i] = queue.RequestOf(pod)
	}
	return b.board.Room(pre.queue, requests, promised, gone)
}

// promisedToOthers is all that is promised to others than a preemptor, and promisedBefore what of it the preemptor has to leave.
func (b *books) promisedToOthers(pre *preemptor) []types.UID {
	return b.promised(func(r *reservation.Reservation) bool { return !b.owns(pre, r.Pod.GetPod()) })
}

func (b *books) promisedBefore(pre *preemptor) []types.UID {
	return b.promised(func(r *reservation.Reservation) bool {
		return r.KeepsFrom(pre.standing()) && !b.owns(pre, r.Pod.GetPod())
	})
}

// overtakesAtLimit reports whether the limits of its queue leave a preemptor no room beside what others are promised that it need not
// leave.
func (b *books) overtakesAtLimit(pre *preemptor) bool {
	if pre.queue == "" || pre.minCount == 0 || b.reserved.Empty() || !b.board.IsLimited(pre.queue) {
		return false
	}
	n, _ := b.roomBeside(pre, b.promisedToOthers(pre), nil)
	return n < pre.minCount
}

// takeBackBelow takes back what less important work has been promised and the limits of its queue have no room for any more, because
// a workload of a standing takes it.
func (h *Hub) takeBackBelow(standing workload.Standing) {
	if standing.Queue == "" || !h.board.IsLimited(standing.Queue) {
		return
	}
	if below := h.reserved.Below(standing); len(below) > 0 {
		h.takeBackAmong(below, "more important work takes what the limit of its queue leaves")
	}
}

// atLimit decides for a preemptor that the limit of its queue keeps out as things are: less important work of that queue may go
// for it. It returns nil where that is no help, and what is in the way then: the preemptor waits for the end of what protects
// those others as well.
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
		p.hub.waits.Resolve(pre.key, admission.Reserved, admission.Protection, admission.ProtectionEnds)
		p.tryLater(made)
		if made.decision.RetryAt != 0 || pre.pause != nil {
			v.Message = joined(v.Message, made.decision.Message)
		}
		return nil, v, nil
	}
	// The limit may name what no node has, and count pods that the snapshot has not.
	gone := p.hub.departing()
	for _, victim := range made.victims {
		gone = append(gone, victim.UID)
	}
	if p.hub.withinLimits(&pre, gone...) != (gang.Verdict{}) {
		return nil, v, nil
	}
	if made.decision.Outcome != core.Preempts {
		// Those that have to go are on their way.
		made.decision.Message = v.Message
	}
	return made, v, nil
}

// leaveToOthers takes the surplus of a gang off the end of its plan that its queue's fair share has no room for, as long
// as work of other queues waits for its turn: they would reclaim it.
func (h *Hub) leaveToOthers(pre *preemptor, plan []gang.Seat) []gang.Seat {
	least := max(pre.minCount, 1)
	if pre.queue == "" || len(plan) <= least || !h.board.Used() || !h.waits.OthersWait(pre.queue, h.clock.Now()) {
		return plan
	}
	standing := h.board.Standing(h.board.Resources())
	if standing == nil {
		return plan
	}
	asked := make(map[types.UID]queue.Amounts, len(pre.pods))
	for _, pod := range pre.pods {
		asked[pod.UID] = queue.RequestOf(pod)
	}
	requests := make([]queue.Amounts, len(plan))
	for i, seat := range plan {
		requests[i] = asked[seat.Member]
	}
	n := standing.Within(pre.queue, requests, h.board.Unplaced(h.promisedToOthers(pre)), kindsOf(pre.pods)...)
	return plan[:max(n, least)]
}

// kindsOf lists the kinds of some pods, each once.
func kindsOf(pods []*corev1.Pod) []string {
	kinds := sets.New[string]()
	for _, pod := range pods {
		kinds.Insert(queue.KindOf(pod))
	}
	return sets.List(kinds)
}

// keptByQueue says what its queue has against a single pod: that it cannot be in it, or the limit.
func (h *Hub) keptByQueue(pod *corev1.Pod) gang.Verdict {
	if v := h.keptOffQueues(pod); v != (gang.Verdict{}) || !h.board.Used() {
		return v
	}
	key := h.keyOf(pod)
	return h.ask(key, admission.Queue, func() gang.Verdict {
		c := h.claimOf(pod)
		if c.Bar != (gang.Verdict{}) {
			return c.Bar
		}
		return h.withinLimits(&preemptor{
			key: key, uid: pod.UID, queue: c.Queue, priority: h.priorityOf(pod), minCount: 1, pods: []*corev1.Pod{pod},
		})
	})
}

// promised are the pods that have a place without the API server knowing: an assumed node, or a reservation that counts.
func (b *books) promised(counts func(*reservation.Reservation) bool) []types.UID {
	// One that takes its place is both, for a moment.
	assumed := b.records.Assumed()
	out := make(sets.Set[types.UID], len(assumed))
	for uid := range assumed {
		out.Insert(types.UID(uid))
	}
	for _, reserved := range b.reserved.Nodes() {
		for _, r := range reserved {
			if counts(r) {
				out.Insert(r.UID)
			}
		}
	}
	return out.UnsortedList()
}
