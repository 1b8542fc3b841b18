package core

import (
	"cmp"
	"math"
	"slices"
)

// domainProspect is a topology domain that may have enough room for the gang, with lower bounds of
// the cost of its outcome. Each bound is valid regardless of the values of the other criteria. So
// domains may be compared by one bound after the other, in the order of the criteria.
type domainProspect struct {
	domain *domain
	// places is the number of members that fit without evictions, if each class is counted alone.
	places int
	// ceiling, lost, sum and pods are lower bounds for HighestPriority, LostWork, PrioritySum and
	// Pods of the outcome's Score.
	ceiling   int32
	lost, sum int64
	pods      int
}

// domainBounds computes the bounds of domains from the columns alone. Rules about other pods can
// only make more evictions necessary, so the bounds are valid for every oracle.
type domainBounds struct {
	*problem
	// need is the number of members that must be placed.
	need int
	// class is the index of the only class with members; -1 if several classes have members.
	class int
	// levels are the distinct priorities of potential victims, in ascending order.
	levels []int32
	room   []int64
	rates  []nodeRate
	lost   []int64
}

// nodeRate has lower bounds of the cost of room on one node, per additional member. gain is the
// maximum number of additional members.
type nodeRate struct {
	gain            int
	lost, sum, pods float64
}

func (sr *search) newDomainBounds() *domainBounds {
	b := &domainBounds{problem: sr.v, need: max(sr.p.MinCount, 1), class: sr.onlyClass(), room: make([]int64, sr.v.dims)}
	if slices.ContainsFunc(sr.p.Classes[b.class+1:], func(c Class) bool { return len(c.Members) > 0 }) {
		b.class = -1
	}
	for priority, n := range sr.v.c.perPriority {
		if n > 0 && int64(priority) < sr.v.victims.below {
			b.levels = append(b.levels, priority)
		}
	}
	slices.Sort(b.levels)
	return b
}

// top returns the highest priority of a potential victim; MinInt32 if there is none.
func (b *domainBounds) top() int32 {
	if len(b.levels) == 0 {
		return math.MinInt32
	}
	return b.levels[len(b.levels)-1]
}

// membersUpTo returns an upper bound of the number of members that fit in a domain if the potential
// victims up to a priority are evicted. The result is at most the number of members that the gang
// needs.
func (b *domainBounds) membersUpTo(d *domain, level int32) int {
	below, fit := min(int64(level)+1, b.victims.below), 0
	for c := range b.wanted {
		left := min(len(b.p.Classes[c].Members), b.need-fit)
		for _, n := range d.nodes {
			if left <= 0 {
				break
			}
			if count := b.membersOn(c, n, below, left); count > 0 {
				fit += count
				left -= count
			}
		}
	}
	return fit
}

// membersOn returns the number of members of a class that fit on node n if the potential victims
// with a priority lower than below are evicted. The result is limited to most.
func (b *domainBounds) membersOn(class int, n int32, below int64, most int) int {
	if !b.c.sound[n] {
		return 0
	}
	col, free := b.column(n), b.freeLater(n)
	for r, v := range col.sum(col.count(below), b.dims) {
		b.room[r] = free[r] + v
	}
	count := howMany(b.wanted[class], b.room, most)
	if count == 0 || !b.admitsNode(class, n) {
		return 0
	}
	return count
}

// prospect returns the bounds of a domain. The gang must fit in the domain if all potential victims
// are evicted.
func (b *domainBounds) prospect(d *domain) domainProspect {
	pr := domainProspect{domain: d, ceiling: math.MinInt32}
	var fit int
	if fit, pr.places = b.placesIn(d, b.c.later); fit >= b.need {
		return pr
	}
	low, high := 0, len(b.levels)-1
	for low < high {
		mid := (low + high) / 2
		if b.membersUpTo(d, b.levels[mid]) >= b.need {
			high = mid
		} else {
			low = mid + 1
		}
	}
	// At least one victim has the priority pr.ceiling.
	pr.ceiling = b.levels[low]
	pr.pods, pr.sum = 1, weightOf(pr.ceiling, 1)
	if b.class >= 0 {
		b.addRates(&pr)
	}
	return pr
}

// addRates raises the bounds for a gang of one class. Each new bound is the lowest cost under the
// assumption that a fraction of a member can run on a node.
func (b *domainBounds) addRates(pr *domainProspect) {
	b.rates = b.rates[:0]
	missing := b.need
	for _, n := range pr.domain.nodes {
		now := b.membersOn(b.class, n, math.MinInt64, b.need)
		missing -= now
		if most := b.membersOn(b.class, n, b.victims.below, b.need); most > now {
			b.rates = append(b.rates, b.rate(n, now, most))
		}
	}
	pr.sum = max(pr.sum, b.cheapest(missing, func(r *nodeRate) float64 { return r.sum }))
	pr.pods = max(pr.pods, int(b.cheapest(missing, func(r *nodeRate) float64 { return r.pods })))
	if b.s.losses != nil {
		pr.lost = b.cheapest(missing, func(r *nodeRate) float64 { return r.lost })
	}
}

