package core

import (
	"cmp"
	"slices"
	"strings"
)

// gangTries is the maximum number of searches for an outcome that breaks fewer gangs. A gang is
// broken if it falls below minCount. In a large cluster, the maximum is gangEffort divided by the
// number of units and nodes, and at least leastGangTries. With a stateful oracle, each unit and
// node counts statefulEffort times.
const gangTries, leastGangTries, gangEffort, statefulEffort = 128, 4, 200_000, 10

// fewerGangs looks for an outcome that breaks fewer gangs at the same cost by the criteria of
// KEP-5710.
//
// The number of broken gangs is not a sum over the victims, so the other searches have no lower
// bound for it. Instead, fewerGangs selects a set of gangs that may be broken. It protects the
// needed members of all other gangs, and runs the search. Small sets come first. If there are few
// sets, it tries all of them. Otherwise it starts with the gangs that the first outcome breaks, and
// removes gangs from this set. If the result is not exact, the plain algorithm is tried too.
func (sr *search) fewerGangs(f found) found {
	if f.score.BrokenGangs == 0 {
		return f
	}
	s := sr.newGangSearch(f)
	if _, ok := s.breaking(nil); ok {
		return s.best
	}
	if !s.few() {
		s.shrink()
		s.plainly()
	}
	return s.best
}

// newGangSearch returns a gangSearch that starts with the outcome f.
func (sr *search) newGangSearch(f found) *gangSearch {
	s := &gangSearch{search: sr, first: f, best: f}
	s.list()
	looks := s.units + len(sr.v.c.byName)
	if sr.v.anyStateful {
		looks *= statefulEffort
	}
	s.tries = max(min(gangTries, gangEffort/looks), leastGangTries)
	return s
}

// gangSearch tries sets of gangs that may be broken, to find a cheaper outcome.
type gangSearch struct {
	*search
	// first is the outcome to start with: the cheapest one if broken gangs do not count. best is
	// the cheapest outcome so far by all criteria.
	first, best found
	// gangs are the gangs with needed members among the potential victims. They are sorted by the
	// number of these members, the highest number first.
	gangs []*gangAtRisk
	// at maps the index of a unit to the index of its gang in gangs. The value is inNoGang for a
	// unit whose eviction breaks no gang, and outOfReach for a unit that is not a potential victim.
	at []int32
	// units is the number of potential victims up to the ceiling. tries is the number of searches
	// left.
	units, tries int
	// spare is true if a gang has more than minCount members. Then the search may evict members
	// without breaking the gang, even if they are not marked as surplus.
	spare bool
}

// Values of gangSearch.at for units that are in none of its gangs.
const inNoGang, outOfReach = -1, -2

// gangAtRisk is a gang with its needed members that are potential victims.
type gangAtRisk struct {
	uid   string
	units []int32
}

// list finds the gangs with needed members among the potential victims. Victims above the highest
// priority of the best outcome are not considered.
func (s *gangSearch) list() {
	byUID := make(map[string]*gangAtRisk)
	s.at = make([]int32, len(s.s.Units))
	for u := range s.s.Units {
		unit := &s.s.Units[u]
		s.at[u] = outOfReach
		if s.s.priority(int32(u)) > s.best.score.HighestPriority || !s.v.mayTake(int32(u)) {
			continue
		}
		s.units++
		s.at[u] = inNoGang
		if !s.s.gangs.isNeeded(unit) {
			continue
		}
		g := byUID[unit.PodGroup]
		if g == nil {
			whole := s.s.gangs.of(unit)
			s.spare = s.spare || whole.counted.members > whole.minCount
			g = &gangAtRisk{uid: unit.PodGroup}
			byUID[unit.PodGroup] = g
			s.gangs = append(s.gangs, g)
		}
		g.units = append(g.units, int32(u))
	}
	s.sort(func(a, b *gangAtRisk) int { return cmp.Compare(len(b.units), len(a.units)) })
}

// sort sorts the gangs by the given order, then by UID.
func (s *gangSearch) sort(order func(a, b *gangAtRisk) int) {
	slices.SortFunc(s.gangs, func(a, b *gangAtRisk) int { return cmp.Or(order(a, b), strings.Compare(a.uid, b.uid)) })
	for i, g := range s.gangs {
		for _, u := range g.units {
			s.at[u] = int32(i)
		}
	}
}

// mayHaveRoom reports whether the preemptor may fit if only the given gangs may be broken. The
// check only adds up columns, so it is fast. It makes most searches unnecessary.
func (s *gangSearch) mayHaveRoom(may map[string]bool) bool {
	class := s.onlyClass()
	if slices.ContainsFunc(s.p.Classes[class+1:], func(c Class) bool { return len(c.Members) > 0 }) {
		return true
	}
	goes := make([]bool, len(s.gangs))
	for i, g := range s.gangs {
		goes[i] = may[g.uid]
	}
	v, left, room := s.v, max(s.p.MinCount, 1), make([]int64, s.v.dims)
	for _, n := range v.c.byName {
		if !v.c.sound[n] {
			continue
		}
		copy(room, v.freeLater(n))
		col := v.column(n)
		for i, u := range col.units {
			if at := s.at[u]; at == outOfReach || at != inNoGang && !goes[at] {
				continue
			}
			before, after := col.sum(i, v.dims), col.sum(i+1, v.dims)
			for r := range room {
				room[r] += after[r] - before[r]
			}
		}
		if left -= howMany(v.wanted[class], room, left); left <= 0 {
			return true
		}
	}
	return false
}

