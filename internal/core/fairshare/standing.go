package fairshare

import (
	"cmp"
	"math"
)

// Standing is what queues have beside what they are entitled to, by index in the tree. Both count what is below a queue.
type Standing struct {
	Tree              *Tree
	Shares, Allocated []Amounts
	// Capacity is what there is to share, by which resources compare that no share tells apart; nil where that is not known.
	Capacity Amounts
}

// DominantShare is what a queue has, less what has been taken, to what it is entitled to, by the resource in which that is
// most among some. Nil taken is nothing, and what share does not list is 0.
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

// Asker is a leaf with work that waits, and the request of the workload that goes next in it.
type Asker struct {
	Leaf    int32
	Request Amounts
	// Shares are those that count for the workload; nil for the standing's.
	Shares []Amounts
}

// Next picks the leaf whose turn it is among askers. From the top of the tree down, a queue goes first whose request stays within its
// quota, and then the queue furthest below its fair share. Queues compare by the resources of their requests: what a queue has
// borrowed of one device delays no work that needs none of it. Of several that have something beside a share of nothing, the one
// with the least goes first, divided by its weight where it has one; equal queues go by name. Underway is what is allocated
// beside Allocated, by leaf. Next reports false where there are no askers.
func (s *Standing) Next(askers []Asker, underway map[int32]Amounts) (int32, bool) {
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

// picking is one call of Next. First has an asker for each queue that has any at or below it.
type picking struct {
	s     *Standing
	used  []Amounts
	first []*Asker
}

// among picks the asker that goes first at or below some siblings; nil where there is none.
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

// position is where a queue stands among its siblings: the one with the least goes first.
type position struct {
	// beyondQuota is false where the request stays within the quota, so that it could be reclaimed from siblings.
	beyondQuota bool
	// ofShare is its dominant share, infinite where it is entitled to nothing of what it has. Then ofAll counts: the most
	// that it has of all that there is of a resource, by its weight.
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

// position is where a queue stands with the workload of an asker at or below it.
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
	// Without a weight it counts as it is: to come after all others would be to have no turn at all.
	at := position{
		beyondQuota: !p.withinQuota(q, asker), ofShare: math.Inf(1),
		ofAll: s.ofCapacity(used, asks) / float64(max(s.Tree.nodes[q].Weight, 1)),
	}
	if entitled || len(asks) == 0 {
		at.ofShare = DominantShare(used, nil, shares[q], asks)
	}
	return at
}

// withinQuota reports whether the workload of an asker leaves its leaf and all queues up to one within their quotas of the resources of
// which the leaf has any, and within their fair shares of the rest: what could be reclaimed for it from siblings' work that is beyond
// their quotas.
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

// ofCapacity is the most that some amounts are of what there is of a resource, among some resources. One of which there is nothing counts by
// itself.
func (s *Standing) ofCapacity(used Amounts, among []int) float64 {
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

// Within is for how many of some requests of a leaf, the first ones, its fair share and those of the queues above it have
// room. Underway is what is allocated beside what is, by leaf.
func (s *Standing) Within(leaf int32, requests []Amounts, underway map[int32]Amounts) int {
	sum, used := make(Amounts, s.Tree.Dims()), s.with(underway)
	for n, request := range requests {
		for r, v := range request {
			if sum[r] += v; v == 0 || s.hasNone(r) {
				continue
			}
			for q := leaf; q >= 0; q = s.Tree.Parent(q) {
				if used[q][r]+sum[r] > s.Shares[q][r] {
					return n
				}
			}
		}
	}
	return len(requests)
}

// Entitled reports whether a leaf would have no more than its fair share of anything that is requested and that there is.
func (s *Standing) Entitled(leaf int32, request Amounts) bool {
	for r, want := range request {
		if want > 0 && !s.hasNone(r) && s.Allocated[leaf][r]+want > s.Shares[leaf][r] {
			return false
		}
	}
	return true
}

// HasShare reports whether a leaf is entitled to something of all that is requested and that there is. Where it is not, as where more
// important queues or those with a weight want all of it, what it takes is reclaimed from it at once.
func (s *Standing) HasShare(leaf int32, request Amounts) bool {
	for r, want := range request {
		if want > 0 && s.Shares[leaf][r] <= 0 && r < len(s.Capacity) && !s.hasNone(r) {
			return false
		}
	}
	return true
}

// hasNone reports whether it is known that there is nothing of a resource to share, as of one that only a device class maps.
func (s *Standing) hasNone(r int) bool { return r < len(s.Capacity) && s.Capacity[r] <= 0 }

// with is what is allocated, with what is under way.
func (s *Standing) with(underway map[int32]Amounts) []Amounts {
	used := append([]Amounts(nil), s.Allocated...)
	own := make(map[int32]bool)
	for leaf, more := range underway {
		for q := leaf; q >= 0; q = s.Tree.Parent(q) {
			if !own[q] {
				own[q], used[q] = true, append(Amounts(nil), used[q]...)
			}
			for r, v := range more {
				used[q][r] += v
			}
		}
	}
	return used
}
