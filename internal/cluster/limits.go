package cluster

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

// Candidate describes the pods of a workload that would be placed, for a check against the limits
// of their queue.
type Candidate struct {
	Key workload.Key
	// Standing has the leaf queue of the pods; "" for none.
	Standing workload.Standing
	Pods     []*corev1.Pod
	// MinCount is the number of pods that must be placed.
	MinCount int
}

// WithinLimits returns the first pods of a candidate, as many as fit below the limits of its queue.
// If these are too few, it returns a verdict that names the limit, and all pods. Pods in gone do
// not count as usage. Reservations of less important work count only if the candidate also fits
// beside them.
func (b *Ledger) WithinLimits(c *Candidate, gone ...types.UID) ([]*corev1.Pod, gang.Verdict) {
	if !b.quotas.Used() || c.Standing.Queue == "" {
		return c.Pods, gang.Verdict{}
	}
	for _, pod := range c.Pods {
		if !b.quotas.Knows(pod.UID) {
			// The scheduler's queue learned of the pod before the ledger did. Charge it, because
			// its reservation must count for the next pod.
			b.Recharge(pod)
		}
	}
	if !b.quotas.IsLimited(c.Standing.Queue) {
		// Summing up all reservations would take longer than all other checks of a pod.
		return c.Pods, gang.Verdict{}
	}
	need := max(c.MinCount, 1)
	n, over := b.roomBeside(c, b.ReservedByOthers(c.Key), gone)
	if n < need && c.MinCount > 0 {
		if n, over = b.roomBeside(c, b.reservedAbove(c), gone); n > need {
			// Allow only the needed members, because reservations of other work must not be
			// released for surplus members.
			n = need
		}
	}
	if n < need {
		return c.Pods, gang.Verdict{Reason: v1alpha1.ReasonQueueLimit, Message: over.Sentence()}
	}
	return c.Pods[:n], gang.Verdict{}
}

// roomBeside returns how many pods of a candidate fit below the limits of its queue. The pods in
// the second argument count as usage, and the pods in gone do not. It also returns the limit that
// blocks the next pod.
func (b *Ledger) roomBeside(c *Candidate, promised, gone []types.UID) (int, *queue.Over) {
	requests := make([]queue.Amounts, len(c.Pods))
	for i, pod := range c.Pods {
		requests[i] = queue.RequestOf(pod)
	}
	return b.quotas.Room(c.Standing.Queue, requests, promised, gone)
}

// ReservedByOthers returns the assumed pods, and the pods that have reservations and do not belong
// to a workload.
func (b *Ledger) ReservedByOthers(key workload.Key) []types.UID {
	return b.placedOrReserved(func(r *engine.Reservation) bool { return !b.index.Owns(key, PodIn(r)) })
}

// reservedAbove is reservedByOthers without the reservations that a candidate need not respect.
func (b *Ledger) reservedAbove(c *Candidate) []types.UID {
	return b.placedOrReserved(func(r *engine.Reservation) bool {
		return r.KeepsFrom(c.Standing) && !b.index.Owns(c.Key, PodIn(r))
	})
}

// OvertakesAtLimit reports whether a candidate does not fit below the limits of its queue together
// with all reservations of other workloads. If so, only the reservations that the candidate must
// respect count.
func (b *Ledger) OvertakesAtLimit(c *Candidate) bool {
	if c.Standing.Queue == "" || c.MinCount == 0 || b.reserved.Empty() || !b.quotas.IsLimited(c.Standing.Queue) {
		return false
	}
	n, _ := b.roomBeside(c, b.ReservedByOthers(c.Key), nil)
	return n < c.MinCount
}

// placedOrReserved returns the pods that have a place, but no node in the API yet. These are all
// assumed pods, and the pods of the reservations that the function counts accepts.
func (b *Ledger) placedOrReserved(counts func(*engine.Reservation) bool) []types.UID {
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
func (b *Ledger) exceedsLimits(key workload.Key, reserved []*engine.Reservation) bool {
	requests, own := make([]queue.Amounts, len(reserved)), make(sets.Set[types.UID], len(reserved))
	for i, r := range reserved {
		requests[i] = b.quotas.Request(PodIn(r))
		own.Insert(types.UID(r.UID))
	}
	var gone []types.UID
	if !key.Gang || b.gangs.Planned(key) == 0 {
		gone = b.Departing()
	}
	// Some pods of the workload may have been assumed since its reservations were read. They must
	// not count twice, so leave them out of the others.
	others := slices.DeleteFunc(b.placedOrReserved(func(r *engine.Reservation) bool { return r.KeepsFrom(reserved[0].Standing) }), own.Has)
	n, _ := b.quotas.Room(reserved[0].Queue, requests, others, gone)
	return n < len(requests)
}

// IsDisallowed reports whether a workload's queue no longer allows the workload's reservations.
// Possible reasons are that the work is in another queue, the queue is unusable, or a limit is too
// low. For a workload that waits for terminating pods, these pods do not count as usage. A gang
// with a plan does not wait for terminating pods.
func (b *Ledger) IsDisallowed(key workload.Key) bool {
	if !b.AsksForQueues() {
		return false
	}
	reserved := b.reserved.Of(key)
	if len(reserved) == 0 {
		return false
	}
	name := reserved[0].Queue
	for _, r := range reserved {
		// The informer may have a newer version of the pod than the reservation.
		if now, ok := b.index.PodOf(gang.KeyOfPod(PodIn(r))); ok {
			if c := b.ClaimOf(now); c.Bar != (gang.Verdict{}) || name != "" && b.quotas.Used() && c.Queue != name {
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