// rate returns lower bounds of the cost of additional members on node n. It assumes that each unit
// frees as much room as the largest unit of the node. It also assumes that each unit has only one
// pod. Both assumptions can only lower the cost.
func (b *domainBounds) rate(n int32, now, most int) nodeRate {
	col, free, widest := b.column(n), b.freeLater(n), b.c.widest[int(n)*b.dims:][:b.dims]
	lost, count := b.leastLost(col), col.count(b.victims.below)
	best := nodeRate{gain: most - now, lost: math.Inf(1), sum: math.Inf(1), pods: math.Inf(1)}
	units, sum, work := 0, int64(0), int64(0)
	for k := now + 1; k <= most; k++ {
		least := int64(0)
		for r, w := range b.wanted[b.class] {
			if short := w*int64(k) - free[r]; w > 0 && short > 0 && widest[r] > 0 {
				least = max(least, (short-1)/widest[r]+1)
			}
		}
		for ; units < min(int(least), count); units++ {
			sum += weightOf(col.priorities[units], 1)
			if lost != nil {
				work = min(work+lost[units], maxLoss)
			}
		}
		gain := float64(k - now)
		best.sum, best.pods, best.lost = min(best.sum, float64(sum)/gain), min(best.pods, float64(units)/gain), min(best.lost, float64(work)/gain)
	}
	return best
}

// leastLost returns lower bounds of the lost work per pod of the potential victims on a node, in
// ascending order. It returns nil if the search does not compare lost work. The result is valid
// until the next call.
func (b *domainBounds) leastLost(col *nodeColumn) []int64 {
	if b.s.losses == nil {
		return nil
	}
	b.lost = b.lost[:0]
	for _, u := range col.units[:col.count(b.victims.below)] {
		b.lost = append(b.lost, b.s.losses.least(u)/int64(len(b.s.Units[u].Pods)))
	}
	slices.Sort(b.lost)
	return b.lost
}

// cheapest returns a lower bound of the cost of room for a number of members. The function of
// returns the cost per member on a node. The bound is the sum of the lowest of these costs. True
// costs are whole numbers. So cheapest subtracts the maximum floating-point error from the sum, and
// rounds up.
func (b *domainBounds) cheapest(members int, of func(r *nodeRate) float64) int64 {
	slices.SortFunc(b.rates, func(x, y nodeRate) int { return cmp.Compare(of(&x), of(&y)) })
	cost := 0.0
	for i := range b.rates {
		if members <= 0 {
			break
		}
		gain := min(b.rates[i].gain, members)
		members -= gain
		cost += float64(gain) * of(&b.rates[i])
	}
	const epsilon = 2.3e-16
	return int64(math.Ceil(cost - cost*epsilon*float64(len(b.rates)+4)))
}

// domainTie has bounds for the criteria that decide between domains with equal bounds in
// domainProspect.
type domainTie struct {
	// broken is the lowest possible number of broken gangs. surplus is the highest possible number
	// of surplus pods.
	broken, surplus int
	// repeated is a lower bound of the criterion Repeated.
	repeated int
	// start is an upper bound of the criterion EarliestStart.
	start int64
}

// tie returns the bounds of a domain, for victims with the ceiling of pr. Together, the victims
// have a number of pods of pr.pods or more.
func (b *domainBounds) tie(pr *domainProspect) domainTie {
	t := domainTie{start: math.MaxInt64}
	lower, spare := 0, 0
	var starts []int64
	var counts stopCounts
	needed := make(map[string]int)
	for _, n := range pr.domain.nodes {
		col := b.column(n)
		for i := range col.count(min(int64(pr.ceiling)+1, b.victims.below)) {
			unit := &b.s.Units[col.units[i]]
			if col.priorities[i] == pr.ceiling {
				starts = append(starts, col.starts[i])
			} else {
				lower++
			}
			t.surplus += unit.surplusPods()
			counts.add(b.s.stopped[col.units[i]], len(unit.Pods))
			if g := b.s.gangs.of(unit); g != nil && !unit.Surplus && g.counted.members == g.minCount {
				needed[unit.PodGroup]++
			} else {
				spare++
			}
		}
	}
	if b.c.spanning || b.anyStateful {
		// A unit may have pods outside of the domain, so its surplus pods have no upper bound here.
		t.surplus = math.MaxInt32
		return t
	}
	t.broken, t.repeated = fewestGangs(needed, pr.pods-spare), counts.least(pr.pods)
	if nth := max(pr.pods-lower, 1); nth <= len(starts) {
		slices.SortFunc(starts, func(x, y int64) int { return cmp.Compare(y, x) })
		t.start = starts[nth-1]
	}
	return t
}

// fewestGangs returns the smallest number of gangs that have at least count pods together.
func fewestGangs(pods map[string]int, count int) (gangs int) {
	sizes := make([]int, 0, len(pods))
	for _, n := range pods {
		sizes = append(sizes, n)
	}
	slices.SortFunc(sizes, func(a, b int) int { return cmp.Compare(b, a) })
	for _, n := range sizes {
		if count <= 0 {
			break
		}
		count -= n
		gangs++
	}
	return gangs
}
