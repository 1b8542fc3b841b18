package core

import "slices"

// ledger keeps count of what is taken from each queue and each gang: a queue may be taken from only while it is above
// its fair share, or its quota, and never below its quota, and a gang inside its window loses no more than its surplus. That
// bounds sets of units, where a verdict is about each unit alone. Any part of a set within these bounds is within them; what
// the preemptor's own side comes to is bounded as well, and there it takes enough units.
type ledger struct {
	c       *queuePolicy
	pathUse *pathUse
	// taken is by queue and resource; most is the most that a single unit had, for the queues at the top of a subtree. Both
	// are nil as long as nothing has been.
	taken, most []int64
	// held is by queue and resource as well: whether the quota of that holds something that has been taken; see [queuePolicy.holding].
	held []bool
	// left is what remains of the running members of gangs that lose some, by UID.
	left map[string]*Headcount
	// leaves are those that something has been taken from.
	leaves map[int32]bool
}

func newLedger(c *queuePolicy) *ledger {
	return &ledger{c: c, pathUse: newPathUse(c), left: make(map[string]*Headcount), leaves: make(map[int32]bool)}
}

// ledger is an empty one, until the next call.
func (c *queuePolicy) ledger() *ledger {
	if c.scratch == nil {
		c.scratch = newLedger(c)
	}
	c.scratch.clear()
	return c.scratch
}

// clear has nothing taken.
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
	clear(l.pathUse.freed)
}

// takenOf is what has been taken of a queue's; nothing by no ledger.
func (l *ledger) takenOf(q int32, r int) int64 {
	if l == nil || l.taken == nil {
		return 0
	}
	return l.taken[int(q)*l.c.t.Dims()+r]
}

// holds reports whether a queue's quota of a resource holds something that has been taken.
func (l *ledger) holds(q int32, r int) bool {
	return l != nil && l.held != nil && l.held[int(q)*l.c.t.Dims()+r]
}

// bound is what keeps a unit from being taken beside others: a queue, or a gang's window.
type bound struct {
	rule Rule
	// queue is the one that bounds what is taken; -1 for a gang.
	queue int32
	// name is the queue's.
	name string
	gang string
}

// take adds a unit to what is taken, and reports whether it may be.
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

// windowed reports whether a unit belongs to an elastic gang inside its window.
func (l *ledger) windowed(u int32) (Rule, bool) {
	if !elastic(&l.c.s.Units[u]) {
		return "", false
	}
	v, young := l.c.young(u)
	return v.Rule, young
}

// spareOf is how many members like a unit may go from its gang beside those that have been taken.
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

// within reports whether a whole set of units may be taken for the preemptor, in some order, judged by what is there once they
// have gone; otherwise it names a bound.
func (l *ledger) within(units []int32) (bound, bool) {
	for _, u := range units {
		l.add(u, l.c.reclaims(u))
		l.pathUse.free(u, 1)
	}
	return l.allows(units, l.pathUse)
}

// allows reports whether units that have been added may be taken, given what the preemptor's side comes to.
func (l *ledger) allows(units []int32, s *pathUse) (bound, bool) {
	c, after := l.c, s.reach()
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

// bound is a queue's.
func (c *queuePolicy) bound(rule Rule, queue int32) bound {
	return bound{rule: rule, queue: queue, name: c.t.Queue(queue).Name}
}

// keeps says by which rule a queue that is so many steps away keeps what was taken, by what the preemptor's side comes to then; "" where it
// has that to spare: it was above its fair share, or its quota, until the largest unit was taken, last of all, and has its quota of what
// it was above.
//
// Where that side is entitled only because work of its own has gone, it has to have more afterwards than before: by share, the other
// queue keeps its fair share; by quota, it has no less of what its quota holds the preemptor by. That work came in free room, more
// of it would come in what the largest unit leaves over, and so the two would take in turns.
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

// holdsNoLess reports whether the preemptor's queue comes to no less than it has of what its quota holds the preemptor by.
func (c *queuePolicy) holdsNoLess(s *pathUse) bool {
	h := c.holding(c.leaf, c.request)
	return !slices.ContainsFunc(c.asks, func(r int) bool { return h.By(r) && s.after(0, r) < c.usedOf(c.leaf)[r] })
}

// overdrawn finds a queue between a leaf and the top of its subtree that is left with less than its quota of what holds something
// that was taken; -1 where there is none.
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

// holds reports whether a bound is about a unit.
func (b bound) holds(c *queuePolicy, u int32) bool {
	if b.queue < 0 {
		return c.s.Units[u].PodGroup == b.gang
	}
	return c.isBelow(u, b.queue) && c.reclaims(u)
}
