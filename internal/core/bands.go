package core

import (
	"cmp"
	"fmt"
	"slices"
)

// Band is a range of priorities that count as equal when victims are compared. A band does not
// change which units may be evicted.
type Band struct {
	// Min and Max are the lowest and the highest priority in the band.
	Min, Max int32
}

// bands lists the priority bands of a decision, in ascending order.
type bands []Band

// of returns the lowest priority of the band that contains the given priority. A priority outside
// all bands is returned unchanged. Priorities in different bands keep their order.
func (b bands) of(priority int32) int32 {
	for i := range b {
		if b[i].Min <= priority && priority <= b[i].Max {
			return b[i].Min
		}
	}
	return priority
}

// distinct replaces each priority with the lowest priority of its band, and removes duplicates. The
// priorities must be in ascending order. The slice is changed in place.
func (b bands) distinct(priorities []int32) []int32 {
	if len(b) == 0 {
		return priorities
	}
	for i := range priorities {
		priorities[i] = b.of(priorities[i])
	}
	return slices.Compact(priorities)
}

// validate returns an error if the bands are not in ascending order, or if one band contains both
// system-critical and other priorities.
func (b bands) validate() error {
	for i := range b {
		switch {
		case b[i].Min > b[i].Max:
			return fmt.Errorf("%w: the band of priorities from %d to %d is empty", ErrBadInput, b[i].Min, b[i].Max)
		case b[i].Min < systemCritical && b[i].Max >= systemCritical:
			return fmt.Errorf("%w: the band of priorities from %d to %d has system-critical priorities and others", ErrBadInput, b[i].Min, b[i].Max)
		case i > 0 && b[i].Min <= b[i-1].Max:
			return fmt.Errorf("%w: the band of priorities from %d to %d does not begin above %d", ErrBadInput, b[i].Min, b[i].Max, b[i-1].Max)
		}
	}
	return nil
}

// inBands returns a copy of the search. There, the rank of each unit is the lowest priority of its
// band. Priorities at or above the preemptor's priority are not changed. Otherwise, units with such
// a priority might become potential victims, because they share a band with lower priorities.
func (sr *search) inBands(mem *scratch) *search {
	s, v := *sr.s, *sr.v
	s.bands = sr.p.Bands
	s.ranks, s.orders = mem.grades(len(s.Units))
	clear(s.orders)
	count := func(priority int32) int32 {
		if int64(priority) < sr.v.victims.below {
			return s.bands.of(priority)
		}
		return priority
	}
	for u := range s.Units {
		s.ranks[u] = count(s.Units[u].Priority)
	}
	c := sr.v.c
	d := mem.blank(c, len(s.Units))
	for priority, n := range c.perPriority {
		d.perPriority[count(priority)] += n
	}
	for n := range c.nodes {
		if len(c.nodes[n].units) > 0 {
			bandColumn(&s, mem, c, d, int32(n))
		}
	}
	s.columns = d
	v.s, v.c = &s, d
	v.narrowTo(sr.v.victims)
	return &search{
		s: &s, p: sr.p, v: &v, protections: sr.protections, policy: sr.policy, whole: sr.whole, nodes: sr.nodes, roomy: sr.roomy, thorough: sr.thorough,
	}
}

// bandColumn sorts the units of node n by their bands, then by the other criteria of importance. It
// reads the columns c and writes the columns d.
func bandColumn(s *Snapshot, mem *scratch, c, d *columns, n int32) {
	col, dims := &c.nodes[n], d.dims
	mem.used = append(mem.used, n)
	copy(d.widest[int(n)*dims:][:dims], c.widest[int(n)*dims:])
	out, count := *col, len(col.units)
	out.priorities = mem.numbers.take(count)
	for i, u := range col.units {
		out.priorities[i] = s.ranks[u]
	}
	leastFirst := func(x, y int32) int { return -compareUnits(s, col.units[x], col.units[y]) }
	positions := mem.numbers.take(count)
	for i := range positions {
		positions[i] = int32(i)
	}
	if !slices.IsSortedFunc(positions, leastFirst) {
		slices.SortFunc(positions, leastFirst)
		out.units, out.starts, out.sums = mem.numbers.take(count), mem.amounts.take(count), mem.amounts.take((count+1)*dims)
		clear(out.sums[:dims])
		for i, pos := range positions {
			out.units[i], out.priorities[i], out.starts[i] = col.units[pos], s.ranks[col.units[pos]], col.starts[pos]
			before, after := col.sum(int(pos), dims), col.sum(int(pos)+1, dims)
			last, next := out.sum(i, dims), out.sum(i+1, dims)
			for r := range next {
				next[r] = last[r] + after[r] - before[r]
			}
		}
	}
	d.nodes[n] = out
	d.sumUp(n)
	d.locate(n)
}

// compareBands compares two units by their priority bands, then by the other criteria of
// importance.
func (s *Snapshot) compareBands(a, b int32) int {
	x, y := &s.Units[a], &s.Units[b]
	return cmp.Or(cmp.Compare(s.bands.of(y.Priority), s.bands.of(x.Priority)), moreImportantOfEquals(x, y))
}
