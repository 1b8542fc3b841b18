package fairshare

import (
	"cmp"
	"math"
	"slices"
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

// Next picks the leaf whose turn it is among some: from the top of the tree down, the queue that is furthest below its
// fair share by its dominant resource. Of several that have something beside a share of nothing it is the one that has
// least, for its weight where it has one; and the first by name of several that have the same. Underway is what is
// allocated beside what is, by leaf. It reports false where there are no leaves.
func (s *Standing) Next(leaves []int32, underway map[int32]Amounts) (int32, bool) {
	if len(leaves) == 0 {
		return 0, false
	}
	below := make([]bool, s.Tree.Len())
	for _, leaf := range leaves {
		for q := leaf; q >= 0; q = s.Tree.Parent(q) {
			below[q] = true
		}
	}
	used, all := s.with(underway), make([]int, s.Tree.Dims())
	for r := range all {
		all[r] = r
	}
	for siblings := s.Tree.Top(); ; {
		best, lowest := int32(-1), position{}
		for _, q := range siblings {
			if !below[q] {
				continue
			}
			if at := s.position(q, used[q], all); best < 0 || at.compare(lowest) < 0 {
				best, lowest = q, at
			}
		}
		if s.Tree.Leaf(best) {
			return best, true
		}
		siblings = s.Tree.Children(best)
	}
}

// position is where a queue stands among its siblings: the one with the least goes first.
type position struct {
	// ofShare is its dominant share, infinite where it is entitled to nothing of what it has. Then ofAll counts: the most
	// that it has of all that there is of a resource, by its weight.
	ofShare, ofAll float64
}

func (p position) compare(other position) int {
	if n := cmp.Compare(p.ofShare, other.ofShare); n != 0 || !math.IsInf(p.ofShare, 1) {
		return n
	}
	return cmp.Compare(p.ofAll, other.ofAll)
}

// position is where a queue stands that uses so much, by all resources.
func (s *Standing) position(q int32, used Amounts, all []int) position {
	entitled := slices.ContainsFunc(s.Shares[q], func(share int64) bool { return share > 0 })
	// Without a weight it counts as it is: to come after all others would be to have no turn at all.
	p := position{ofShare: math.Inf(1), ofAll: s.ofCapacity(used) / float64(max(s.Tree.nodes[q].Weight, 1))}
	if entitled {
		p.ofShare = DominantShare(used, nil, s.Shares[q], all)
	}
	return p
}

// ofCapacity is the most that some amounts are of what there is of a resource. One of which there is nothing counts by
// itself.
func (s *Standing) ofCapacity(used Amounts) float64 {
	most := 0.0
	for r, v := range used {
		total := int64(1)
		if r < len(s.Capacity) {
			total = max(s.Capacity[r], 1)
		}
		most = max(most, float64(v)/float64(total))
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
