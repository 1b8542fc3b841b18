package queue

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Snapshot is the state of all queues at one moment. It does not change, so any goroutine may use
// it.
type Snapshot struct {
	fairshare.Balance
	// Names are the resources of every vector of amounts, in order.
	Names []string
	// Faults lists the configuration errors of queues.
	Faults []fairshare.Fault
	// Requested has the requests of each queue, including the queues below it, by index in the
	// tree.
	Requested []fairshare.Amounts
	// Waiting has the number of pods without a node in each queue, including the queues below it,
	// by index in the tree.
	Waiting []int32
	// Orphaned maps names of queues that are no leaves of the tree to the usage of the running work
	// that names them.
	Orphaned map[string]fairshare.Amounts
	// OrphanedPods is the number of running pods that name a queue that is no leaf of the tree.
	OrphanedPods int

	// kept has the names of deleted queues that are still in the tree.
	kept map[string]bool
	// accesses has the access rules of each queue, by index in the tree.
	accesses []*access
	// markets divides the nodes into markets with separate fair shares; nil if there is only one
	// market.
	markets *markets

	// leaves has the accounts of leaf queues as vectors, by index in the tree; nil for a leaf
	// without work. Later Snapshots share the same vectors.
	leaves []*leafBooks

	listed, counted uint64
	// easing has the times when reclaim became easier. A time is a value of Ledger.counted, the
	// number of changes.
	easing *fairshare.Easing
}

// leafBooks is an account as vectors.
type leafBooks struct{ demand, allocated, requested fairshare.Amounts }

// Snapshot returns the current Snapshot for the given resources; nil if there are no Queues. It
// returns the same Snapshot until the ledger changes.
func (b *Ledger) Snapshot(names []string) *Snapshot {
	if !b.Used() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queues) == 0 {
		return nil
	}
	at := slices.IndexFunc(b.standings, func(s *Snapshot) bool { return slices.Equal(s.Names, names) })
	var old *Snapshot
	if at >= 0 {
		if old = b.standings[at]; old.counted == b.counted {
			return old
		}
	}
	s := b.standing(names, old)
	switch {
	case at >= 0:
		b.standings[at] = s
	case len(b.standings) < mostStandings:
		b.standings = append(b.standings, s)
	default:
		b.standings = []*Snapshot{s}
	}
	return s
}

// mostStandings is the maximum number of cached Snapshots. There is one for each set of resources:
// the snapshots of the cluster use one set, and the status of Queues uses another.
const mostStandings = 4

func (b *Ledger) standing(names []string, old *Snapshot) *Snapshot {
	if b.unweighed {
		b.weighAll()
	}
	b.reach()
	s := &Snapshot{Names: slices.Clone(names), listed: b.listed, counted: b.counted, Orphaned: make(map[string]fairshare.Amounts)}
	if old != nil && old.listed == b.listed {
		s.Tree, s.Faults = old.Tree, old.Faults
	} else {
		s.Tree, s.Faults = fairshare.NewTree(len(names), b.described(names))
	}
	queues, dims := s.Tree.Len(), len(names)
	demand, flat := make([]fairshare.Amounts, queues), make(fairshare.Amounts, 2*queues*dims)
	s.Allocated, s.Requested = make([]fairshare.Amounts, queues), make([]fairshare.Amounts, queues)
	s.Waiting, s.leaves = make([]int32, queues), make([]*leafBooks, queues)
	for i := range demand {
		s.Allocated[i], s.Requested[i] = flat[:dims:dims], flat[dims:2*dims:2*dims]
		flat = flat[2*dims:]
	}
	capacity, outside := b.capacity.clone(), sets.New[string]()
	capacity.add(b.beyond, -1)
	for name, a := range b.accounts {
		i := a.leafIn(s.Tree, name, b.listed)
		if i < 0 {
			// Usage outside of the queues reduces the capacity that queues share.
			capacity.add(a.staying, -1)
			outside.Insert(name)
			if name != "" && len(a.allocated) > 0 {
				s.Orphaned[name] = a.allocated.vector(names, 0)
				s.OrphanedPods += a.placed
			}
			continue
		}
		own := s.booksOf(i, a, old)
		demand[i] = own.demand
		for q := i; q >= 0; q = s.Tree.Parent(q) {
			s.Waiting[q] += int32(a.pods - a.placed)
			for r := range names {
				s.Allocated[q][r] += own.allocated[r]
				s.Requested[q][r] += own.requested[r]
			}
		}
	}
	if len(b.kept) > 0 {
		s.kept = make(map[string]bool, len(b.kept))
		for name := range b.kept {
			s.kept[name] = true
		}
	}
	b.addBeyond(capacity, outside)
	s.accesses = b.accessesIn(s.Tree)
	s.Capacity = capacity.vector(names, 0)
	if s.markets = b.marketsOf(s); s.markets != nil {
		s.Shares = s.markets.Shares()
	} else {
		s.Shares = s.Tree.FairShares(s.Capacity, b.carried(names), demand)
	}
	s.easing = s.easingAfter(old)
	return s
}

