package fairshare

import (
	"cmp"
	"math"
)

// Balance has the usage (Allocated) and the fair share of each queue, by the queue's index in the
// tree. A queue's usage and share include the queues below it.
type Balance struct {
	Tree              *Tree
	Shares, Allocated []Amounts
	// Capacity is the capacity to share; nil if unknown. [Balance.Next] uses it for queues without
	// a share of the requested resources: it compares their usage with the capacity instead.
	Capacity Amounts
}

// DominantShare returns the highest ratio of a queue's usage to its share, among the given
// resources. It subtracts taken from the usage. Missing entries of taken and share are 0.
func DominantShare(has, taken, share []int64, among []int) float64 {
	ratio := 0.0
	for _, r := range among {
		used, entitled := has[r], int64(0)
		if taken != nil {
			used -= taken[r]
		}
		if r < len(share) {
			entitled = share[r]
		}
		if used > 0 {
			ratio = max(ratio, float64(used)/float64(entitled))
		}
	}
	return ratio
}

// Asker is a leaf queue with waiting work, and the request of the first waiting workload.
type Asker struct {
	Leaf    int32
	Request Amounts
	// Shares are the fair shares that apply to the first waiting workload. If it is nil, the Shares
	// of the Balance apply.
	Shares []Amounts
}

// Next returns the leaf queue whose first workload is admitted next; false if there are no askers.
// It descends from the top of the tree, and compares sibling queues at each level. Queues whose
// request is within their quota come first, then the queue with the lowest dominant share. Only the
// requested resources are compared. So a queue that has borrowed one kind of device does not delay
// work that needs another kind.
//
// Queues without a share of the requested resources come last. They are compared by their part of
// the capacity, divided by their weight. Among equal queues, the first by name is next. underway
// has usage to add to Allocated, by leaf.
func (s *Balance) Next(askers []Asker, underway map[int32]Amounts) (int32, bool) {
	if len(askers) == 0 {
		return 0, false
	}
	p := &picking{s: s, used: s.with(underway), first: make([]*Asker, s.Tree.Len())}
	for i := range askers {
		leaf := askers[i].Leaf
		if p.first[leaf] != nil {
			continue
		}
		p.first[leaf] = &askers[i]
		for q := s.Tree.Parent(leaf); q >= 0 && p.first[q] == nil; q = s.Tree.Parent(q) {
			p.first[q] = &askers[i]
		}
	}
	return p.among(s.Tree.Top()).Leaf, true
}

// picking is the state of one call of Next. The field first has one asker for each queue: an asker
// in the queue or below it.
type picking struct {
	s     *Balance
	used  []Amounts
	first []*Asker
}

// among returns the asker of the sibling queue that comes first; nil if none of them has an asker.
func (p *picking) among(siblings []int32) *Asker {
	var best *Asker
	lowest := position{}
	for _, q := range siblings {
		asker := p.first[q]
		if asker == nil {
			continue
		}
		if !p.s.Tree.Leaf(q) {
			asker = p.among(p.s.Tree.Children(q))
		}
		if at := p.position(q, asker); best == nil || at.compare(lowest) < 0 {
			best, lowest = asker, at
		}
	}
	return best
}

// position is the position of a queue among its siblings. The lowest position comes first.
type position struct {
	// beyondQuota is true if the request exceeds the quota. Requests within the quota come first,
	// because the queue can reclaim them from its siblings.
	beyondQuota bool
	// ofShare is the queue's dominant share. It is infinite if the queue has no share of the
	// requested resources. In this case ofAll decides. ofAll is the highest ratio of the queue's
	// usage to the capacity of a requested resource, divided by the queue's weight.
	ofShare, ofAll float64
}

func (p position) compare(other position) int {
	if p.beyondQuota != other.beyondQuota {
		if p.beyondQuota {
			return 1
		}
		return -1
	}
	if n := cmp.Compare(p.ofShare, other.ofShare); n != 0 || !math.IsInf(p.ofShare, 1) {
		return n
	}
	return cmp.Compare(p.ofAll, other.ofAll)
}

func (p *picking) sharesOf(asker *Asker) []Amounts {
	if asker.Shares != nil {
		return asker.Shares
	}
	return p.s.Shares
}

