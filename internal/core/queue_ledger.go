package core

import "slices"

// ledger adds up the usage of units that are evicted together, by queue and gang. It checks bounds
// on sets of units:
//
//   - A queue loses units only until its usage has reached its fair share or its quota.
//   - No reclaim leaves a queue below its quota.
//   - A gang inside its min-runtime loses only surplus members.
//   - The preemptor's own queues stay within their limits and shares. They may need evictions for
//     that.
//
// Except for the last bound, any part of a permitted set is also permitted.
type ledger struct {
	c       *queuePolicy
	pathUse *pathUse
	// taken has the usage of the added units, by queue and resource. most has the largest usage of
	// a single added unit, by top queue of a subtree and resource. Both fields are nil until a unit
	// is added.
	taken, most []int64
	// held has one entry per queue and resource. It is true if the queue's quota of the resource
	// protects an added unit; see [queuePolicy.holding].
	held []bool
	// left has the remaining running members of each gang with added units, by UID.
	left map[string]*Headcount
	// leaves has the leaf queues of the added units.
	leaves map[int32]bool
}

func newLedger(c *queuePolicy) *ledger {
	return &ledger{c: c, pathUse: newPathUse(c), left: make(map[string]*Headcount), leaves: make(map[int32]bool)}
}

// ledger returns an empty ledger. The ledger is valid until the next call.
func (c *queuePolicy) ledger() *ledger {
	if c.scratch == nil {
		c.scratch = newLedger(c)
	}
	c.scratch.clear()
	return c.scratch
}

// clear empties the ledger.
func (l *ledger) clear() {
	for leaf := range l.leaves {
		for q := leaf; q >= 0; q = l.c.t.Parent(q) {
			clear(l.taken[int(q)*l.c.t.Dims():][:l.c.t.Dims()])
			clear(l.most[int(q)*l.c.t.Dims():][:l.c.t.Dims()])
			clear(l.held[int(q)*l.c.t.Dims():][:l.c.t.Dims()])
		}
	}
	clear(l.leaves)
	clear(l.left)
	l.pathUse.clear()
}

// takenOf returns the usage of the added units of a queue; 0 for a nil ledger.
func (l *ledger) takenOf(q int32, r int) int64 {
	if l == nil || l.taken == nil {
		return 0
	}
	return l.taken[int(q)*l.c.t.Dims()+r]
}

// holds reports whether a queue's quota of a resource protects an added unit.
func (l *ledger) holds(q int32, r int) bool {
	return l != nil && l.held != nil && l.held[int(q)*l.c.t.Dims()+r]
}

// bound is the reason why units must not be evicted together. It is a bound on the usage of a
// queue, or on the lost members of a gang inside its min-runtime.
type bound struct {
	rule Rule
	// queue is the queue whose share, quota or limit is the bound; -1 for a gang.
	queue int32
	// name is the name of the queue.
	name string
	gang string
}

// take adds a unit if the bounds allow its eviction together with the added units. It reports
// whether it added the unit.
func (l *ledger) take(u int32) bool {
	c := l.c
	unit := &c.s.Units[u]
	reclaimed := c.reclaims(u)
	if reclaimed {
		if top := c.subtreeOf(c.leafOf[u]).top; !c.above(top, l) || c.belowQuota(u, l) >= 0 {
			return false
		}
	}
	if _, windowed := l.windowed(u); windowed && l.spareOf(unit) <= 0 {
		return false
	}
	l.add(u, reclaimed)
	return true
}

// windowed reports whether a unit is a member of an elastic gang inside its min-runtime. It returns
// the rule.
func (l *ledger) windowed(u int32) (Rule, bool) {
	if !elastic(&l.c.s.Units[u]) {
		return "", false
	}
	v, young := l.c.young(u)
	return v.Rule, young
}

// spareOf returns the number of further members with the unit's role that its gang may lose.
func (l *ledger) spareOf(u *Unit) int {
	left := l.left[u.PodGroup]
	if left == nil {
		left = l.c.runningOf(u)
	}
	return left.Spare(int(u.Membership.MinCount), u.Role)
}

func (l *ledger) add(u int32, reclaimed bool) {
	c := l.c
	unit := &c.s.Units[u]
	if elastic(unit) {
		left := l.left[unit.PodGroup]
		if left == nil {
			running := c.runningOf(unit).clone()
			left = &running
			l.left[unit.PodGroup] = left
		}
		left.Add(unit.Role, -1)
	}
	if !reclaimed {
		return
	}
	if l.taken == nil {
		l.taken, l.most, l.held = make([]int64, len(c.used)), make([]int64, len(c.used)), make([]bool, len(c.used))
	}
	leaf := c.leafOf[u]
	l.leaves[leaf] = true
	useUnit(c.t, l.taken, leaf, unit)
	top, use := c.subtreeOf(leaf).top, c.useOfAll(u)
	for q := leaf; ; q = c.t.Parent(q) {
		h, held := c.holding(q, use), l.held[int(q)*c.t.Dims():][:c.t.Dims()]
		for r := range held {
			held[r] = held[r] || h.By(r)
		}
		if q == top {
			break
		}
	}
	most := l.most[int(top)*c.t.Dims():][:c.t.Dims()]
	for r := range most {
		most[r] = max(most[r], use[r])
	}
}

