package queue

import (
	"math"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// Next picks the leaf whose work is to be tried next, of those that waiting names: from the top of the tree down, the
// queue that is furthest below its fair share by its dominant resource; the first by name of several. Underway is what
// has been let through, by leaf, and has no node yet. It reports false where none of the leaves is in the tree.
func (s *Standing) Next(waiting map[string]bool, underway map[string]Amounts) (string, bool) {
	below := make([]bool, s.Tree.Len())
	found := false
	for name := range waiting {
		if i, ok := s.Tree.Find(name); ok && s.Tree.Leaf(i) {
			found = true
			for _, q := range s.Tree.Path(i) {
				below[q] = true
			}
		}
	}
	if !found {
		return "", false
	}
	used := s.withUnderway(underway)
	for candidates := s.Tree.Top(); ; {
		best := -1
		for _, q := range candidates {
			if below[q] && (best < 0 || s.ratio(q, used) < s.ratio(best, used)) {
				best = q
			}
		}
		if s.Tree.Leaf(best) {
			return s.Tree.Queue(best).Name, true
		}
		candidates = s.Tree.Children(best)
	}
}

// HasLeaf reports whether work can be in a queue.
func (s *Standing) HasLeaf(name string) bool {
	i, ok := s.Tree.Find(name)
	return ok && s.Tree.Leaf(i)
}

// Within is for how many of some pods of a leaf, the first ones, its fair share and those of the queues above it have
// room. Underway is what counts as allocated beside what is, by leaf.
func (s *Standing) Within(leaf string, requests []Amounts, underway map[string]Amounts) int {
	at, ok := s.Tree.Find(leaf)
	if !ok {
		return len(requests)
	}
	sum, used := make(core.Amounts, len(s.Names)), s.withUnderway(underway)
	for n, request := range requests {
		for r, v := range request.vector(s.Names, 0) {
			if sum[r] += v; v == 0 {
				continue
			}
			for _, q := range s.Tree.Path(at) {
				have, ok := used[q]
				if !ok {
					have = s.Allocated[q]
				}
				if have[r]+sum[r] > s.Shares[q][r] {
					return n
				}
			}
		}
	}
	return len(requests)
}

// withUnderway is what is allocated, with what is under way.
func (s *Standing) withUnderway(underway map[string]Amounts) map[int]core.Amounts {
	used := make(map[int]core.Amounts)
	for name, amounts := range underway {
		i, ok := s.Tree.Find(name)
		if !ok {
			continue
		}
		more := amounts.vector(s.Names, 0)
		for _, q := range s.Tree.Path(i) {
			if used[q] == nil {
				used[q] = make(core.Amounts, len(s.Names))
				copy(used[q], s.Allocated[q])
			}
			for r := range more {
				used[q][r] += more[r]
			}
		}
	}
	return used
}

// ratio is how much of its fair share a queue has, by its dominant resource. What it has no share of and does not
// have either is no part of it.
func (s *Standing) ratio(q int, used map[int]core.Amounts) float64 {
	have, ok := used[q]
	if !ok {
		have = s.Allocated[q]
	}
	ratio, entitled := 0.0, false
	for r, share := range s.Shares[q] {
		entitled = entitled || share > 0
		if have[r] > 0 {
			ratio = max(ratio, float64(have[r])/float64(share))
		}
	}
	if !entitled {
		return math.Inf(1)
	}
	return ratio
}
