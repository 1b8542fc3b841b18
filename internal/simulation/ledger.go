package simulation

import (
	"slices"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// ledger is the quota ledger: the queues, with the usage and demand of their work, and the last
// computed state.
type ledger struct {
	resources []string
	gpus      gpus
	tree      *fairshare.Tree
	// limited is true if some queue has a limit.
	limited bool
	// capacity is the room of the nodes, without the work that runs outside all queues. demand is
	// the request of all work in each leaf, running and pending. allocated is the usage of each
	// queue and of the queues below it.
	capacity          core.Amounts
	carried           fairshare.Bundles
	demand, allocated []core.Amounts
	// counted counts the changes that shares depend on.
	counted uint64
	last    *ledgerState
}

// nodesWith returns the sum of the resources of all nodes that have the named resource.
func (in *Input) nodesWith(name string) core.Amounts {
	out, of := make(core.Amounts, len(in.Resources)), slices.Index(in.Resources, name)
	for i := range in.Nodes {
		if a := in.Nodes[i].Allocatable; a[of] > 0 {
			add(out, a, 1)
		}
	}
	return out
}

// booking is a pod's entry in the quota ledger: whether it counts as demand, and whether it counts
// as usage.
type booking struct{ asks, charged bool }

func newLedger(in *Input, tree *fairshare.Tree) *ledger {
	b := &ledger{resources: in.Resources, gpus: gpus{in.GPU, in.PerGPU}, tree: tree, capacity: make(core.Amounts, len(in.Resources))}
	for i := range in.Nodes {
		add(b.capacity, in.Nodes[i].Allocatable, 1)
	}
	b.carried = fairshare.NewBundles(in.Resources, in.nodesWith)
	for q := range int32(tree.Len()) {
		b.demand = append(b.demand, make(core.Amounts, tree.Dims()))
		b.allocated = append(b.allocated, make(core.Amounts, tree.Dims()))
		b.limited = b.limited || slices.ContainsFunc(tree.Queue(q).Limit, func(v int64) bool { return v < fairshare.Unlimited })
	}
	return b
}

// recount updates the quota ledger for all pods of a job.
func (s *simulation) recount(j *job) {
	s.ledger.counted++
	if s.ledger.tree.Len() > 0 {
		s.freed++
	}
	for _, p := range j.pods {
		s.ledger.book(p, booking{asks: p.charged && !p.terminating || j.phase == pending, charged: p.charged})
	}
}

// forget removes a pod from the quota ledger.
func (b *ledger) forget(p *pod) {
	b.counted++
	b.book(p, booking{})
}

// book replaces a pod's entry in the quota ledger.
func (b *ledger) book(p *pod, now booking) {
	before := p.booked
	if p.booked = now; now == before || b.tree.Len() == 0 {
		return
	}
	leaf := b.tree.LeafOf(p.job.queue)
	if leaf < 0 {
		// The room of work outside of all queues is not shared among queues.
		add(b.capacity, p.request, change(before.asks && before.charged, now.asks && now.charged)*-1)
		return
	}
	add(b.demand[leaf], p.request, change(before.asks, now.asks))
	if by := change(before.charged, now.charged); by != 0 {
		for q := leaf; q >= 0; q = b.tree.Parent(q) {
			add(b.allocated[q], p.request, by)
		}
	}
}

// change returns 1 if now became true, -1 if it became false, and 0 without a change.
func change(before, now bool) int64 {
	switch {
	case now && !before:
		return 1
	case before && !now:
		return -1
	default:
		return 0
	}
}

// isBelow reports whether a leaf is the queue or below it.
func (b *ledger) isBelow(leaf string, queue int32) bool {
	for q := b.tree.LeafOf(leaf); q >= 0; q = b.tree.Parent(q) {
		if q == queue {
			return true
		}
	}
	return false
}

// ledgerState is the usage and shares of all queues at one value of counted, with the history of
// changes that ease reclaim.
type ledgerState struct {
	fairshare.Balance
	at     uint64
	easing *fairshare.Easing
}

// standing returns the current state of the quota ledger. It computes a new one only after a
// change.
func (s *simulation) standing() *ledgerState {
	b := s.ledger
	if b.last != nil && b.last.at == b.counted {
		return b.last
	}
	next := &ledgerState{Balance: fairshare.Balance{Tree: b.tree}, at: b.counted}
	for _, a := range b.allocated {
		next.Allocated = append(next.Allocated, slices.Clone(a))
	}
	next.Shares = b.tree.FairShares(b.capacity, b.carried, b.demand)
	var before *fairshare.Easing
	if b.last != nil {
		before = b.last.easing
	}
	next.easing = before.Next(&next.Balance, nil, next.at)
	b.last = next
	return next
}

func add(to, amounts core.Amounts, sign int64) {
	for r, v := range amounts {
		to[r] += sign * v
	}
}

// shares is the quota ledger as the waiting list reads it.
type shares struct {
	*ledgerState
	resources []string
	promised  map[int32]core.Amounts
}

var _ admission.Shares = (*shares)(nil)

func (s *simulation) shares() *shares {
	return &shares{ledgerState: s.standing(), resources: s.ledger.resources, promised: s.promisedByLeaf(nil)}
}

// HasLeaf implements admission.Shares.
func (s *shares) HasLeaf(queue string) bool { return s.Tree.LeafOf(queue) >= 0 }

// Next implements admission.Shares.
func (s *shares) Next(waiting []admission.Waiter, underway map[string]admission.Request) (string, bool) {
	askers := make([]fairshare.Asker, len(waiting))
	for i := range waiting {
		askers[i] = fairshare.Asker{Leaf: s.Tree.LeafOf(waiting[i].Queue), Request: s.amounts(waiting[i].Request)}
	}
	all := make(map[int32]core.Amounts)
	for leaf, amounts := range s.promised {
		all[leaf] = slices.Clone(amounts)
	}
	for name, request := range underway {
		leaf := s.Tree.LeafOf(name)
		if all[leaf] == nil {
			all[leaf] = make(core.Amounts, len(s.resources))
		}
		add(all[leaf], s.amounts(request), 1)
	}
	next, ok := s.Balance.Next(askers, all)
	if !ok {
		return "", false
	}
	return s.Tree.Queue(next).Name, true
}

// At implements admission.Shares.
func (s *shares) At() uint64 { return s.at }

// Listed implements admission.Shares. The value is constant because the queues do not change.
func (s *shares) Listed() uint64 { return 1 }

// Eased implements admission.Shares.
func (s *shares) Eased(queue string) uint64 {
	return s.easing.For(s.Tree.LeafOf(queue))
}

// Entitled implements admission.Shares.
func (s *shares) Entitled(w admission.Waiter) bool {
	return s.Balance.Entitled(s.Tree.LeafOf(w.Queue), s.amounts(w.Request))
}

// HasShare implements admission.Shares.
func (s *shares) HasShare(w admission.Waiter) bool {
	return s.Balance.HasShare(s.Tree.LeafOf(w.Queue), s.amounts(w.Request))
}

// Plenty implements admission.Shares. It always returns false: a free pass would not change which
// work finds room.
func (s *shares) Plenty(string) bool { return false }

// Servable implements admission.Shares. It is not called while Plenty returns false.
func (s *shares) Servable(workload.Key) bool { return false }

func (s *shares) amounts(request admission.Request) core.Amounts {
	out := make(core.Amounts, len(s.resources))
	for r, name := range s.resources {
		out[r] = request[name]
	}
	return out
}