// easingAfter returns the times when reclaim last became easier for each queue, including this
// Snapshot. old is the previous Snapshot, or nil.
func (s *Snapshot) easingAfter(old *Snapshot) *fairshare.Easing {
	var before *fairshare.Easing
	if old != nil {
		before = old.easing
	}
	if s.markets == nil {
		return before.Next(&s.Balance, nil, s.counted)
	}
	if old != nil && old.markets != nil && !s.markets.layout.hasPoolsOf(old.markets.layout) {
		// The pools have changed, so the markets of both Snapshots cannot be compared.
		before = nil
	}
	return before.Next(&s.Balance, s.markets.Divided, s.counted)
}

// booksOf returns the account of a leaf queue as vectors. If the account has not changed since the
// old Snapshot, it reuses the old vectors.
func (s *Snapshot) booksOf(leaf int32, a *account, old *Snapshot) *leafBooks {
	if old != nil && old.Tree == s.Tree && old.leaves[leaf] != nil && a.changed <= old.counted {
		s.leaves[leaf] = old.leaves[leaf]
	} else {
		s.leaves[leaf] = &leafBooks{
			demand: a.demand.vector(s.Names, 0), allocated: a.allocated.vector(s.Names, 0), requested: a.requested.vector(s.Names, 0),
		}
	}
	return s.leaves[leaf]
}

// described converts the Queues to values of package fairshare.
func (b *Ledger) described(names []string) []fairshare.Queue {
	out := make([]fairshare.Queue, 0, len(b.queues))
	for _, q := range b.queues {
		d := fairshare.Queue{
			Name: q.Name, Weight: 1, Quota: grantOf(q.Spec.Quota).vector(names, 0), Limit: limits(q.Spec.Limit, names),
			PreemptMinRuntime: fairshare.Unset, ReclaimMinRuntime: fairshare.Unset,
		}
		if p := q.Spec.Parent; p != nil {
			d.Parent = *p
		}
		if w := q.Spec.OverQuotaWeight; w != nil {
			d.Weight = int64(*w)
		}
		if p := q.Spec.Priority; p != nil {
			d.Priority = *p
		}
		if r := q.Spec.PreemptMinRuntime; r != nil {
			d.PreemptMinRuntime = max(r.Nanoseconds(), 0)
		}
		if r := q.Spec.ReclaimMinRuntime; r != nil {
			d.ReclaimMinRuntime = max(r.Nanoseconds(), 0)
		}
		if r := q.Spec.SilentWorkCap; r != nil {
			d.SilentWorkCap = ptr.To(max(r.Nanoseconds(), 0))
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(x, y fairshare.Queue) int { return strings.Compare(x.Name, y.Name) })
	return out
}
