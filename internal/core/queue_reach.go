package core

import (
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// reach limits the queues that a preemptor may reclaim from. Both fields count queues on the
// preemptor's path, which starts with its own queue and ends with the root. share is the number of
// queues, from the start, that stay within their fair share with the preemptor. Up to that
// distance, the preemptor may reclaim the usage of other queues above their fair share. quota is
// the same number for quotas: up to that distance, the preemptor may reclaim usage above a quota.
type reach struct{ share, quota int }

// pathUse is the usage of the queues on the preemptor's path after evictions.
type pathUse struct {
	c *queuePolicy
	// freed is the usage of the evicted units, by section and resource. The sections divide the
	// units by the place of their queue:
	//
	//   - Section 0 has the units in no queue, or all units if the preemptor is in no queue.
	//   - Section i+1 has the units in or below path[i] that are not in or below path[i-1].
	//   - The last section has the units in queues that are not below the path.
	freed []int64
	// yielded is the part of this usage that belongs to units of stale gangs. It is counted only if
	// the preemptor's own gang also lacks members.
	yielded []int64
}

func newPathUse(c *queuePolicy) *pathUse {
	size := (len(c.path) + 2) * len(c.request)
	return &pathUse{c: c, freed: make([]int64, size), yielded: make([]int64, size)}
}

// free adds a unit's usage to freed, or subtracts it if sign is -1.
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

// clear removes all evicted units.
func (s *pathUse) clear() {
	clear(s.freed)
	clear(s.yielded)
}

// yieldedBeside returns the usage of resource r by evicted stale gangs outside of the queue
// path[step].
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

// after returns the usage of resource r by the queue path[step], without the evicted units and with
// the preemptor.
func (s *pathUse) after(step, r int) int64 {
	after := fairshare.Add(s.c.usedOf(s.c.path[step])[r], s.c.request[r])
	for at := 1; at <= step+1; at++ {
		after -= s.freed[at*len(s.c.request)+r]
	}
	return after
}

// reach returns the reach of the preemptor after the evictions.
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

// hasQuota reports whether the preemptor's queue has a quota of resource r. Without a quota, it can
// reclaim only up to its fair share.
func (c *queuePolicy) hasQuota(r int) bool { return c.leaf >= 0 && c.t.Queue(c.leaf).Quota[r] > 0 }

// steps returns the number of queues on the path, starting with the preemptor's own, whose usage is
// at most the given entitlement.
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

// outgrown returns true if all queues on the path are within their bounds after the evictions.
// Otherwise it returns the exceeded bound. A queue must not exceed its limit. Evictions must not
// raise the usage of a queue above its fair share. Otherwise two queues might reclaim from each
// other in turns. Only room that is already free, or that units in no queue free, may raise the
// usage above the fair share.
//
// There is one exception: a gang that lacks members may use the room of a stale gang beyond its
// queue's share. This exception cannot lead to endless evictions, because the gang is then whole.
// Without the exception, two such gangs could wait for each other forever.
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

// overLimit returns the queue on the path, nearest to the preemptor, that would exceed its limit;
// -1 for none.
func (s *pathUse) overLimit() int32 {
	if i := slices.IndexFunc(s.c.path, s.exceeds); i >= 0 {
		return s.c.path[i]
	}
	return -1
}

// highestOverLimit returns the queue on the path, nearest to the root, that would exceed its limit;
// -1 for none. Only evictions below this queue can help.
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

// withinLimitsWithout reports whether all limits allow the preemptor if the given units are
// evicted.
func (c *queuePolicy) withinLimitsWithout(units []int32) bool {
	s := newPathUse(c)
	for _, u := range units {
		s.free(u, 1)
	}
	return s.overLimit() < 0
}

// stepsTo returns the number of queues on the preemptor's path below the lowest common ancestor of
// the path and a leaf queue.
func (c *queuePolicy) stepsTo(leaf int32) int {
	for q := leaf; q >= 0; q = c.t.Parent(q) {
		if at := c.onPath[q]; at > 0 {
			return int(at) - 1
		}
	}
	return len(c.path)
}

// reachTo sets the reach and discards all verdicts.
func (c *queuePolicy) reachTo(far reach) {
	c.reach, c.subtrees = far, make([]subtree, c.t.Len())
	c.count, c.timed, c.shown = make(map[Rule]int), nil, topUnits{s: c.s, sign: -1, most: capUnits}
}

// farthest returns an upper bound of the reach. It assumes that all evictable units of the
// preemptor's leaf queue are evicted. It also assumes the eviction of all usage below the further
// queues on the path that are within reach. It does not check whether these units may be evicted
// together.
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