// breaking searches for the cheapest outcome that breaks only the given gangs, and keeps it in best
// if it is cheaper. It returns the outcome and true if the outcome costs no more than best by the
// criteria of KEP-5710 and by lost work. If no tries are left, it returns false.
func (s *gangSearch) breaking(some []*gangAtRisk) (found, bool) {
	if s.losesMore(some) {
		return found{}, false
	}
	may := make(map[string]bool, len(some))
	for _, g := range some {
		may[g.uid] = true
	}
	if s.tries == 0 || !s.mayHaveRoom(may) {
		return found{}, false
	}
	s.tries--
	var left []int32
	for _, g := range s.gangs {
		if !may[g.uid] {
			left = append(left, g.units...)
		}
	}
	sub := *s.search
	sub.v, sub.refused = s.v.protecting(left), nil
	sub.withLosses(s.s.losses.paying(may))
	f, ok := sub.bestDomain()
	if !ok {
		return found{}, false
	}
	// Add the lost work of the gangs that may be broken, because this search did not count it.
	f.score.LostWork = s.s.losses.together(f.victims)
	if costMore(f.score, s.best.score) > 0 {
		return found{}, false
	}
	if better(f.score, s.best.score) < 0 {
		s.best = f
	}
	return f, true
}

// few tries all sets of gangs that may be better, the smallest sets first. A set must have fewer
// gangs than the first outcome breaks. few stops at the first size that has more sets than tries
// are left. It reports whether best is exact: no set was left out, and spare is false.
func (s *gangSearch) few() bool {
	for size := 1; size < s.first.score.BrokenGangs && size <= s.best.score.BrokenGangs; size++ {
		if !areFew(len(s.gangs), size, s.tries) {
			return false
		}
		s.ofSize(size, 0, nil)
	}
	return !s.spare
}

// plainly also runs the plain algorithm of KEP-5710, for gangs with one class or single pods.
func (s *gangSearch) plainly() {
	if s.best.score.BrokenGangs == 0 || s.hasPlain || s.p.Gang && (s.v.anyStateful || len(s.first.ws) > 1) {
		// With a stateful oracle or several classes, the first search has already run the plain
		// algorithm.
		return
	}
	sub := *s.search
	sub.thorough, sub.refused = true, nil
	if f, ok := sub.bestDomain(); ok && better(f.score, s.best.score) < 0 {
		s.best = f
	}
}

// ofSize tries each set of size gangs that contains chosen. The other gangs of the set come from
// s.gangs, starting at index from.
func (s *gangSearch) ofSize(size, from int, chosen []*gangAtRisk) {
	if len(chosen) == size {
		s.breaking(chosen)
		return
	}
	for i := from; i <= len(s.gangs)-(size-len(chosen)); i++ {
		s.ofSize(size, i+1, append(chosen, s.gangs[i]))
	}
}

// areFew reports whether a set of n gangs has at most limit subsets of the given size.
func areFew(n, size, limit int) bool {
	sets := 1
	for i := range size {
		if sets = sets * (n - i) / (i + 1); sets > limit {
			return false
		}
	}
	return true
}

// shrink looks for a small set of gangs such that the preemptor has room if only these gangs are
// broken. It starts with the shortest prefix of s.gangs that gives room. If no such prefix has
// fewer gangs than the first outcome breaks, it starts with a prefix of the gangs that this outcome
// breaks. Then it removes each gang that is not needed.
func (s *gangSearch) shrink() {
	few := s.broken(s.first)
	if prefix, ok := s.prefix(s.gangs, len(few)); ok {
		few = prefix
	} else if prefix, ok := s.prefix(few, len(few)); ok {
		few = prefix
	}
	for i := len(few) - 1; i >= 0 && len(few) > 1 && s.tries > 0; i-- {
		without := slices.Delete(slices.Clone(few), i, i+1)
		if f, ok := s.breaking(without); ok {
			few = s.broken(f)
			i = min(i, len(few))
		}
	}
}

// broken lists the gangs that an outcome breaks. It keeps the order of s.gangs.
func (s *gangSearch) broken(f found) []*gangAtRisk {
	broken := brokenGangs(s.s, f.victims)
	var out []*gangAtRisk
	for _, g := range s.gangs {
		if _, ok := broken[g.uid]; ok {
			out = append(out, g)
		}
	}
	return out
}

// prefix finds the shortest prefix of gangs such that breaking only these gangs gives room. The
// prefix must have fewer than limit gangs. If the gangs of this prefix may be broken, the cheapest
// outcome breaks some of them. prefix returns these gangs.
func (s *gangSearch) prefix(gangs []*gangAtRisk, limit int) ([]*gangAtRisk, bool) {
	limit = min(limit, len(gangs)+1)
	enough := func(count int) (found, bool) { return s.breaking(gangs[:count]) }
	low, high := 1, 1
	best, ok := found{}, false
	for ; high < limit; high *= 2 {
		if best, ok = enough(high); ok {
			break
		}
		low = high + 1
	}
	if !ok {
		return nil, false
	}
	for low < high {
		mid := (low + high) / 2
		if f, fits := enough(mid); fits {
			best, high = f, mid
		} else {
			low = mid + 1
		}
	}
	return s.broken(best), true
}
