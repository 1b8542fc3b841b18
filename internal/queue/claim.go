package queue

// At returns the time of the Snapshot, as a count of the Ledger's changes. Compare it with
// [Snapshot.Eased].
func (s *Snapshot) At() uint64 { return s.counted }

// Listed returns the count of [Ledger.Listed] for the tree of the Snapshot.
func (s *Snapshot) Listed() uint64 { return s.listed }

// Eased returns when reclaim last became easier for a leaf; see [fairshare.Easing.For]. The time is
// comparable with [Snapshot.At].
func (s *Snapshot) Eased(leaf string) uint64 {
	i, ok := s.Tree.Find(leaf)
	if !ok {
		return s.counted
	}
	return s.easing.For(i)
}

// Entitled reports whether a leaf would stay within its fair share of each requested resource. A
// leaf beyond its fair share reclaims nothing.
func (s *Snapshot) Entitled(a Asker) bool {
	i, ok := s.Tree.Find(a.Queue)
	if !ok {
		return false
	}
	return s.in(a.Kind).Entitled(i, a.Request.vector(s.Names, 0))
}

// HasShare reports whether a leaf has a share of each requested resource; see
// [fairshare.Balance.HasShare].
func (s *Snapshot) HasShare(a Asker) bool {
	i, ok := s.Tree.Find(a.Queue)
	if !ok {
		return false
	}
	shares := s.Shares
	if p := s.PlaceOf(a.Kind); p != nil {
		shares = p.Shares
	}
	out := s.Balance
	out.Shares = shares
	return out.HasShare(i, a.Request.vector(s.Names, 0))
}
