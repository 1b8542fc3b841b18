package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/reservation"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Lead has the hub act for a scheduler that leads from now on: it takes over what was promised before, and speaks of pods. One that
// stands by follows the cluster as well. Call it before the first pod is scheduled, when all pods and groups are known.
func (h *Hub) Lead() {
	h.inherit()
	h.leads.Store(true)
	// Those that came before have been held back for this moment.
	h.letThrough(h.clock.Now())
	for _, key := range h.reserved.Keys() {
		// It does not wait for its turn.
		h.wake(key)
	}
}

// run drives the waiting list until ctx is done: it tries workloads again whose moment has come, and lets the work of
// queues through.
func (h *Hub) run(ctx context.Context) {
	ticker := h.clock.NewTicker(admission.Interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		now := h.clock.Now()
		// 1. Those that have waited for this moment.
		for _, due := range h.waits.Due(now) {
			switch due.Cause {
			case admission.Pause, admission.Going:
				// Changes that come in numbers are no reason to go before others again.
				h.tryAgain(due.Key)
			case admission.Departure:
				h.overdue(due.Key)
			default:
				h.retry(due.Key)
			}
		}
		// 2. Nodes on which something has come, or that have less, may not fulfill what is reserved
		// there.
		h.reviewRooms(now)
		// 3. Those wait for their turn from now on for which there is not plenty of room any more.
		lull := h.waits.Lull(now)
		if h.waits.AnyFree() || !lull && h.waits.CanBegin(now) {
			h.followPlenty(now)
		}
		// 4. The next turns, unless workloads are still arriving that one event has woken.
		if !lull {
			h.letThrough(now)
		}
		// 5. Wait until something happens, or the next moment comes.
		if ticked := h.awaitNext(ctx, ticker.C(), now); ticked {
			// 6. Look again at victims that stay. Take back what was promised on nodes that have
			// been lost meanwhile and to those that others hold back, wake those that nothing holds
			// back any more and for which shares have changed, and tell the users of those that
			// wait, for a turn or for room. Check the blocked drivers again.
			h.sweepLeaving()
			h.takeBackLost()
			h.outcomes.expire(now)
			h.sweepStale(now)
			h.sweepKept()
			h.takeBackHeld()
			h.wakeHeld()
			h.retryDrivers()
			h.easeTurns()
			if h.leads.Load() {
				h.telling.tellOfTurns()
				h.telling.tellMembers(h.clock.Now())
				h.telling.tellKeptOff()
			}
		}
	}
}

// awaitNext returns when the waiting list may have something to say. It reports whether that is because of a tick.
func (h *Hub) awaitNext(ctx context.Context, tick <-chan time.Time, now time.Time) (ticked bool) {
	var moment <-chan time.Time
	at, ok := h.waits.NextLook(now)
	if next, due := h.nextJudgement(); due && (!ok || next.Before(at)) {
		at, ok = next, true
	}
	if ok {
		timer := h.clock.NewTimer(at.Sub(now))
		defer timer.Stop()
		moment = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-h.waits.Wanted():
	case <-h.doubted.wanted:
	case <-h.driversChanged:
		h.retryDrivers()
	case <-h.board.PlentyEnds():
	case <-moment:
	case <-tick:
		return true
	}
	return false
}

// retry has a workload try again after it has waited for a moment. What it cannot have any more is taken back first.
func (h *Hub) retry(key workload.Key) {
	if why := h.forfeits(key); why != "" && !h.waits.Evicting(key) {
		h.takeBack(key, why)
	}
	h.wake(key)
}

// shares are the books of the queues as the waiting list reads them.
type shares struct {
	*queue.Standing
	// reserved is what is promised, by queue, and is no part of the standing. It is added up once, where it is asked for.
	reserved func() map[string]queue.Amounts
	books    *books
}

var _ admission.Shares = (*shares)(nil)

