package fairshare

import "slices"

// Easing is when it last became easier to reclaim, up to a standing, by a count of moments.
type Easing struct {
	of *Standing
	// grown is, by queue, when its share last grew in any resource, and lent when some queue last came to have more beyond its share.
	grown []uint64
	lent  uint64
}

// Next is the easing up to the next standing, which was worked out at a moment. Where there was none before (nil), or one of another
// tree, there is nothing to compare with: all is new.
func (e *Easing) Next(s *Standing, at uint64) *Easing {
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

// For is when it last became easier for a leaf: its share, or that of a queue above it, grew, or some queue came to have more
// beyond its own.
func (e *Easing) For(leaf int32) uint64 {
	eased := e.lent
	for q := leaf; q >= 0; q = e.of.Tree.Parent(q) {
		eased = max(eased, e.grown[q])
	}
	return eased
}
