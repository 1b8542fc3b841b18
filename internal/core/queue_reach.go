package core

import (
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// reach is how far from its own queue a preemptor may take, in steps up its path: from queues that branch off no higher than so
// many queues of its own, which stay within their fair share, or within their quota. Of the former, what others have beyond
// their fair share may be taken, of the latter what they have beyond their quota.
type reach struct{ share, quota int }

// pathUse is what the queues on the preemptor's path come to use.
type pathUse struct {
	c *queuePolicy
	// freed is what has been taken, by resource, of units in no queue first, then of those below each queue of the path that
	// are below none before it, and last of those below none at all.
	freed []int64
}

func newPathUse(c *queuePolicy) *pathUse {
	return &pathUse{c: c, freed: make([]int64, (len(c.path)+2)*len(c.request))}
}

// free counts a unit as gone, or as there again where sign is -1.
func (s *pathUse) free(u int32, sign int64) {
	at := 0
	if leaf := s.c.leafOf[u]; leaf >= 0 && s.c.home >= 0 {
		at = s.c.stepsTo(leaf) + 1
	}
	s.freeAt(at, sign, func(r int) int64 { return useOf(&s.c.s.Units[u], r) })
}

func (s *pathUse) freeAt(at int, sign int64, use func(r int) int64) {
	for _, r := range s.c.asks {
		s.freed[at*len(s.c.request)+r] += sign * use(r)
	}
}

// after is how much of a resource the queue at a step of the path comes to with the preemptor in.
func (s *pathUse) after(step, r int) int64 {
	after := fairshare.Add(s.c.usedOf(s.c.path[step])[r], s.c.request[r])
	for at := 1; at <= step+1; at++ {
		after -= s.freed[at*len(s.c.request)+r]
	}
	return after
}

// reach is how far the preemptor may take.
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

// hasQuota reports whether the preemptor's queue has any quota of a resource. Of what it has none, its fair share is all that it
// can have back.
func (c *queuePolicy) hasQuota(r int) bool { return c.leaf >= 0 && c.t.Queue(c.leaf).Quota[r] > 0 }

// steps counts the queues from the preemptor's own upwards that come to no more than they are entitled to.
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

// outgrown finds a queue on the path that comes to more than its limit, or to more than it is entitled to and has. Only free
// room may carry a queue beyond its share and its quota: if evictions could, two queues might take from each other in turns, each
// for another resource. What was in no queue adds to what all queues share, and to no limit.
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
			if s.after(i, r)-s.freed[r] > most {
				return s.c.bound(RuleOverShare, q), false
			}
		}
	}
	return bound{}, true
}

// overLimit finds the lowest queue on the path that comes to more than its limit; -1 where there is none.
func (s *pathUse) overLimit() int32 {
	if i := slices.IndexFunc(s.c.path, s.exceeds); i >= 0 {
		return s.c.path[i]
	}
	return -1
}

// highestOverLimit finds the highest of them: what can help is all below it.
func (s *pathUse) highestOverLimit() int32 {
	for _, q := range slices.Backward(s.c.path) {
		if s.exceeds(q) {
			return q
		}
	}
	return -1
}

// exceeds reports whether a queue on the path comes to more than its limit.
func (s *pathUse) exceeds(queue int32) bool {
	step := slices.Index(s.c.path, queue)
	return slices.ContainsFunc(s.c.asks, func(r int) bool { return s.after(step, r) > s.c.t.Queue(queue).Limit[r] })
}

// withinLimitsWithout reports whether limits have room for the preemptor once units have gone.
func (c *queuePolicy) withinLimitsWithout(units []int32) bool {
	s := newPathUse(c)
	for _, u := range units {
		s.free(u, 1)
	}
	return s.overLimit() < 0
}

// stepsTo is how many queues the preemptor has below the lowest common ancestor with a leaf.
func (c *queuePolicy) stepsTo(leaf int32) int {
	for q := leaf; q >= 0; q = c.t.Parent(q) {
		if at := c.onPath[q]; at > 0 {
			return int(at) - 1
		}
	}
	return len(c.path)
}

// reachTo has all units judged by a reach.
func (c *queuePolicy) reachTo(far reach) {
	c.reach, c.subtrees = far, make([]subtree, c.t.Len())
	c.count, c.timed, c.shown = make(map[Rule]int), nil, topUnits{s: c.s, sign: -1, most: capUnits}
}

// farthest is the reach with all gone that may go on the preemptor's side: more than may go together, perhaps.
func (c *queuePolicy) farthest() reach {
	s := newPathUse(c)
	if c.leaf < 0 {
		return s.reach()
	}
	for _, u := range c.roster.lists[c.leaf+1].units {
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