// within adds units, and reports whether the preemptor may evict all of them. If not, it returns
// the bound that they exceed. The result does not depend on the order of the evictions, because
// only the usage after all evictions counts.
func (l *ledger) within(units []int32) (bound, bool) {
	for _, u := range units {
		l.add(u, l.c.reclaims(u))
		l.pathUse.free(u, 1)
	}
	return l.allows(units, l.pathUse)
}

// allows reports whether the bounds allow the eviction of the added units. s is the usage of the
// preemptor's queues after the evictions.
func (l *ledger) allows(units []int32, s *pathUse) (bound, bool) {
	return l.allowsWithin(units, s, s.reach())
}

// allowsWithin is allows for a preemptor with the reach after.
func (l *ledger) allowsWithin(units []int32, s *pathUse, after reach) (bound, bool) {
	c := l.c
	c.meter.add(len(units))
	for _, u := range units {
		if rule, windowed := l.windowed(u); windowed {
			if unit := &c.s.Units[u]; l.spareOf(unit) < 0 {
				return bound{rule: rule, queue: -1, gang: unit.PodGroup}, false
			}
		}
		if !c.reclaims(u) {
			continue
		}
		leaf := c.leafOf[u]
		top, steps := c.top(leaf), c.stepsTo(leaf)
		if steps > max(after.share, after.quota) {
			return c.bound(RuleOverShare, c.path[after.share]), false
		}
		if rule := l.keeps(top, steps, s, after); rule != "" {
			return c.bound(rule, top), false
		}
		if q := l.overdrawn(leaf, top); q >= 0 {
			return c.bound(RuleQuota, q), false
		}
	}
	return s.outgrown()
}

// bound returns a bound of the given queue.
func (c *queuePolicy) bound(rule Rule, queue int32) bound {
	return bound{rule: rule, queue: queue, name: c.t.Queue(queue).Name}
}

// keeps returns the rule that protects the queue top from the eviction of the added units; "" if
// the eviction is allowed. It is allowed if the queue was above its fair share or its quota before
// the last eviction. The largest unit counts as the last. The queue must also keep its quota of the
// same resource. steps is the distance of top on the preemptor's path.
//
// In addition, the preemptor's queue must use more of this resource after the preemption than
// before. Evictions in its own queues may give the preemptor a larger reach. With the larger reach,
// a reclaim by share must leave the other queue its fair share. A reclaim by quota must not lower
// the usage of a resource that makes the quota protect the preemptor. Otherwise two queues might
// reclaim from each other in turns.
func (l *ledger) keeps(top int32, steps int, s *pathUse, after reach) Rule {
	c := l.c
	byShare, byQuota, spent, sharesStay := false, false, false, steps <= after.share
	comesBack := steps <= after.quota && c.holdsNoLess(s)
	for _, r := range c.asks {
		at, share := int(top)*c.t.Dims()+r, c.shareOf(top, r)
		left := c.used[at] - l.taken[at]
		gains := s.after(0, r) > c.usedOf(c.leaf)[r]
		overShare := gains && left+l.most[at] > share
		overQuota := gains && comesBack && c.hasQuota(r) && left+l.most[at] > c.quotaOf(top, r)
		if left >= c.quotaOf(top, r) {
			byShare, byQuota = byShare || overShare, byQuota || overQuota
		} else {
			spent = spent || overShare || overQuota
		}
		sharesStay = sharesStay && (steps <= c.asIs.share || c.used[at] <= share || left >= share)
	}
	switch {
	case byQuota || byShare && sharesStay:
		return ""
	case spent:
		return RuleQuota
	default:
		return RuleFairShare
	}
}

// holdsNoLess reports whether the preemptor's queue uses at least as much as before of certain
// resources. These resources make the queue's quota protect the preemptor.
func (c *queuePolicy) holdsNoLess(s *pathUse) bool {
	h := c.holding(c.leaf, c.request)
	return !slices.ContainsFunc(c.asks, func(r int) bool { return h.By(r) && s.after(0, r) < c.usedOf(c.leaf)[r] })
}

// overdrawn returns a queue between leaf and top that would be below its quota; -1 for none. It
// considers only resources that make the quota protect an added unit.
func (l *ledger) overdrawn(leaf, top int32) int32 {
	t := l.c.t
	for q := leaf; ; q = t.Parent(q) {
		for r := range t.Dims() {
			at := int(q)*t.Dims() + r
			if l.held[at] && l.c.used[at]-l.taken[at] < l.c.quotaOf(q, r) {
				return q
			}
		}
		if q == top {
			return -1
		}
	}
}

// holds reports whether the bound limits the eviction of unit u.
func (b bound) holds(c *queuePolicy, u int32) bool {
	if b.queue < 0 {
		return c.s.Units[u].PodGroup == b.gang
	}
	return c.isBelow(u, b.queue) && c.reclaims(u)
}
