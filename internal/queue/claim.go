package queue

// At returns the number of changes that the Ledger had counted at the time of the Snapshot. It can
// be compared with the result of [Snapshot.Eased].
func (s *Snapshot) At() uint64 { return s.counted }

// Listed returns the value that [Ledger.Listed] had when the tree of the Snapshot was built.
func (s *Snapshot) Listed() uint64 { return s.listed }

// Eased returns the last time when reclaim became easier for a leaf queue, as a count of changes;
// see [fairshare.Easing.For]. It can be compared with the result of [Snapshot.At].
func (s *Snapshot) Eased(leaf string) uint64 {
	i, ok := s.Tree.Find(leaf)
	if !ok {
		return s.counted
	}
	return s.easing.For(i)
}

// Entitled reports whether a leaf queue with the request added would stay within its fair share of
// each requested resource. Beyond its fair share, a leaf queue cannot reclaim.
func (s *Snapshot) Entitled(a Asker) bool {
	i, ok := s.Tree.Find(a.Queue)
	if !ok {
		return false
	}
	return s.in(a.Kind).Entitled(i, a.Request.vector(s.Names, 0))
}

// HasShare reports whether a leaf queue has a fair share of each requested resource; see
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
