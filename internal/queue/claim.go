package queue

// At is when the standing was worked out, for [Standing.Eased].
func (s *Standing) At() uint64 { return s.counted }

// Listed says of which tree of queues this is a standing, as [Board.Listed] does.
func (s *Standing) Listed() uint64 { return s.listed }

// Eased is when it last became easier for a leaf to reclaim, see [fairshare.Easing.For].
func (s *Standing) Eased(leaf string) uint64 {
	i, ok := s.Tree.Find(leaf)
	if !ok {
		return s.counted
	}
	return s.easing.For(i)
}

// Entitled reports whether a leaf would have no more than its fair share of anything that is requested. Beyond it,
// nothing is reclaimed.
func (s *Standing) Entitled(a Asker) bool {
	i, ok := s.Tree.Find(a.Queue)
	if !ok {
		return false
	}
	return s.in(a.Kind).Entitled(i, a.Request.vector(s.Names, 0))
}

// HasShare reports whether a leaf is entitled to something of all that is requested; see [fairshare.Standing.HasShare].
func (s *Standing) HasShare(a Asker) bool {
	i, ok := s.Tree.Find(a.Queue)
	if !ok {
		return false
	}
	shares := s.Shares
	if p := s.PlaceOf(a.Kind); p != nil {
		shares = p.Shares
	}
	out := s.Standing
	out.Shares = shares
	return out.HasShare(i, a.Request.vector(s.Names, 0))
}
