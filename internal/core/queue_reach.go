package core

import (
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// reach limits the queues that a preemptor may reclaim from. It counts queues on the preemptor's
// path: its own queue and the ancestors. share is the number of queues, from its own upwards, that
// stay within their fair share, and quota the number that stay within their quota. Within share
// steps, the preemptor may reclaim usage of other branches beyond their fair share. Within quota
// steps, it may reclaim usage beyond their quota.
type reach struct{ share, quota int }

// pathUse is the usage of the preemptor's queue and its ancestors after evictions.
type pathUse struct {
	c *queuePolicy
	// freed is the usage of the units evicted so far, by section and resource. Section i+1 has the
	// units in or below path[i] but not in or below path[i-1]. The last section has the units of
	// queues outside the path. Section 0 has the units in no queue. If the preemptor is in no
	// queue, section 0 has all units.
	freed []int64
	// yielded is the part of freed that comes from stale gangs, evicted for a gang that lacks
	// members itself.
	yielded []int64
}

func newPathUse(c *queuePolicy) *pathUse {
	size := (len(c.path) + 2) * len(c.request)
	return &pathUse{c: c, freed: make([]int64, size), yielded: make([]int64, size)}
}

// free adds a unit's usage to freed. With sign -1 it subtracts the usage.
func (s *pathUse) free(u int32, sign int64) {
	at := 0
	if leaf := s.c.leafOf[u]; leaf >= 0 && s.c.home >= 0 {
		at = s.c.stepsTo(leaf) + 1
	}
	use := func(r int) int64 { return useOf(&s.c.s.Units[u], r) }
	s.freeAt(at, sign, use)
	if at > 1 && s.c.leaf >= 0 && s.c.lacks && s.c.yieldsStale(u) {
		for _, r := range s.c.asks {
			s.yielded[at*len(s.c.request)+r] += sign * use(r)
		}
	}
}

// clear counts no unit as gone.
func (s *pathUse) clear() {
	clear(s.freed)
	clear(s.yielded)
}

// yieldedBeside returns the usage of those evicted stale gangs that are not below the queue at a
// step of the path.
func (s *pathUse) yieldedBeside(step, r int) int64 {
	sum := int64(0)
	for at := step + 2; at < len(s.c.path)+2; at++ {
		sum += s.yielded[at*len(s.c.request)+r]
	}
	return sum
}

func (s *pathUse) freeAt(at int, sign int64, use func(r int) int64) {
	for _, r := range s.c.asks {
		s.freed[at*len(s.c.request)+r] += sign * use(r)
	}
}

// after returns the usage of the queue at a step of the path, with the evicted units subtracted and
// the preemptor added.
func (s *pathUse) after(step, r int) int64 {
	after := fairshare.Add(s.c.usedOf(s.c.path[step])[r], s.c.request[r])
	for at := 1; at <= step+1; at++ {
		after -= s.freed[at*len(s.c.request)+r]
	}
	return after
}

// reach returns how far the preemptor may evict.
func (s *pathUse) reach() reach {
	c := s.c
	at := reach{share: s.steps(c.shareOf)}
	if slices.ContainsFunc(c.asks, c.hasQuota) {
		at.quota = s.steps(func(q int32, r int) int64 {
			if !c.hasQuota(r) {
				return c.shareOf(q, r)
			}
			return c.quotaOf(q, r)
		})
	}
	return at
}

// hasQuota reports whether the preemptor's queue has any quota of a resource. Without quota, the
// queue can only reclaim up to its fair share.
func (c *queuePolicy) hasQuota(r int) bool { return c.leaf >= 0 && c.t.Queue(c.leaf).Quota[r] > 0 }

// steps returns the number of queues, from the preemptor's own upwards, whose usage is at most the
// given entitlement.
func (s *pathUse) steps(entitled func(q int32, r int) int64) int {
	for i, q := range s.c.path {
		for _, r := range s.c.asks {
			if s.after(i, r) > entitled(q, r) {
				return i
			}
		}
	}
	return len(s.c.path)
}

// outgrown returns a queue on the path that would exceed its limit, or that would use more than
// both its entitlement and its current usage. Only free room may raise a queue above its share and
// its quota. If evictions could, two queues might reclaim from each other in turns, each for
// another resource. Units in no queue free room for all queues, and affect no limit. As an
// exception, a gang that lacks members may use the room of a stale gang beyond its queue's share.
// Afterwards it is whole, so this does not repeat. Without the exception, two such gangs could wait
// forever.
func (s *pathUse) outgrown() (bound, bool) {
	if q := s.overLimit(); q >= 0 {
		return s.c.bound(RuleLimit, q), false
	}
	if s.c.leaf < 0 {
		return bound{}, true
	}
	for i, q := range s.c.path {
		for _, r := range s.c.asks {
			most := max(s.c.usedOf(q)[r], s.c.shareOf(q, r))
			if s.after(i, r)-s.freed[r]-s.yieldedBeside(i, r) > most {
				return s.c.bound(RuleOverShare, q), false
			}
		}
	}
	return bound{}, true
}

// overLimit returns the lowest queue on the path that would exceed its limit; -1 for none.
func (s *pathUse) overLimit() int32 {
	if i := slices.IndexFunc(s.c.path, s.exceeds); i >= 0 {
		return s.c.path[i]
	}
	return -1
}

// highestOverLimit returns the highest queue on the path that would exceed its limit; -1 for none.
// Only the eviction of units below this queue helps.
func (s *pathUse) highestOverLimit() int32 {
	for _, q := range slices.Backward(s.c.path) {
		if s.exceeds(q) {
			return q
		}
	}
	return -1
}

// exceeds reports whether a queue on the path would use more than its limit.
func (s *pathUse) exceeds(queue int32) bool {
	step := slices.Index(s.c.path, queue)
	return slices.ContainsFunc(s.c.asks, func(r int) bool { return s.after(step, r) > s.c.t.Queue(queue).Limit[r] })
}

// withinLimitsWithout reports whether all limits allow the preemptor after the given units are
// evicted.
func (c *queuePolicy) withinLimitsWithout(units []int32) bool {
	s := newPathUse(c)
	for _, u := range units {
		s.free(u, 1)
	}
	return s.overLimit() < 0
}

// stepsTo returns the number of queues on the preemptor's path below its lowest common ancestor
// with a leaf queue.
func (c *queuePolicy) stepsTo(leaf int32) int {
	for q := leaf; q >= 0; q = c.t.Parent(q) {
		if at := c.onPath[q]; at > 0 {
			return int(at) - 1
		}
	}
	return len(c.path)
}

// reachTo sets the reach and resets all judgments.
func (c *queuePolicy) reachTo(far reach) {
	c.reach, c.subtrees = far, make([]subtree, c.t.Len())
	c.count, c.timed, c.shown = make(map[Rule]int), nil, topUnits{s: c.s, sign: -1, most: capUnits}
}

// farthest returns the greatest possible reach. It assumes that all evictable units of the
// preemptor's leaf are evicted, and all other usage below its path that is within reach. It ignores
// whether they may be evicted together.
func (c *queuePolicy) farthest() reach {
	s := newPathUse(c)
	if c.leaf < 0 {
		return s.reach()
	}
	for _, u := range c.index.lists[c.leaf+1].units {
		if judge(c, u).Eligible {
			s.free(u, 1)
		}
	}
	far := s.reach()
	for step := 1; step < len(c.path) && step <= max(far.share, far.quota); step++ {
		s.freeAt(step+1, 1, func(r int) int64 { return c.usedOf(c.path[step])[r] - c.usedOf(c.path[step-1])[r] })
		far = s.reach()
	}
	return far
}
