package core

import "slices"

// setsEffort is the maximum effort for all sets of units that are tried. leastEffort is the maximum
// effort of leastImportant, which counts only checks for room and not the moves of units.
const (
	setsEffort  = 200_000
	leastEffort = 5 * setsEffort
)

// wholeSets searches for the cheapest set of potential victims that gives enough room and that the
// bounds allow. If it reaches the maximum effort, it has tried the most likely sets first: those
// with the least important units.
type wholeSets struct {
	*search
	c  *queuePolicy
	ws []want
	t  *simulation
	k  roomKeeper
	// pool has the potential victims, most important first. out has the units of pool that are
	// removed for good. goThrough first removes all units of pool from t.
	pool, out []int32
	// pathUse is the usage of the queues on the preemptor's path after all removed units are
	// evicted.
	pathUse *pathUse
	best    found
	any     bool
	// effort is the cost of moving one unit. left is the remaining effort.
	effort, left int
}

// wholeSets searches sets of units and returns the cheapest outcome. It runs after the search in
// the order of units has found only a set that exceeds a bound. beyond is the rule of this bound.
func (sr *search) wholeSets(beyond Rule) (found, bool) {
	if sr.v.domains != nil {
		f, ok := sr.cheapestDomain(func(sub *search) (found, bool) {
			// If the limit of a queue blocks the preemptor, include units outside of the domain:
			// their eviction lowers the usage of the queue too.
			sub.v.within, sub.v.victims.count = nil, sr.v.victims.count
			return sub.wholeSets(beyond)
		})
		sr.compared = f.compared
		return f, ok
	}
	e, ok := sr.newWholeSets()
	if !ok {
		return found{}, false
	}
	defer e.t.allBack()
	e.narrow(beyond)
	switch {
	case !e.tooMany():
		e.goThrough()
	case beyond == RuleLimit:
		e.leastImportant()
	}
	g := &gang{search: sr, ws: e.ws}
	return e.best, e.any && g.place(&e.best)
}

// newWholeSets returns a search over sets of the potential victims. It returns false if the policy
// has no bounds on sets, or if there is no room even with all potential victims evicted.
func (sr *search) newWholeSets() (*wholeSets, bool) {
	c, isBounded := sr.policy.(*queuePolicy)
	if !isBounded {
		return nil, false
	}
	t := newSimulation(sr.v, sr.v.c.later)
	ws, ok := sr.insist(t)
	t.allBack()
	if !ok {
		return nil, false
	}
	e := &wholeSets{search: sr, c: c, ws: ws, t: t, k: &packer{simulation: t, ws: ws}, pathUse: newPathUse(c), effort: 1, left: setsEffort}
	switch counts := len(ws) == 1 && !sr.v.anyStateful; {
	case counts:
		e.k = newCounter(t, ws[0])
	case sr.v.anyStateful:
		e.effort += len(sr.s.Nodes)
	default:
		e.effort += len(sr.s.Nodes) / 8
	}
	e.pool = sr.v.eligible(int32(sr.v.victims.below - 1))
	return e, true
}

// narrow removes from pool the units that no allowed set needs, and sorts the other units. If the
// limit of a queue blocks the preemptor, only units below this queue help. The other units are
// removed only if there would be too many sets.
func (e *wholeSets) narrow(beyond Rule) {
	if beyond == RuleLimit && e.tooMany() {
		limited := e.pathUse.highestOverLimit()
		e.pool = slices.DeleteFunc(e.pool, func(u int32) bool { return !e.c.isBelow(u, limited) })
	}
	if e.c.leaf >= 0 {
		e.pool = e.c.reclaimable(e.pool)
	}
	sortByImportance(e.s, e.pool)
}

// tooMany reports whether trying all sets would take too long.
func (e *wholeSets) tooMany() bool { return 4*len(e.pool)*e.effort > setsEffort }

// goThrough tries all sets, the sets without the most important units first.
func (e *wholeSets) goThrough() {
	for _, u := range e.pool {
		e.remove(u)
	}
	if e.possible() {
		e.from(0)
	}
	e.t.restoreAll(e.pool)
}

// leastImportant evicts the least important units until the limits allow the preemptor and there is
// room. Then it reprieves units, the most important first. Units that break a budget are evicted
// last and reprieved first. If the effort is used up, there is no result.
func (e *wholeSets) leastImportant() {
	defer func() { e.t.restoreAll(e.out) }()
	leastFirst := slices.Clone(e.pool)
	slices.Reverse(leastFirst)
	breaking, others := splitByBudgets(e.s, leastFirst)
	left, l := slices.Concat(others, breaking), newLedger(e.c)
	take := func(count int) {
		for ; count > 0 && len(left) > 0; count-- {
			if u := left[0]; l.take(u) {
				e.letGo(u)
				e.out = append(e.out, u)
			}
			left = left[1:]
		}
	}
	for e.pathUse.overLimit() >= 0 && len(left) > 0 {
		take(1)
	}
	e.left = leastEffort
	for step := 1; !e.suffices(); step *= 2 {
		if len(left) == 0 || e.left < 0 {
			return
		}
		take(step)
	}
	slices.Reverse(e.out)
	if e.reprieve(); e.left >= 0 {
		sortByImportance(e.s, e.out)
		e.consider()
	}
}

