package simulation

import (
	"slices"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// ledger is the quota ledger of the simulation. It has the usage and demand of each queue, and the
// last computed fair shares.
type ledger struct {
	resources []string
	gpus      gpus
	tree      *fairshare.Tree
	// limited is true if any queue has a limit.
	limited bool
	// capacity is the room of all nodes minus the usage of work that is in no queue.
	capacity core.Amounts
	// carried has the amounts that accompany the resources of a quota. See fairshare.Bundles.
	carried fairshare.Bundles
	// demand is the sum of the requests of all work of each leaf queue, both running and pending.
	// allocated is the usage of each queue, including the queues below it.
	demand, allocated []core.Amounts
	// counted counts the changes that affect fair shares.
	counted uint64
	last    *ledgerState
}

// nodesWith returns the sum of all resources of the nodes that have the named resource.
func (in *Input) nodesWith(name string) core.Amounts {
	out, of := make(core.Amounts, len(in.Resources)), slices.Index(in.Resources, name)
	for i := range in.Nodes {
		if a := in.Nodes[i].Allocatable; a[of] > 0 {
			add(out, a, 1)
		}
	}
	return out
}

// booking is a pod's entry in the quota ledger. asks is true if the pod counts as demand, and
// charged if it counts as usage.
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

// recount updates the entries of all pods of a job in the quota ledger.
func (s *simulation) recount(j *job) {
	s.ledger.counted++
	if s.ledger.tree.Len() > 0 {
		s.freed++
	}
	for _, p := range j.pods {
		s.ledger.book(p, booking{asks: p.charged && !p.terminating || j.phase == pending, charged: p.charged})
	}
}

func (b *ledger) forget(p *pod) {
	b.counted++
	b.book(p, booking{})
}

// book replaces the entry of a pod in the quota ledger.
func (b *ledger) book(p *pod, now booking) {
	before := p.booked
	if p.booked = now; now == before || b.tree.Len() == 0 {
		return
	}
	leaf := b.tree.LeafOf(p.job.queue)
	if leaf < 0 {
		// Work that is in no queue reduces the room that queues share.
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

// change returns 1 if a value changes from false to true, -1 if it changes from true to false, and
// otherwise 0.
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

// isBelow reports whether queue is the leaf queue itself or one of its ancestors.
func (b *ledger) isBelow(leaf string, queue int32) bool {
	for q := b.tree.LeafOf(leaf); q >= 0; q = b.tree.Parent(q) {
		if q == queue {
			return true
		}
	}
	return false
}

// ledgerState has the usage and fair shares of all queues for one value of counted. easing has the
// history of changes that made reclaim easier.
type ledgerState struct {
	fairshare.Balance
	at     uint64
	easing *fairshare.Easing
}

// standing returns the current state of the quota ledger. It computes the state only if something
// has changed.
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

// shares implements admission.Shares for the quota ledger of the simulation.
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

// Listed implements admission.Shares. It returns a constant, because the queues do not change.
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

// Plenty implements admission.Shares. It always returns false, because free passes only save time:
// they do not change which work finds room.
func (s *shares) Plenty(string) bool { return false }

// Servable implements admission.Shares. It is never called, because Plenty returns false.
func (s *shares) Servable(workload.Key) bool { return false }

func (s *shares) amounts(request admission.Request) core.Amounts {
	out := make(core.Amounts, len(s.resources))
	for r, name := range s.resources {
		out[r] = request[name]
	}
	return out
}