// Next picks the leaf whose turn it is; see [queue.Standing.Next].
func (s *shares) Next(waiting []admission.Waiter, underway map[string]admission.Request) (string, bool) {
	askers := make([]queue.Asker, len(waiting))
	for i := range waiting {
		askers[i] = askerOf(waiting[i])
	}
	reserved := s.reserved()
	sums := make(map[string]queue.Amounts, len(underway)+len(reserved))
	for name, amounts := range reserved {
		sums[name] = make(queue.Amounts)
		sums[name].Add(amounts)
	}
	for name, request := range underway {
		if sums[name] == nil {
			sums[name] = make(queue.Amounts)
		}
		sums[name].Add(amountsOf(request))
	}
	return s.Standing.Next(askers, sums)
}

// Entitled reports whether a leaf would stay within its fair share; see [queue.Standing.Entitled].
func (s *shares) Entitled(w admission.Waiter) bool {
	return s.Standing.Entitled(askerOf(w))
}

// HasShare reports whether a leaf is entitled to some of all that is requested; see [queue.Standing.HasShare].
func (s *shares) HasShare(w admission.Waiter) bool {
	return s.Standing.HasShare(askerOf(w))
}

// Plenty reports whether there is room for all that waits in a leaf; see [queue.Board.Plenty].
func (s *shares) Plenty(leaf string) bool { return s.books.hasPlenty(leaf) }

// Servable reports whether the nodes and limits could serve a workload; see [queue.Board.Servable].
func (s *shares) Servable(key workload.Key) bool { return s.books.isServable(key) }

func askerOf(w admission.Waiter) queue.Asker {
	return queue.Asker{Queue: w.Queue, Request: amountsOf(w.Request), Kind: w.Kind}
}

func amountsOf(request admission.Request) queue.Amounts {
	out := make(queue.Amounts, len(request))
	for name, v := range request {
		out[corev1.ResourceName(name)] = v
	}
	return out
}

func requestOf(amounts queue.Amounts) admission.Request {
	out := make(admission.Request, len(amounts))
	for name, v := range amounts {
		out[string(name)] = v
	}
	return out
}

// shares are how the queues stand now; nil where there are none.
func (b *books) shares() admission.Shares {
	if !b.board.Used() {
		return nil
	}
	standing := b.board.Standing(b.board.Resources())
	if standing == nil {
		return nil
	}
	return &shares{
		Standing: standing, books: b,
		reserved: sync.OnceValue(func() map[string]queue.Amounts {
			return b.board.Unplaced(b.promised(func(*reservation.Reservation) bool { return true }))
		}),
	}
}

// letThrough begins the next turns.
func (h *Hub) letThrough(now time.Time) {
	// A standby tries nothing: turns that it gives would pass unused, and all that waits would be through when it leads.
	// The books take time to look at, and this is asked whenever a turn ends.
	if !h.leads.Load() || !h.waits.CanBegin(now) {
		return
	}
	for _, key := range h.waits.LetThrough(h.shares(), now) {
		logOf(context.Background(), key).V(2).Info("Its turn has come")
		h.wake(key)
	}
}

// easeTurns wakes work whose turn came to nothing and that may fare better since.
func (h *Hub) easeTurns() {
	if s := h.shares(); s != nil {
		for _, key := range h.waits.Eased(s) {
			h.wake(key)
		}
	}
}

// waitsForTurn reports whether a pod has to wait for the turn of its queue. PreEnqueue calls it, under the queue's lock.
func (h *Hub) waitsForTurn(pod *corev1.Pod) bool {
	if !h.board.Used() {
		return false
	}
	claim := h.claimOf(pod)
	name, key := claim.Queue, h.keyOf(pod)
	if name == "" || claim.Bar != (gang.Verdict{}) {
		// It may have been in a queue before.
		h.waits.LeaveTurns(key)
		return false
	}
	if len(h.reserved.Of(key)) > 0 || key.Gang && h.isPartlyThrough(key) {
		// It has room already, which is of no use before it is whole. While it stood in the line, for its surplus, because it was called back
		// or before this scheduler led, it heard of nothing, and the member that did so for it still leads it.
		if h.waits.TurnOf(key, name) == admission.Admitted {
			return false
		}
		if h.waits.GoBy(h.waiter(key, pod, name), h.clock.Now()) && key.Gang {
			h.wakeSoon(nameOf(key))
		}
		if h.hasLeft(key) {
			// It has been forgotten already, and would not be again.
			h.waits.Forget(key)
		}
		return false
	}
	switch h.waits.TurnOf(key, name) {
	case admission.Admitted:
		return false
	case admission.Held:
		return true
	case admission.NotEntered:
	}
	waiter := h.waiter(key, pod, name)
	passes := h.passes(pod, &waiter)
	if !passes {
		h.waits.Enter(waiter, h.clock.Now())
	}
	if h.hasLeft(key) {
		// It has been forgotten already, and would not be again.
		h.waits.Forget(key)
	}
	return !passes
}

