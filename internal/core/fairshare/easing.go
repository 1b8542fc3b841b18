package fairshare

import "slices"

// Easing records the last times when changes of usage or shares made reclaim easier. Times are
// values of the caller's counter.
type Easing struct {
	of *Balance
	// parts has the markets of the last Balance: sets of node pools with shares of their own. It is
	// nil if all pools are shared together.
	parts *Divided
	// grown has, for each queue, the time when its share of any resource last grew. lent is the
	// time when any queue's usage beyond its share last grew.
	grown []uint64
	lent  uint64
}

// Next returns the Easing after a newer Balance s, computed at the time at. parts has the markets
// of s, or is nil. The node pools must be the same as before. If e is nil or of another tree, there
// is nothing to compare with, and everything counts as grown.
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

// isComparableWith reports whether the shares before and now can be compared: market by market if
// both have several, or by their sums.
func (e *Easing) isComparableWith(parts *Divided) bool {
	return (e.parts == nil) == (parts == nil) || e.parts.isOneMarket() && parts.isOneMarket()
}

// isOneMarket reports whether each resource has shares in at most one market. Comparing the sums of
// shares is then enough.
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

// compareMarkets records the changes of shares in each market. The sum of a queue's shares may stay
// the same while its share of one market grows.
func (e *Easing) compareMarkets(before *Divided, at uint64) {
	for r, markets := range e.parts.Markets {
		for i := range markets {
			m := &markets[i]
			j := slices.IndexFunc(before.Markets[r], func(old Market) bool { return old.Pools == m.Pools })
			if j < 0 && slices.ContainsFunc(m.Shares, func(share int64) bool { return share > 0 }) {
				// Other pools were one market before.
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

// For returns the last time when reclaim became easier for a leaf queue. It did when the share of
// the leaf or of an ancestor grew, or when any queue's usage beyond its share grew.
func (e *Easing) For(leaf int32) uint64 {
	eased := e.lent
	for q := leaf; q >= 0; q = e.of.Tree.Parent(q) {
		eased = max(eased, e.grown[q])
	}
	return eased
}