// reprieve restores units of out in order. It tries to restore several units at a time, to save
// checks.
func (e *wholeSets) reprieve() {
	for i, step := 0, 1; i < len(e.out) && e.left >= 0; {
		step = min(step, len(e.out)-i)
		was, back := e.out, e.out[i:i+step]
		for _, u := range back {
			e.bringBack(u)
		}
		if e.out = slices.Concat(was[:i], was[i+step:]); e.suffices() {
			step *= 2
			continue
		}
		for _, u := range back {
			e.letGo(u)
		}
		if e.out = was; step == 1 {
			i++
		}
		step = max(step/2, 1)
	}
}

// suffices is like possible, but subtracts the effort of the check from left. It is for searches
// where the check for room takes long and moving units does not.
func (e *wholeSets) suffices() bool {
	if !e.allowed() {
		return false
	}
	e.left -= e.effort
	return e.k.room()
}

// isBelow reports whether a unit counts as usage of a queue, directly or through a queue below it.
func (c *queuePolicy) isBelow(u, queue int32) bool {
	for q := c.leafOf[u]; q >= 0; q = c.t.Parent(q) {
		if q == queue {
			return true
		}
	}
	return false
}

// from tries the sets for the units of pool from position i on. The search has already decided
// about the earlier units. First, from restores as many of the most important units as possible,
// then fewer.
func (e *wholeSets) from(i int) {
	kept := e.keep(i)
	if kept == len(e.pool) {
		e.consider()
	} else {
		e.without(kept)
	}
	for k := kept - 1; k >= i; k-- {
		e.remove(e.pool[k])
		e.without(k)
	}
}

// without keeps the unit at position k of pool removed and tries the positions after k.
func (e *wholeSets) without(k int) {
	e.out = append(e.out, e.pool[k])
	// The next check looks at all removed units. Count this effort only if a set has already been
	// found, so that it cannot end the search for the first set.
	if e.any {
		e.left -= len(e.out)
	}
	if e.left > 0 && (!e.any || better(scoreOf(e.s, e.out), e.best.score) < 0) && e.possible() {
		e.from(k + 1)
	}
	e.out = e.out[:len(e.out)-1]
}

// keep restores units from position i of pool until a unit does not fit. It returns the position of
// this unit.
func (e *wholeSets) keep(i int) int {
	for step := 1; step > 0 && i < len(e.pool) && e.left > 0; {
		step = min(step, len(e.pool)-i)
		for _, u := range e.pool[i : i+step] {
			e.restore(u)
		}
		if e.possible() {
			i, step = i+step, 2*step
			continue
		}
		for _, u := range e.pool[i : i+step] {
			e.remove(u)
		}
		step /= 2
	}
	return i
}

// possible reports whether the units in the field out may be the victims. The bounds must allow
// their eviction, and there must be room with all removed units gone.
//
// Bounds on reclaimed units depend on the usage of the preemptor's own queue after the evictions.
// The units of this queue come first in pool. So the search has already decided about the queue's
// units when it removes a reclaimed unit for good.
func (e *wholeSets) possible() bool { return e.allowed() && e.k.room() }

// allowed reports whether the bounds allow the eviction of the units in the field out.
func (e *wholeSets) allowed() bool {
	if !e.mayGive() {
		return false
	}
	l := e.c.ledger()
	for _, u := range e.out {
		l.add(u, e.c.reclaims(u))
	}
	_, ok := l.allows(e.out, e.pathUse)
	return ok
}

// mayGive reports whether the bounds may allow the eviction of the last unit in out. It assumes
// that no other unit of the same queue is evicted, so it needs no ledger. It rejects most sets.
func (e *wholeSets) mayGive() bool {
	if len(e.out) == 0 || !e.c.reclaims(e.out[len(e.out)-1]) {
		return true
	}
	c, after := e.c, e.pathUse.reach()
	leaf := c.leafOf[e.out[len(e.out)-1]]
	top, steps := c.top(leaf), c.stepsTo(leaf)
	byShare, byQuota := steps <= max(after.share, after.quota), steps <= after.quota && c.holdsNoLess(e.pathUse)
	return slices.ContainsFunc(c.asks, func(r int) bool {
		used := c.usedOf(top)[r]
		isOver := byShare && used > c.shareOf(top, r) || byQuota && c.hasQuota(r) && used > c.quotaOf(top, r)
		return isOver && e.pathUse.after(0, r) > c.usedOf(c.leaf)[r]
	})
}

func (e *wholeSets) remove(u int32) {
	e.letGo(u)
	e.left -= e.effort
}

func (e *wholeSets) restore(u int32) {
	e.bringBack(u)
	e.left -= e.effort
}

func (e *wholeSets) letGo(u int32) {
	e.k.remove(u)
	e.pathUse.free(u, 1)
}

func (e *wholeSets) bringBack(u int32) {
	e.k.restore(u)
	e.pathUse.free(u, -1)
}

// consider keeps the set of units in out as the outcome if it is the cheapest so far.
func (e *wholeSets) consider() {
	if sc := scoreOf(e.s, e.out); !e.any || better(sc, e.best.score) < 0 {
		e.best = found{ws: e.ws, victims: slices.Clone(e.out), score: sc, ceiling: sc.HighestPriority}
		e.any = true
	}
}
