package simulation

import (
	"slices"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// books are the queues, with what their work has and asks for, and how they stood when that was worked out last.
type books struct {
	resources []string
	gpus      gpus
	tree      *fairshare.Tree
	// limited is true where some queue has a limit.
	limited bool
	// capacity is what the nodes have, less what runs outside the queues. demand is what the work in each leaf asks for,
	// running and pending, and allocated what runs in each queue and below it.
	capacity          core.Amounts
	carried           fairshare.Bundles
	demand, allocated []core.Amounts
	// counted counts what shares depend on.
	counted uint64
	last    *standing
}

// nodesWith is what the nodes that list a resource have of all.
func (in *Input) nodesWith(name string) core.Amounts {
	out, of := make(core.Amounts, len(in.Resources)), slices.Index(in.Resources, name)
	for i := range in.Nodes {
		if a := in.Nodes[i].Allocatable; a[of] > 0 {
			add(out, a, 1)
		}
	}
	return out
}

// booking is what the books have of a pod.
type booking struct{ asks, charged bool }

func newBooks(in *Input, tree *fairshare.Tree) *books {
	b := &books{resources: in.Resources, gpus: gpus{in.GPU, in.PerGPU}, tree: tree, capacity: make(core.Amounts, len(in.Resources))}
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

// recount has the books know how the pods of a job stand.
func (s *simulation) recount(j *job) {
	s.books.counted++
	if s.books.tree.Len() > 0 {
		s.freed++
	}
	for _, p := range j.pods {
		s.books.book(p, booking{asks: p.charged && !p.terminating || j.phase == pending, charged: p.charged})
	}
}

// forget takes a pod off the books.
func (b *books) forget(p *pod) {
	b.counted++
	b.book(p, booking{})
}

// book replaces what the books have of a pod.
func (b *books) book(p *pod, now booking) {
	before := p.booked
	if p.booked = now; now == before || b.tree.Len() == 0 {
		return
	}
	leaf := b.tree.LeafOf(p.job.queue)
	if leaf < 0 {
		// What is outside the queues is not theirs to share.
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

// change is 1 for what has come to be, -1 for what is no more, 0 for what is as it was.
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

// isBelow reports whether a leaf is a queue, or below it.
func (b *books) isBelow(leaf string, queue int32) bool {
	for q := b.tree.LeafOf(leaf); q >= 0; q = b.tree.Parent(q) {
		if q == queue {
			return true
		}
	}
	return false
}

// standing is how the queues stand at one moment, and since when they do.
type standing struct {
	fairshare.Standing
	at     uint64
	easing *fairshare.Easing
}

// standing works out how the queues stand, after something has changed.
func (s *simulation) standing() *standing {
	b := s.books
	if b.last != nil && b.last.at == b.counted {
		return b.last
	}
	next := &standing{Standing: fairshare.Standing{Tree: b.tree}, at: b.counted}
	for _, a := range b.allocated {
		next.Allocated = append(next.Allocated, slices.Clone(a))
	}
	next.Shares = b.tree.FairShares(b.capacity, b.carried, b.demand)
	var before *fairshare.Easing
	if b.last != nil {
		before = b.last.easing
	}
	next.easing = before.Next(&next.Standing, next.at)
	b.last = next
	return next
}

func add(to, amounts core.Amounts, sign int64) {
	for r, v := range amounts {
		to[r] += sign * v
	}
}

// shares are the books as the waiting list reads them.
type shares struct {
	*standing
	resources []string
	promised  map[int32]core.Amounts
}

var _ admission.Shares = (*shares)(nil)

func (s *simulation) shares() *shares {
	return &shares{standing: s.standing(), resources: s.books.resources, promised: s.promisedByLeaf(nil)}
}

// HasLeaf is part of admission.Shares.
func (s *shares) HasLeaf(queue string) bool { return s.Tree.LeafOf(queue) >= 0 }

// Next is part of admission.Shares.
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
	next, ok := s.Standing.Next(askers, all)
	if !ok {
		return "", false
	}
	return s.Tree.Queue(next).Name, true
}

// At is part of admission.Shares.
func (s *shares) At() uint64 { return s.at }

// Listed is part of admission.Shares: the queues stay.
func (s *shares) Listed() uint64 { return 1 }

// Eased is part of admission.Shares.
func (s *shares) Eased(queue string) uint64 {
	return s.easing.For(s.Tree.LeafOf(queue))
}

// Entitled is part of admission.Shares.
func (s *shares) Entitled(w admission.Waiter) bool {
	return s.Standing.Entitled(s.Tree.LeafOf(w.Queue), s.amounts(w.Request))
}

// HasShare is part of admission.Shares.
func (s *shares) HasShare(w admission.Waiter) bool {
	return s.Standing.HasShare(s.Tree.LeafOf(w.Queue), s.amounts(w.Request))
}

// Plenty is part of admission.Shares. Whether work waits for its turn where there is room for all makes no difference to which of it
// finds a place.
func (s *shares) Plenty(string) bool { return false }

// Servable is part of admission.Shares, and not asked where there is no plenty.
func (s *shares) Servable(workload.Key) bool { return false }

func (s *shares) amounts(request admission.Request) core.Amounts {
	out := make(core.Amounts, len(s.resources))
	for r, name := range s.resources {
		out[r] = request[name]
	}
	return out
}
