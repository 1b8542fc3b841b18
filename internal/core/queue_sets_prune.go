package core

import "slices"

// reclaimable returns the units of a pool that may be in a permitted set. It drops units of other
// queues that the preemptor cannot reclaim, regardless of the evictions in its own queue. Without
// this, the search would try all sets of the preemptor's own queue before it found that out.
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

// gaining is the greatest reach of a preemptor, by resource, if its queue ends with more of that
// resource than before. share has the steps by fair share, and quota the steps by quota. See
// [ledger.keeps].
type gaining struct{ share, quota []int }

// reachGaining returns the reach of a preemptor whose queue gains, if units of the pool may be
// evicted.
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
		// By quota, the queue must also not lose usage of a resource that makes its quota protect
		// the preemptor.
		for _, r := range c.asks {
			if held.By(r) {
				most[r] = min(most[r], c.request[r])
			}
		}
		g.quota[gained] = c.reachWithin(pool, most).quota
	}
	return g
}

// reachWithin returns the reach after units of a pool are evicted, if the preemptor's queue loses
// at most the given amounts. It regards each resource separately, so the result may exceed the
// reach of any set.
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

// mayGive reports whether units below the queue at the top of a subtree may be reclaimed at all.
// The queue must use more of a resource than its fair share, or than its quota. The preemptor must
// gain some of the resource and reach the queue.
func (c *queuePolicy) mayGive(top int32, reach gaining) bool {
	steps := c.stepsTo(top)
	return slices.ContainsFunc(c.asks, func(r int) bool {
		used := c.usedOf(top)[r]
		return steps <= reach.share[r] && used > c.shareOf(top, r) ||
			c.hasQuota(r) && steps <= reach.quota[r] && used > c.quotaOf(top, r)
	})
}
