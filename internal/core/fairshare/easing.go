package fairshare

import "slices"

// Easing records when changes of usage or shares last made reclaim easier. Reclaim is easier if a
// queue has a larger share, or if a queue exceeds its share by more. The times are values of a
// counter that the caller keeps.
type Easing struct {
	of *Balance
	// parts has the markets of the last Balance; see [Market]. It is nil if all pools of nodes are
	// shared together.
	parts *Divided
	// grown has, for each queue, the last time when its share of a resource grew.
	grown []uint64
	// lent is the last time when a queue began to exceed its share of a resource, or exceeded it by
	// more than before.
	lent uint64
}

// Next returns the Easing after the newer Balance s. The argument at is the time of s, and parts
// has the markets of s, or is nil. The pools of nodes must not have changed. If e is nil or belongs
// to another tree, all shares count as grown.
func (e *Easing) Next(s *Balance, parts *Divided, at uint64) *Easing {
	if e == nil || e.of.Tree != s.Tree || !e.isComparableWith(parts) {
		return &Easing{of: s, parts: parts, grown: slices.Repeat([]uint64{at}, s.Tree.Len()), lent: at}
	}
	before, next := e.of, &Easing{of: s, parts: parts, grown: slices.Clone(e.grown), lent: e.lent}
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
	if parts != nil && e.parts != nil {
		next.compareMarkets(e.parts, at)
	}
	return next
}

// isComparableWith reports whether the shares in e can be compared with the shares in parts.
func (e *Easing) isComparableWith(parts *Divided) bool {
	return (e.parts == nil) == (parts == nil) || e.parts.isOneMarket() && parts.isOneMarket()
}

// isOneMarket reports whether each resource has shares in at most one market. In this case,
// comparing the sums of shares is enough.
func (d *Divided) isOneMarket() bool {
	if d == nil {
		return true
	}
	for _, markets := range d.Markets {
		shared := 0
		for i := range markets {
			if slices.ContainsFunc(markets[i].Shares, func(share int64) bool { return share > 0 }) {
				shared++
			}
		}
		if shared > 1 {
			return false
		}
	}
	return true
}

// compareMarkets records the changes of shares in each market. It is needed because a queue's share
// of one market may grow while the sum of its shares stays the same.
func (e *Easing) compareMarkets(before *Divided, at uint64) {
	for r, markets := range e.parts.Markets {
		for i := range markets {
			m := &markets[i]
			j := slices.IndexFunc(before.Markets[r], func(old Market) bool { return old.Pools == m.Pools })
			if j < 0 && slices.ContainsFunc(m.Shares, func(share int64) bool { return share > 0 }) {
				// The pools of this market were divided in another way before, so the old and new
				// shares cannot be compared. Assume that reclaim became easier.
				e.lent = at
			}
			for q, share := range m.Shares {
				old := int64(0)
				if j >= 0 {
					old = before.Markets[r][j].Shares[q]
				}
				if share > old {
					e.grown[q] = at
				}
				if share < old && e.of.Allocated[q][r] > 0 {
					e.lent = at
				}
			}
		}
	}
}

// For returns the last time when reclaim became easier for a leaf queue. This happens if the share
// of the leaf or of an ancestor grows. It also happens if any queue exceeds its share by more than
// before.
func (e *Easing) For(leaf int32) uint64 {
	eased := e.lent
	for q := leaf; q >= 0; q = e.of.Tree.Parent(q) {
		eased = max(eased, e.grown[q])
	}
	return eased
}
