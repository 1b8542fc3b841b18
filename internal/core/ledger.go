package core

// ledger keeps count of what is taken from each queue and each gang: a queue may be taken from only while it is above
// its fair share, and never below its quota, and a gang inside its window loses no more than its surplus. That
// bounds sets of units, where a verdict is about each unit alone. Any part of a set within bounds is within bounds.
type ledger struct {
	c *contest
	// taken is by queue and resource; most is the most that a single unit had, for the queues at the top of a side. Both
	// are nil as long as nothing has been.
	taken, most []int64
	gone        map[string]int
	// leaves are those that something has been taken from.
	leaves map[int32]bool
}

func newLedger(c *contest) *ledger {
	return &ledger{c: c, gone: make(map[string]int), leaves: make(map[int32]bool)}
}

// ledger is an empty one, until the next call.
func (c *contest) ledger() *ledger {
	if c.scratch == nil {
		c.scratch = newLedger(c)
	}
	c.scratch.clear()
	return c.scratch
}

// clear has nothing taken.
func (l *ledger) clear() {
	for leaf := range l.leaves {
		for q := leaf; q >= 0; q = l.c.t.nodes[q].parent {
			clear(l.taken[int(q)*l.c.t.dims:][:l.c.t.dims])
			clear(l.most[int(q)*l.c.t.dims:][:l.c.t.dims])
		}
	}
	clear(l.leaves)
	clear(l.gone)
}

// bound is what keeps a unit from being taken beside others: a queue, or a gang's window.
type bound struct {
	rule Rule
	// queue is the one that bounds what is taken; -1 for a gang.
	queue int32
	gang  string
}

// take adds a unit to what is taken, and reports whether it may be.
func (l *ledger) take(u int32) bool {
	c := l.c
	unit := &c.s.Units[u]
	reclaimed := !c.byPriority(u)
	if reclaimed {
		if top := c.sideOf(c.leafOfUnit(u)).top; !c.above(top, l.taken) || c.belowQuota(u, l.taken) >= 0 {
			return false
		}
	}
	if _, windowed := l.windowed(u); windowed && l.gone[unit.PodGroup] >= c.surplusOf(unit) {
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
	v, young := l.c.minRuntime(u)
	return v.Rule, young
}

func (l *ledger) add(u int32, reclaimed bool) {
	c := l.c
	unit := &c.s.Units[u]
	if elastic(unit) {
		l.gone[unit.PodGroup]++
	}
	if !reclaimed {
		return
	}
	if l.taken == nil {
		l.taken, l.most = make([]int64, len(c.used)), make([]int64, len(c.used))
	}
	leaf := c.leafOfUnit(u)
	l.leaves[leaf] = true
	c.t.use(l.taken, leaf, unit, 1)
	most := l.most[int(c.sideOf(leaf).top)*c.t.dims:][:c.t.dims]
	for r := range most {
		most[r] = max(most[r], useOf(unit, r))
	}
}

// within reports whether a whole set of units may be taken for the preemptor, in some order; otherwise it names a
// bound.
func (l *ledger) within(units []int32) (bound, bool) {
	c := l.c
	for _, u := range units {
		l.add(u, !c.byPriority(u))
	}
	for _, u := range units {
		if rule, windowed := l.windowed(u); windowed {
			if unit := &c.s.Units[u]; l.gone[unit.PodGroup] > c.surplusOf(unit) {
				return bound{rule: rule, queue: -1, gang: unit.PodGroup}, false
			}
		}
		if c.byPriority(u) {
			continue
		}
		leaf := c.leafOfUnit(u)
		top := c.sideOf(leaf).top
		if !l.aboveBeforeLast(top) {
			return bound{rule: RuleFairShare, queue: top}, false
		}
		if q := l.overdrawn(leaf, top); q >= 0 {
			return bound{rule: RuleQuota, queue: q}, false
		}
	}
	if q := l.outgrown(units); q >= 0 {
		return bound{rule: RuleOverShare, queue: q}, false
	}
	return bound{}, true
}

// outgrown finds a queue on the preemptor's path that would come to more than its fair share, and to more than it
// has, with the preemptor in and all units out; -1 where there is none. Only free room may carry a queue beyond its
// share: if evictions could, two queues might take from each other in turns, each for another resource.
func (l *ledger) outgrown(units []int32) int32 {
	c := l.c
	for i, q := range c.path {
		for _, r := range c.asks {
			after := addSaturating(c.usedOf(int32(q))[r], c.request[r])
			for _, u := range units {
				if c.offsets(u, i) {
					after -= useOf(&c.s.Units[u], r)
				}
			}
			if after > max(c.usedOf(int32(q))[r], c.shareOf(int32(q), r)) {
				return int32(q)
			}
		}
	}
	return -1
}

// offsets reports whether the room of a unit counts for the queue at a step of the preemptor's path already: the unit
// is below that queue, or outside all of them.
func (c *contest) offsets(u int32, step int) bool {
	q := c.leafOfUnit(u)
	if q < 0 {
		return true
	}
	for ; q >= 0; q = c.t.nodes[q].parent {
		if at := c.onPath[q]; at > 0 {
			return int(at)-1 <= step
		}
	}
	return false
}

// aboveBeforeLast reports whether a queue was above its fair share until the largest unit was taken, last of all.
func (l *ledger) aboveBeforeLast(top int32) bool {
	for _, r := range l.c.asks {
		at := int(top)*l.c.t.dims + r
		if l.c.used[at]-l.taken[at]+l.most[at] > l.c.shareOf(top, r) {
			return true
		}
	}
	return false
}

// overdrawn finds a queue between a leaf and the top of its side that is left with less than its quota of something
// that was taken; -1 where there is none.
func (l *ledger) overdrawn(leaf, top int32) int32 {
	t := l.c.t
	for q := leaf; ; q = t.nodes[q].parent {
		for r := range t.dims {
			at := int(q)*t.dims + r
			if quota := t.nodes[q].Quota[r]; l.taken[at] > 0 && quota > 0 && l.c.used[at]-l.taken[at] < quota {
				return q
			}
		}
		if q == top {
			return -1
		}
	}
}

// holds reports whether a bound is about a unit.
func (b bound) holds(c *contest, u int32) bool {
	if b.queue < 0 {
		return c.s.Units[u].PodGroup == b.gang
	}
	for q := c.leafOfUnit(u); q >= 0; q = c.t.nodes[q].parent {
		if q == b.queue {
			return !c.byPriority(u)
		}
	}
	return false
}
