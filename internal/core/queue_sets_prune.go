package core

import "slices"

// reclaimable returns the units of a pool that may be in an allowed set. It removes units of other
// queues that the preemptor can never reclaim, regardless of evictions in its own queue. Otherwise
// the search would try all sets of the preemptor's own queue with each of these units.
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

// gaining has an upper bound of the preemptor's reach for each resource. The bound applies if
// the preemptor's queue uses more of this resource after the evictions than before. share is the
// reach by fair share, quota the reach by quota. See [ledger.keeps].
type gaining struct{ share, quota []int }

// reachGaining returns the upper bounds of the reach, if only units of the pool are evicted.
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
		// For a reclaim by quota, the preemptor's queue must also keep its usage of each resource
		// that makes its quota protect the preemptor.
		for _, r := range c.asks {
			if held.By(r) {
				most[r] = min(most[r], c.request[r])
			}
		}
		g.quota[gained] = c.reachWithin(pool, most).quota
	}
	return g
}

// reachWithin returns an upper bound of the reach if only units of the pool are evicted. The
// argument most is the maximum usage, by resource, that the preemptor's own queue may lose. Each
// resource is considered separately, so possibly no single set of units gives this reach.
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

// mayGive reports whether any unit below the queue top may be reclaimed. For this, the queue must
// use more than its fair share or quota of some resource, and must be within reach. The preemptor's
// queue must gain the same resource.
func (c *queuePolicy) mayGive(top int32, reach gaining) bool {
	steps := c.stepsTo(top)
	return slices.ContainsFunc(c.asks, func(r int) bool {
		used := c.usedOf(top)[r]
		return steps <= reach.share[r] && used > c.shareOf(top, r) ||
			c.hasQuota(r) && steps <= reach.quota[r] && used > c.quotaOf(top, r)
	})
}
