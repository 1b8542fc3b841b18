package queue

// follow notes what has changed in favour of those who reclaim since an earlier standing, nil for none.
func (s *Standing) follow(old *Standing) {
	s.grown = make([]uint64, s.Tree.Len())
	if old == nil || old.Tree != s.Tree {
		// There is nothing to compare with, queue by queue.
		for q := range s.grown {
			s.grown[q] = s.counted
		}
		s.lent = s.counted
		return
	}
	s.lent = old.lent
	for q := range s.grown {
		s.grown[q] = old.grown[q]
		for r, share := range s.Shares[q] {
			if share > old.Shares[q][r] {
				s.grown[q] = s.counted
			}
			if over := s.Allocated[q][r] - share; over > 0 && over > old.Allocated[q][r]-old.Shares[q][r] {
				s.lent = s.counted
			}
		}
	}
}

// At is when the standing was worked out, for [Standing.Eased].
func (s *Standing) At() uint64 { return s.counted }

// Listed says of which tree of queues this is a standing, as [Board.Listed] does.
func (s *Standing) Listed() uint64 { return s.listed }

// Eased is when it last became easier for a leaf to reclaim: its share, or that of a queue above it, grew, or some
// queue came to have more beyond its own.
func (s *Standing) Eased(leaf string) uint64 {
	i, ok := s.Tree.Find(leaf)
	if !ok {
		return s.counted
	}
	eased := s.lent
	for _, q := range s.Tree.Path(i) {
		eased = max(eased, s.grown[q])
	}
	return eased
}

// Entitled reports whether a leaf would have no more than its fair share of anything that is requested. Beyond it,
// nothing is reclaimed.
func (s *Standing) Entitled(leaf string, request Amounts) bool {
	i, ok := s.Tree.Find(leaf)
	if !ok {
		return false
	}
	return s.Standing.Entitled(i, request.vector(s.Names, 0))
}
