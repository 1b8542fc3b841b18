package fairshare

import "slices"

// Easing records when reclaim last became easier, up to a standing. Times are values of the
// caller's counter.
type Easing struct {
	of *Balance
	// grown is when each queue's share last grew in any resource. lent is when some queue's usage
	// beyond its share last grew.
	grown []uint64
	lent  uint64
}

// Next returns the easing up to the next standing, which was computed at the given time. If e is
// nil or of another tree, there is nothing to compare with, and everything counts as new.
func (e *Easing) Next(s *Balance, at uint64) *Easing {
	if e == nil || e.of.Tree != s.Tree {
		return &Easing{of: s, grown: slices.Repeat([]uint64{at}, s.Tree.Len()), lent: at}
	}
	before, next := e.of, &Easing{of: s, grown: slices.Clone(e.grown), lent: e.lent}
	for q := range next.grown {
		for r, share := range s.Shares[q] {
			if share > before.Shares[q][r] {
				next.grown[q] = at
			}
			if over := s.Allocated[q][r] - share; over > 0 && over > before.Allocated[q][r]-before.Shares[q][r] {
				next.lent = at
			}
		}
	}
	return next
}

// For returns when reclaim last became easier for a leaf. Either its share or the share of a queue
// above it grew, or some queue's usage beyond its own share did.
func (e *Easing) For(leaf int32) uint64 {
	eased := e.lent
	for q := leaf; q >= 0; q = e.of.Tree.Parent(q) {
		eased = max(eased, e.grown[q])
	}
	return eased
}
