package core

import "slices"

// reclaimable returns the units of a pool that may be in an allowed set. It drops units of other
// queues that no set can reclaim, whichever units of the preemptor's side are in the set. Bounds
// of these units depend on the preemptor's side alone, so the search would otherwise try all sets
// of that side before it found out.
func (c *queuePolicy) reclaimable(pool []int32) []int32 {
	for {
		reach, gives := c.reachGaining(pool), make(map[int32]bool)
		left := slices.DeleteFunc(slices.Clone(pool), func(u int32) bool {
			if !c.reclaims(u) {
				return false
			}
			top := c.top(c.leafOf[u])
			if _, asked := gives[top]; !asked {
				gives[top] = c.mayGive(top, reach)
			}
			return !gives[top]
		})
		if len(left) == len(pool) {
			return pool
		}
		pool = left
	}
}

// gaining is how far a preemptor can reach at most, by resource, while its queue ends with more of
// the resource than it has. share has steps by fair share, and quota steps by quota. See
// [ledger.keeps].
type gaining struct{ share, quota []int }

// reachGaining returns the reach while the preemptor's queue gains, given the units of a pool.
func (c *queuePolicy) reachGaining(pool []int32) gaining {
	g := gaining{share: make([]int, len(c.request)), quota: make([]int, len(c.request))}
	held := c.holding(c.leaf, c.request)
	for _, gained := range c.asks {
		most := slices.Repeat([]int64{maxAmount}, len(c.request))
		most[gained] = c.request[gained] - 1
		g.share[gained] = c.reachWithin(pool, most).share
		if !c.hasQuota(gained) {
			continue
		}
		// By quota, the queue also ends with no less of the resources that hold the preemptor.
		for _, r := range c.asks {
			if held.By(r) {
				most[r] = min(most[r], c.request[r])
			}
		}
		g.quota[gained] = c.reachWithin(pool, most).quota
	}
	return g
}

// reachWithin returns the reach with the units of a pool evicted, while the preemptor's queue loses
// no more than some amounts. It looks at each resource alone, so it may be farther than the reach
// of any set.
func (c *queuePolicy) reachWithin(pool []int32, most []int64) reach {
	s := newPathUse(c)
	for _, u := range pool {
		isTooMuch := func(r int) bool { return useOf(&c.s.Units[u], r) > most[r] }
		if c.leafOf[u] != c.leaf || !slices.ContainsFunc(c.asks, isTooMuch) {
			s.free(u, 1)
		}
	}
	own := s.freed[len(c.request):][:len(c.request)]
	for _, r := range c.asks {
		own[r] = min(own[r], most[r])
	}
	return s.reach()
}

// mayGive reports whether anything below the queue at the top of a subtree may be reclaimed. The
// queue must have more of a resource than its fair share, or its quota. The preemptor must gain
// some of the resource and reach the queue.
func (c *queuePolicy) mayGive(top int32, reach gaining) bool {
	steps := c.stepsTo(top)
	return slices.ContainsFunc(c.asks, func(r int) bool {
		used := c.usedOf(top)[r]
		return steps <= reach.share[r] && used > c.shareOf(top, r) ||
			c.hasQuota(r) && steps <= reach.quota[r] && used > c.quotaOf(top, r)
	})
}
