package cluster

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Shares returns the current shares of the queues for admission; nil if the cluster has no queues.
func (b *Ledger) Shares() admission.Shares {
	if !b.quotas.Used() {
		return nil
	}
	standing := b.quotas.Snapshot(b.quotas.Resources())
	if standing == nil {
		return nil
	}
	return &shares{
		Snapshot: standing, books: b,
		reserved: sync.OnceValue(func() map[string]queue.Amounts {
			return b.quotas.Unplaced(b.placedOrReserved(func(*engine.Reservation) bool { return true }))
		}),
	}
}

// shares is the view of the quota ledger that admission uses.
type shares struct {
	*queue.Snapshot
	// reserved returns the reserved amounts of each queue. The Snapshot does not include them. The
	// sum is computed in the first call.
	reserved func() map[string]queue.Amounts
	books    *Ledger
}

var _ admission.Shares = (*shares)(nil)

// Next returns the leaf queue that has the next turn; see [queue.Snapshot.Next]. underway holds,
// for each queue, the requests of admitted work without a node.
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
	return s.Snapshot.Next(askers, sums)
}

// Entitled reports whether the queue of a workload stays within its fair share if the workload is
// admitted.
func (s *shares) Entitled(w admission.Waiter) bool {
	return s.Snapshot.Entitled(askerOf(w))
}

// HasShare reports whether the queue of a workload has a share of each requested resource, as
// [queue.Snapshot.HasShare] computes it.
func (s *shares) HasShare(w admission.Waiter) bool {
	return s.Snapshot.HasShare(askerOf(w))
}

// Plenty reports whether there is room for all queued work of a leaf queue, as
// [queue.Ledger.Plenty] computes it.
func (s *shares) Plenty(leaf string) bool { return s.books.HasPlenty(leaf) }

// Servable reports whether the nodes and limits could serve a workload, as [queue.Ledger.Servable]
// computes it.
func (s *shares) Servable(key workload.Key) bool { return s.books.IsServable(key) }

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

// HasPlenty reports whether all work that waits in a queue has room, in any order.
func (b *Ledger) HasPlenty(queue string) bool {
	return b.index.Profiles.KnowFilters() && b.quotas.Plenty(queue)
}

// IsServable reports whether the nodes and limits could serve a workload in an otherwise empty
// cluster, as far as the quota ledger knows.
func (b *Ledger) IsServable(key workload.Key) bool {
	if !key.Gang {
		pod, ok := b.index.PodOf(key)
		return ok && b.quotas.Servable(pod.UID)
	}
	members := b.index.Lister.Members(gang.NameOf(key))
	return len(members.Pending) > 0 && !slices.ContainsFunc(members.Pending, func(pod *corev1.Pod) bool { return !b.quotas.Servable(pod.UID) })
}

// Waiter returns the facts that determine the turn of a pod or its gang.
func (o *Placements) Waiter(key workload.Key, pod *corev1.Pod, name string) admission.Waiter {
	request := queue.RequestOf(pod)
	if g := o.index.GangOf(pod); key.Gang && g != nil {
		// The request of one member stands for all members, which is precise enough for the order
		// of turns. The request counts only for members that exist: minCount may have been raised
		// after the gang passed the gate.
		members := o.Members(g.Key)
		request = request.Times(max(min(g.MinCount-o.Through(&members), len(members.Pending)), 1))
	}
	return admission.Waiter{
		Key: key, Queue: name, Priority: o.index.PriorityOf(pod), Since: pod.CreationTimestamp.Time, Request: requestOf(request),
		Kind: queue.KindOf(pod),
	}
}
