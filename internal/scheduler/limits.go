package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// candidate describes the pods of a workload that would be placed, for a check against the limits
// of their queue.
type candidate struct {
	key workload.Key
	// standing has the leaf queue of the pods; "" for none.
	standing workload.Standing
	pods     []*corev1.Pod
	// minCount is the number of pods that must be placed.
	minCount int
}

// withinLimits returns the first pods of a candidate, as many as fit below the limits of its queue.
// If these are too few, it returns a verdict that names the limit, and all pods. Pods in gone do
// not count as usage. Reservations of less important work count only if the candidate also fits
// beside them.
func (b *ledger) withinLimits(c *candidate, gone ...types.UID) ([]*corev1.Pod, gang.Verdict) {
	if !b.quotas.Used() || c.standing.Queue == "" {
		return c.pods, gang.Verdict{}
	}
	for _, pod := range c.pods {
		if !b.quotas.Knows(pod.UID) {
			// The scheduler's queue learned of the pod before the ledger did. Charge it, because
			// its reservation must count for the next pod.
			b.recharge(pod)
		}
	}
	if !b.quotas.IsLimited(c.standing.Queue) {
		// Summing up all reservations would take longer than all other checks of a pod.
		return c.pods, gang.Verdict{}
	}
	need := max(c.minCount, 1)
	n, over := b.roomBeside(c, b.reservedByOthers(c.key), gone)
	if n < need && c.minCount > 0 {
		if n, over = b.roomBeside(c, b.reservedAbove(c), gone); n > need {
			// Allow only the needed members, because reservations of other work must not be
			// released for surplus members.
			n = need
		}
	}
	if n < need {
		return c.pods, gang.Verdict{Reason: v1alpha1.ReasonQueueLimit, Message: over.Sentence()}
	}
	return c.pods[:n], gang.Verdict{}
}

// roomBeside returns how many pods of a candidate fit below the limits of its queue. The pods in
// the second argument count as usage, and the pods in gone do not. It also returns the limit that
// blocks the next pod.
func (b *ledger) roomBeside(c *candidate, promised, gone []types.UID) (int, *queue.Over) {
	requests := make([]queue.Amounts, len(c.pods))
	for i, pod := range c.pods {
		requests[i] = queue.RequestOf(pod)
	}
	return b.quotas.Room(c.standing.Queue, requests, promised, gone)
}

// reservedByOthers returns the assumed pods, and the pods that have reservations and do not belong
// to a workload.
func (b *ledger) reservedByOthers(key workload.Key) []types.UID {
	return b.placedOrReserved(func(r *engine.Reservation) bool { return !b.index.owns(key, podIn(r)) })
}

// reservedAbove is reservedByOthers without the reservations that a candidate need not respect.
func (b *ledger) reservedAbove(c *candidate) []types.UID {
	return b.placedOrReserved(func(r *engine.Reservation) bool {
		return r.KeepsFrom(c.standing) && !b.index.owns(c.key, podIn(r))
	})
}

// overtakesAtLimit reports whether a candidate does not fit below the limits of its queue together
// with all reservations of other workloads. If so, only the reservations that the candidate must
// respect count.
func (b *ledger) overtakesAtLimit(c *candidate) bool {
	if c.standing.Queue == "" || c.minCount == 0 || b.reserved.Empty() || !b.quotas.IsLimited(c.standing.Queue) {
		return false
	}
	n, _ := b.roomBeside(c, b.reservedByOthers(c.key), nil)
	return n < c.minCount
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