// position returns the position of a queue. asker is the next workload in the queue or below it.
func (p *picking) position(q int32, asker *Asker) position {
	s, used := p.s, p.used[q]
	var asks []int
	shares, entitled := p.sharesOf(asker), false
	for r, want := range asker.Request {
		if want > 0 {
			asks = append(asks, r)
			entitled = entitled || shares[q][r] > 0
		}
	}
	// Count a weight of 0 as 1. A queue without a weight would otherwise never be next.
	at := position{
		beyondQuota: !p.withinQuota(q, asker), ofShare: math.Inf(1),
		ofAll: s.ofCapacity(used, asks) / float64(max(s.Tree.nodes[q].Weight, 1)),
	}
	if entitled || len(asks) == 0 {
		at.ofShare = DominantShare(used, nil, shares[q], asks)
	}
	return at
}

// withinQuota reports whether all queues from the asker's leaf up to top stay within their quotas
// with the asker's workload. For a resource that is not in the leaf's quota, the fair share applies
// in place of the quota. A request within the quota can be reclaimed from siblings.
func (p *picking) withinQuota(top int32, asker *Asker) bool {
	s, shares, named := p.s, p.sharesOf(asker), false
	quota := s.Tree.nodes[asker.Leaf].Quota
	for r, want := range asker.Request {
		if want <= 0 || s.hasNone(r) {
			continue
		}
		named = named || quota[r] > 0
		for q := asker.Leaf; ; q = s.Tree.Parent(q) {
			most := shares[q][r]
			if quota[r] > 0 {
				most = min(most, s.Tree.nodes[q].Quota[r])
			}
			if Add(p.used[q][r], want) > most {
				return false
			}
			if q == top {
				break
			}
		}
	}
	return named
}

// ofCapacity returns the highest ratio of usage to capacity among the given resources. A resource
// without capacity counts as a capacity of 1.
func (s *Balance) ofCapacity(used Amounts, among []int) float64 {
	most := 0.0
	for _, r := range among {
		total := int64(1)
		if r < len(s.Capacity) {
			total = max(s.Capacity[r], 1)
		}
		most = max(most, float64(used[r])/float64(total))
	}
	return most
}

// Within returns how many requests of a leaf, from the first on, fit in the fair shares of the leaf
// and its ancestors together. underway has usage to add to Allocated, by leaf.
func (s *Balance) Within(leaf int32, requests []Amounts, underway map[int32]Amounts) int {
	sum, used := make(Amounts, s.Tree.Dims()), s.with(underway)
	for n, request := range requests {
		for r, v := range request {
			if sum[r] = Add(sum[r], v); v == 0 || s.hasNone(r) {
				continue
			}
			for q := leaf; q >= 0; q = s.Tree.Parent(q) {
				if Add(used[q][r], sum[r]) > s.Shares[q][r] {
					return n
				}
			}
		}
	}
	return len(requests)
}

// Entitled reports whether a leaf stays within its fair share if the request is added. Resources
// without capacity are ignored.
func (s *Balance) Entitled(leaf int32, request Amounts) bool {
	for r, want := range request {
		if want > 0 && !s.hasNone(r) && Add(s.Allocated[leaf][r], want) > s.Shares[leaf][r] {
			return false
		}
	}
	return true
}

// HasShare reports whether a leaf has a fair share of every requested resource with capacity. If
// the leaf has no share of a resource, queues with a higher priority or weight demand all of this
// resource. These queues would reclaim the resource at once from new work of the leaf.
func (s *Balance) HasShare(leaf int32, request Amounts) bool {
	for r, want := range request {
		if want > 0 && s.Shares[leaf][r] <= 0 && r < len(s.Capacity) && !s.hasNone(r) {
			return false
		}
	}
	return true
}

// hasNone reports whether a resource is known to have no capacity. An example is an extended
// resource that only a DeviceClass provides, so that no node lists it.
func (s *Balance) hasNone(r int) bool { return r < len(s.Capacity) && s.Capacity[r] <= 0 }

// with returns Allocated plus the usage in underway.
func (s *Balance) with(underway map[int32]Amounts) []Amounts {
	used := append([]Amounts(nil), s.Allocated...)
	own := make(map[int32]bool)
	for leaf, more := range underway {
		for q := leaf; q >= 0; q = s.Tree.Parent(q) {
			if !own[q] {
				own[q], used[q] = true, append(Amounts(nil), used[q]...)
			}
			for r, v := range more {
				used[q][r] = Add(used[q][r], v)
			}
		}
	}
	return used
}