// isPartlyThrough reports whether a gang has members on nodes, and fewer than it needs.
func (o *occupancy) isPartlyThrough(key workload.Key) bool {
	g, ok := o.groups.Group(nameOf(key))
	if !ok {
		return false
	}
	members := o.members(g.Key)
	through := o.through(&members)
	return through > 0 && through < g.MinCount
}

// hasLeft reports whether nothing is left of a workload, as far as the informer knows.
func (r *roster) hasLeft(key workload.Key) bool {
	if key.Gang {
		members := r.lister.Members(nameOf(key))
		return members.Total() == 0
	}
	_, ok := r.podOf(key)
	return !ok
}

// waiter is what counts for the turn of a pod, or of the gang that it belongs to.
func (o *occupancy) waiter(key workload.Key, pod *corev1.Pod, name string) admission.Waiter {
	request := queue.RequestOf(pod)
	if g := o.gangOf(pod); key.Gang && g != nil {
		// Members that stand for each other are alike enough for an order.
		one, members := queue.RequestOf(pod), o.members(g.Key)
		for range g.MinCount - o.through(&members) - 1 {
			request.Add(one)
		}
	}
	return admission.Waiter{
		Key: key, Queue: name, Priority: o.priorityOf(pod), Since: pod.CreationTimestamp.Time, Request: requestOf(request),
		Kind: queue.KindOf(pod),
	}
}

// tellOfTurns tells the users of work that has waited for its first turn for long. What has had one knows what is in its
// way.
func (t *teller) tellOfTurns() {
	picked, waiting := t.waits.Untold(t.clock.Now())
	sum := 0
	for _, n := range waiting {
		sum += n
	}
	t.metrics.Waiting(sum)
	t.metrics.Promised(t.reserved.Len(), t.oldestPromise())
	t.metrics.At(t.clock.Now())
	for _, w := range picked {
		message := fmt.Sprintf("%s; %d gangs and pods wait in Queue %q, and go by priority, then age", holdForTurn, waiting[w.Queue], w.Queue)
		if w.Key.Gang {
			// What the gate has said of it is over: it waits behind the gate.
			if v := t.registry.Verdict(nameOf(w.Key)); v == (gang.Verdict{}) || isGateReason(v.Reason) {
				t.registry.SetVerdict(nameOf(w.Key), gang.Verdict{Reason: v1alpha1.ReasonPending, Message: message})
			}
			continue
		}
		pod, ok := t.podOf(w.Key)
		if !ok || pod.Spec.NodeName != "" {
			continue
		}
		if recorder := t.profiles.recorder(pod.Spec.SchedulerName); recorder != nil {
			recorder.Eventf(pod, nil, corev1.EventTypeNormal, "WaitingForTurn", "Scheduling", "%s", message)
		}
	}
}

// oldestPromise is for how long the oldest promise could have been taken up: the time in which victims are on their way out is theirs.
func (t *teller) oldestPromise() time.Duration {
	waiting := sets.New[workload.Key]()
	for _, key := range t.reserved.Keys() {
		if t.waits.WaitsForVictims(key) {
			waiting.Insert(key)
		}
	}
	return t.reserved.Oldest(t.clock.Now(), waiting)
}
