package core

import (
	"cmp"
	"slices"
	"strings"
)

// addsUp reports whether the cost of a set of victims is the sum of its units' costs. Lost work is
// not if some gang may fall below minCount: the gang stops, whichever member is evicted first.
// With budgets, the cheapest units may break a budget.
func (sr *search) addsUp() bool {
	return sr.s.losses == nil || len(sr.s.gangs) == 0 && !sr.v.c.budgeted
}

// payFor makes the loss of some gangs not count, because they stop anyway.
func (sr *search) payFor(gangs map[string]bool) {
	if sr.s.losses == nil {
		return
	}
	s, v := *sr.s, *sr.v
	s.losses = s.losses.paying(gangs)
	v.s = &s
	sr.s, sr.v = &s, &v
}

// cheaperBesideGangs looks for a cheaper outcome where costs do not add up because of gangs. If
// lost work does not count, that is an outcome with fewer gangs below minCount.
//
// The searches charge the loss of a whole gang for each of its needed members. So they prefer other
// victims to a second member of a gang that stops anyway. This search runs them again, each time
// with some gangs that stop and cost nothing, and all other gangs protected. It compares the
// outcomes by their true cost. The search by priorities competes too.
func (sr *search) cheaperBesideGangs(f found) found {
	if sr.s.losses == nil {
		return sr.fewerGangs(f)
	}
	if len(sr.s.gangs) == 0 || len(f.victims) == 0 {
		return sr.orByPriority(f)
	}
	s := sr.newGangSearch(f)
	s.cheapestFirst()
	s.breaking(nil)
	if !s.fewByLoss() {
		s.grow()
		s.shrinkByLoss()
	}
	return sr.orByPriority(s.best)
}

// orByPriority lets the search by priorities compete, unless the outcome is known to be the
// cheapest. So counting lost work never makes an outcome worse.
func (sr *search) orByPriority(f found) found {
	isExact := !sr.p.Gang && !sr.v.anyStateful || f.proven
	if isExact && sr.addsUp() {
		return f
	}
	sub, s, v := *sr, *sr.s, *sr.v
	s.losses = nil
	v.s = &s
	sub.s, sub.v, sub.refused = &s, &v, nil
	g, ok := sub.bestDomain()
	if !ok {
		return f
	}
	g = sub.fewerGangs(g)
	g.score.LostWork = sr.s.losses.together(g.victims)
	if better(g.score, f.score) < 0 {
		return g
	}
	return f
}

// lossOf returns the loss of a gang that stops.
func (s *gangSearch) lossOf(g *gangAtRisk) int64 { return s.s.losses.gang(g.uid) }

// cheapestFirst sorts the gangs by their loss, and drops each gang that costs more than the best
// outcome.
func (s *gangSearch) cheapestFirst() {
	if s.best.score.BrokenBudgets == 0 {
		s.gangs = slices.DeleteFunc(s.gangs, func(g *gangAtRisk) bool {
			if s.lossOf(g) < s.best.score.LostWork {
				return false
			}
			for _, u := range g.units {
				s.at[u] = outOfReach
			}
			return true
		})
	}
	slices.SortFunc(s.gangs, func(a, b *gangAtRisk) int {
		return cmp.Or(cmp.Compare(s.lossOf(a), s.lossOf(b)), strings.Compare(a.uid, b.uid))
	})
	for i, g := range s.gangs {
		for _, u := range g.units {
			s.at[u] = int32(i)
		}
	}
}

// fewByLoss tries all sets of gangs that may be part of a cheaper outcome, as long as the remaining
// tries cover all sets of a size. It reports whether they did.
func (s *gangSearch) fewByLoss() bool {
	least := int64(0)
	for size := 1; size <= len(s.gangs); size++ {
		if least += s.lossOf(s.gangs[size-1]); least >= s.best.score.LostWork {
			return true
		}
		if !areFew(len(s.gangs), size, s.tries) {
			return false
		}
		s.ofSize(size, 0, nil)
	}
	return true
}

// grow adds further gangs to the gangs that the best outcome breaks, one at a time.
func (s *gangSearch) grow() {
	for _, g := range s.gangs {
		if s.tries == 0 || s.lossOf(g) >= s.best.score.LostWork {
			return
		}
		if some := s.broken(s.best); !slices.Contains(some, g) {
			s.breaking(append(some, g))
		}
	}
}

// shrinkByLoss leaves out each of the gangs that the best outcome breaks, the one with the largest
// loss first.
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
