package core

import (
	"cmp"
	"math"
	"slices"
)

// The reference for gangs of one class that depend only on room is exact. For each node and number
// of members, it finds the lowest cost, from the sets of units that no other set beats
// (refUnbeaten). Dynamic programming over the nodes then finds the best numbers of members.

// refCost is the cost of some units with the same ceiling. start is the earliest start of units
// whose priority is the ceiling.
type refCost struct {
	lost, sum, pods, surplus, repeated int64
	start                              int64
}

func refCostOf(c setCost) refCost {
	return refCost{c.lost, c.sum, int64(c.pods), int64(c.surplus), c.repeated, c.start}
}

func (c refCost) setCost() setCost {
	return setCost{price{c.lost, c.sum, int32(c.pods), int32(c.surplus), c.repeated}, c.start}
}

func (c refCost) plus(o refCost) refCost {
	return refCost{c.lost + o.lost, c.sum + o.sum, c.pods + o.pods, c.surplus + o.surplus, c.repeated + o.repeated, min(c.start, o.start)}
}

func (c refCost) compare(o refCost) int {
	return cmp.Or(
		cmp.Compare(c.lost, o.lost), cmp.Compare(c.sum, o.sum), cmp.Compare(c.pods, o.pods), cmp.Compare(o.surplus, c.surplus),
		cmp.Compare(c.repeated, o.repeated), cmp.Compare(o.start, c.start),
	)
}

// refUnit is a unit on one node: the room that it frees, and its cost.
type refUnit struct {
	frees []int64
	cost  refCost
}

// refSet is a set of units on one node: the room that it frees, and its cost.
type refSet struct {
	frees []int64
	cost  refCost
}

// refGang returns the score of the optimum for a gang of one class. All units must have one pod and
// no budget.
func refGang(s *Snapshot, p *Preemptor) (Score, bool) {
	eligible := refEligible(s, p)
	wanted := p.Classes[0].Request
	var levels []int32
	for _, u := range eligible {
		levels = append(levels, s.Units[u].Priority)
	}
	slices.Sort(levels)
	for _, level := range slices.Compact(levels) {
		units := make([][]refUnit, len(s.Nodes))
		room := 0
		all := map[int]bool{}
		for _, u := range eligible {
			unit := &s.Units[u]
			if unit.Priority > level {
				continue
			}
			all[u] = true
			c := refCost{lost: refLoss(s, p, u), sum: unitWeight(s, int32(u)), pods: 1, surplus: int64(unit.surplusPods()), start: math.MaxInt64}
			if p.CountsStops {
				c.repeated = int64(min(unit.Stops.Count, 3))
			}
			if unit.Priority == level {
				c.start = startOrLast(unit.Start)
			}
			n := unit.Pods[0].Node
			units[n] = append(units[n], refUnit{unit.Pods[0].Request, c})
		}
		for _, free := range refRoom(s, all) {
			room += refMembers(wanted, free)
		}
		if room >= p.MinCount {
			best, ok := refChoice(s, wanted, p.MinCount, units)
			return Score{
				HighestPriority: level, LostWork: best.lost, PrioritySum: best.sum, Pods: int(best.pods), Surplus: int(best.surplus),
				Repeated: int(best.repeated), EarliestStart: best.start,
			}, ok
		}
	}
	return Score{}, false
}

func refMembers(wanted, free []int64) int {
	n := math.MaxInt32
	for r, w := range wanted {
		if w > 0 {
			n = min(n, int(max(free[r], 0)/w))
		}
	}
	return n
}

// refChoice returns the lowest cost of room for need members, by dynamic programming over the
// nodes.
func refChoice(s *Snapshot, wanted []int64, need int, units [][]refUnit) (refCost, bool) {
	free := refRoom(s, nil)
	none := refCost{sum: -1}
	best := make([]refCost, need+1)
	for m := range best {
		best[m] = none
	}
	best[0] = refCost{start: math.MaxInt64}
	for n := range s.Nodes {
		next := slices.Repeat([]refCost{none}, need+1)
		now := refMembers(wanted, free[n])
		for k := now; k <= max(now, need); k++ {
			c, ok := refNodeCost(wanted, free[n], k, units[n])
			if !ok {
				break
			}
			for m, old := range best {
				if old == none {
					continue
				}
				to := min(m+k, need)
				if sum := old.plus(c); next[to] == none || sum.compare(next[to]) < 0 {
					next[to] = sum
				}
			}
		}
		best = next
	}
	return best[need], best[need] != none
}

// refNodeCost returns the lowest cost of room for the given number of members on a node.
func refNodeCost(wanted, free []int64, members int, units []refUnit) (refCost, bool) {
	short := make([]int64, len(wanted))
	for r, w := range wanted {
		if w > 0 {
			short[r] = max(0, w*int64(members)-free[r])
		}
	}
	sets := []refSet{{make([]int64, len(wanted)), refCost{start: math.MaxInt64}}}
	for _, u := range units {
		more := make([]refSet, 0, 2*len(sets))
		for _, set := range sets {
			frees := slices.Clone(set.frees)
			for r := range frees {
				frees[r] = min(frees[r]+u.frees[r], short[r])
			}
			more = append(more, refSet{frees, set.cost.plus(u.cost)})
		}
		sets = refUnbeaten(append(more, sets...))
	}
	for _, set := range sets {
		if slices.Equal(set.frees, short) {
			return set.cost, true
		}
	}
	return refCost{}, false
}

// refUnbeaten removes every set that frees no more than another set and costs no less.
func refUnbeaten(sets []refSet) []refSet {
	slices.SortFunc(sets, func(a, b refSet) int {
		return cmp.Or(a.cost.compare(b.cost), -slices.Compare(a.frees, b.frees))
	})
	kept := sets[:0]
	for _, set := range sets {
		beaten := slices.ContainsFunc(kept, func(k refSet) bool {
			for r, f := range set.frees {
				if f > k.frees[r] {
					return false
				}
			}
			return true
		})
		if !beaten {
			kept = append(kept, set)
		}
	}
	return kept
}
