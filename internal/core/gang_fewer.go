package core

import (
	"cmp"
	"slices"
	"strings"
)

// gangTries bounds the searches for an outcome that takes fewer gangs below minCount. The larger the
// cluster, the fewer there are: gangEffort is how many units and nodes all of them may look at
// together, beyond leastGangTries. Where other pods matter, each look costs statefulEffort times as
// much.
const gangTries, leastGangTries, gangEffort, statefulEffort = 128, 4, 200_000, 10

// fewerGangs looks for an outcome that costs as much by the document's criteria and takes fewer
// gangs below minCount.
//
// The gangs that a set breaks do not add up over its units, so no bound of the searches knows them.
// But a search that leaves the needed members of all gangs alone, except some, finds the cheapest
// set that breaks no other gangs. So the searches stay as they are, and this one goes through the
// sets of gangs that may be broken: all of them, the small ones first, where they are few;
// otherwise from the gangs of the outcome at hand downwards. Where that is not exact, the plain
// algorithm competes.
func (sr *search) fewerGangs(f found) found {
	if f.score.BrokenGangs == 0 {
		return f
	}
	s := &gangSearch{search: sr, first: f, best: f}
	s.list()
	looks := s.units + len(sr.v.c.byName)
	if sr.v.anyStateful {
		looks *= statefulEffort
	}
	s.tries = max(min(gangTries, gangEffort/looks), leastGangTries)
	if _, ok := s.breaking(nil); ok {
		return s.best
	}
	if !s.few() {
		s.shrink()
		s.plainly()
	}
	return s.best
}

// gangSearch goes through sets of gangs that may be broken.
type gangSearch struct {
	*search
	// first is the cheapest outcome by all criteria but the gangs that it breaks, and best the
	// cheapest one so far.
	first, best found
	// gangs are those with potential victims that they need, the ones with the most such victims
	// first.
	gangs []*gangAtRisk
	// at is the place of each unit's gang in gangs, inNoGang for a unit that breaks none, and
	// outOfReach for one that stays.
	at []int32
	// units counts the potential victims up to the ceiling, and tries is how many searches are left.
	units, tries int
	// spare is true where a gang has members to spare: then others may go than those that are
	// marked as surplus.
	spare bool
}

// inNoGang and outOfReach stand for no gang; see gangSearch.at.
const inNoGang, outOfReach = -1, -2

// gangAtRisk is a gang with the members that it needs and that may be taken.
type gangAtRisk struct {
	uid   string
	units []int32
}

// list finds the gangs that an outcome as cheap as the best one may break.
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
	slices.SortFunc(s.gangs, func(a, b *gangAtRisk) int {
		return cmp.Or(cmp.Compare(len(b.units), len(a.units)), strings.Compare(a.uid, b.uid))
	})
	for i, g := range s.gangs {
		for _, u := range g.units {
			s.at[u] = int32(i)
		}
	}
}

// mayHaveRoom is a quick look at whether there could be room with no other gangs broken than some,
// whatever it costs. It is arithmetic on the columns, and spares most searches.
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

// breaking searches for the cheapest outcome that breaks no other gangs than some. It keeps the
// best one so far, and reports whether the document's criteria allow for it, and false where no
// tries are left.
func (s *gangSearch) breaking(some []*gangAtRisk) (found, bool) {
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
	f, ok := sub.bestDomain()
	if !ok || costMore(f.score, s.best.score) > 0 {
		return found{}, false
	}
	if better(f.score, s.best.score) < 0 {
		s.best = f
	}
	return f, true
}

// few tries all small sets of gangs, as long as there are tries for all sets of a size, and reports
// whether the best outcome is exact as far as the searches are. One that breaks as many gangs as
// the first outcome is no better: that was the best of all.
func (s *gangSearch) few() bool {
	for size := 1; size < s.first.score.BrokenGangs && size <= s.best.score.BrokenGangs; size++ {
		if !areFew(len(s.gangs), size, s.tries) {
			return false
		}
		s.ofSize(size, 0, nil)
	}
	return !s.spare
}

// plainly has the plain algorithm compete.
func (s *gangSearch) plainly() {
	if s.best.score.BrokenGangs == 0 || s.p.Gang && (s.v.anyStateful || len(s.first.ws) > 1) {
		// In the latter case it has competed already.
		return
	}
	sub := *s.search
	sub.thorough, sub.refused = true, nil
	if f, ok := sub.bestDomain(); ok && better(f.score, s.best.score) < 0 {
		s.best = f
	}
}

// ofSize tries all sets of a size that begin with some gangs and go on with those from a position
// on.
func (s *gangSearch) ofSize(size, from int, chosen []*gangAtRisk) {
	if len(chosen) == size {
		s.breaking(chosen)
		return
	}
	for i := from; i <= len(s.gangs)-(size-len(chosen)); i++ {
		s.ofSize(size, i+1, append(chosen, s.gangs[i]))
	}
}

// areFew reports whether there are no more sets of a size among n than a limit.
func areFew(n, size, limit int) bool {
	sets := 1
	for i := range size {
		if sets = sets * (n - i) / (i + 1); sets > limit {
			return false
		}
	}
	return true
}

// shrink looks for a small set of gangs of which the first outcome's breaking is enough: by halves,
// a prefix of all gangs, then one of those that are broken, without each that is not needed.
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

// broken lists the gangs that an outcome breaks, in the order of all.
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

// prefix finds the shortest prefix of some gangs, shorter than a limit, that is enough to break,
// and returns those of it that are broken.
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
