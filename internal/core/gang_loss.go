package core

import (
	"cmp"
	"slices"
	"sync"
)

// addsUp reports whether the cost of each set of victims is the sum of the costs of its units.
// There are two reasons why it may not be. First, units have budgets, and broken budgets do not add
// up. Second, the search counts lost work, and a gang may fall below minCount: the first victim
// stops the gang, and a second victim adds no loss.
func (sr *search) addsUp() bool {
	return sr.s.losses == nil || len(sr.s.gangs) == 0 && !sr.v.c.budgeted
}

// withLosses replaces the losses that the search counts. If l is nil, the search does not count
// lost work.
func (sr *search) withLosses(l *losses) {
	s, v := *sr.s, *sr.v
	s.losses, v.s = l, &s
	sr.s, sr.v, sr.refused = &s, &v, nil
}

// cheaperBesideGangs looks for a cheaper outcome if the cost is not a sum over victims because of
// gangs. If the search does not count lost work, it calls fewerGangs.
//
// The first search counts the loss of a whole gang for each of its needed members. But a second
// victim in a gang adds no loss, because the first victim stops the gang already. So this function
// runs further searches. In each, the loss of some gangs does not count, and the needed members of
// the other gangs are protected. Then it compares the outcomes by their true cost.
func (sr *search) cheaperBesideGangs(f found) found {
	if sr.s.losses == nil {
		return sr.fewerGangs(f)
	}
	other := sync.OnceValues(sr.byPriorityToo)
	if len(sr.s.gangs) == 0 || len(f.victims) == 0 {
		return sr.orByPriority(f, other)
	}
	if f.score.LostWork == 0 {
		// The outcome f loses no work, so no other set loses less. If the search by priorities also
		// loses no work, no further search is needed.
		if g, ok := other(); ok && g.score.LostWork == 0 {
			return sr.orByPriority(f, other)
		}
	}
	s := sr.newGangSearch(f)
	if s.cheapestFirst(); len(s.gangs) == 0 && f.score.BrokenGangs == 0 {
		return sr.orByPriority(f, other)
	}
	s.breaking(nil)
	if !s.fewByLoss() {
		s.prefix(s.gangs, s.best.score.BrokenGangs)
		s.grow()
		s.shrinkByLoss()
	}
	return sr.orByPriority(s.best, other)
}

// losesMore reports whether an outcome that breaks all the given gangs loses more work than the
// best outcome. It ignores outcomes that break only some of these gangs, because the search for a
// smaller set finds such outcomes.
func (s *gangSearch) losesMore(some []*gangAtRisk) bool {
	if s.s.losses == nil || s.best.score.BrokenBudgets > 0 {
		return false
	}
	sum := int64(0)
	for _, g := range some {
		sum += s.lossOf(g)
	}
	return sum > s.best.score.LostWork
}

// orByPriority returns the cheaper of f and the outcome of other. If f is certain to be the
// cheapest, other is not called. This is so if the search was exact, costs add up, and the policy
// has no bounds on sets of victims.
func (sr *search) orByPriority(f found, other func() (found, bool)) found {
	isExact := f.proven && !sr.v.anyStateful && !sr.policy.bounded()
	if isExact && sr.addsUp() {
		return f
	}
	if g, ok := other(); ok && better(g.score, f.score) < 0 {
		return g
	}
	return f
}

// byPriorityToo is byPriority after a search that has counted lost work. That search has run the
// plain algorithm for a gang (see plain), so byPriorityToo does not run it again.
func (sr *search) byPriorityToo() (found, bool) {
	sub := *sr
	sub.hasPlain = sr.p.Gang
	return sub.byPriority()
}

// byPriority returns the outcome of a search that does not count lost work. The lost work in its
// score is then computed.
func (sr *search) byPriority() (found, bool) {
	sub := *sr
	sub.withLosses(nil)
	f, ok := sub.bestDomain()
	if !ok {
		return found{}, false
	}
	f = sub.fewerGangs(f)
	f.score.LostWork = sr.s.losses.together(f.victims)
	return f, true
}

// lossOf returns the work that is lost if a gang stops.
func (s *gangSearch) lossOf(g *gangAtRisk) int64 { return s.s.losses.gang(g.uid) }

// cheapestFirst sorts the gangs by their lost work, the lowest first. It removes each gang that
// loses more work than the best outcome.
func (s *gangSearch) cheapestFirst() {
	if s.best.score.BrokenBudgets == 0 {
		s.gangs = slices.DeleteFunc(s.gangs, func(g *gangAtRisk) bool {
			if s.lossOf(g) <= s.best.score.LostWork {
				return false
			}
			for _, u := range g.units {
				s.at[u] = outOfReach
			}
			return true
		})
	}
	s.sort(func(a, b *gangAtRisk) int { return cmp.Compare(s.lossOf(a), s.lossOf(b)) })
}

// fewByLoss tries all sets of gangs that may give a cheaper outcome, the smallest sets first. It
// stops at the first size that has more sets than tries are left. It returns true if it tried all
// sets.
func (s *gangSearch) fewByLoss() bool {
	least := int64(0)
	for size := 1; size <= len(s.gangs); size++ {
		if least += s.lossOf(s.gangs[size-1]); least > s.best.score.LostWork {
			return true
		}
		if !areFew(len(s.gangs), size, s.tries) {
			return false
		}
		s.ofSize(size, 0, nil)
	}
	return true
}

// grow starts with the gangs that the best outcome breaks. It adds one other gang at a time and
// searches again.
func (s *gangSearch) grow() {
	some := s.broken(s.best)
	for _, g := range s.gangs {
		if slices.Contains(some, g) {
			continue
		}
		more := append(slices.Clip(some), g)
		if s.tries == 0 || s.losesMore(more) {
			// The loss of each later gang is at least as high.
			return
		}
		if _, ok := s.breaking(more); ok {
			some = s.broken(s.best)
		}
	}
}

// shrinkByLoss removes one gang at a time from the gangs that the best outcome breaks, and searches
// again. It starts with the gang that loses the most work.
func (s *gangSearch) shrinkByLoss() {
	for _, g := range slices.Backward(s.gangs) {
		if s.tries == 0 {
			return
		}
		some := s.broken(s.best)
		if at := slices.Index(some, g); at >= 0 {
			s.breaking(slices.Delete(slices.Clone(some), at, at+1))
		}
	}
}
