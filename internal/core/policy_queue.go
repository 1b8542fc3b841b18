package core

import (
	"math"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// queuePolicy decides by the shares and quotas of queues. For units of the preemptor's own queue
// and of no queue, it decides by priority. A verdict judges a unit alone, so the policy also bounds
// sets of units. The bounds are shares, quotas, and the surplus of gangs inside a min-runtime.
type queuePolicy struct {
	*ruling
	// used and shares have an entry for each queue and resource. request is the preemptor's
	// request, and asks lists the resources in it.
	used    []int64
	shares  []Amounts
	request []int64
	asks    []int
	// kinds has the kind of each resource. A resource that no node has is Absent.
	kinds []fairshare.Kind
	// use is memory for useOfAll.
	use []int64
	// reach limits the queues that the preemptor may evict from, by their distance in the tree.
	// asIs is the reach if nothing is evicted.
	reach, asIs reach
	subtrees    []subtree
	// lacks is true if the preemptor is a gang that has lost members.
	lacks bool
	// line is the snapshot with the preemptor's priority bands. It determines the order of units
	// within a queue.
	line *Snapshot
	// scratch is a ledger that checks one set of units after the other.
	scratch *ledger

	order *victimOrder
	count map[Rule]int
	shown topUnits
	// timed has the units whose protection ends at a known time.
	timed []timed
}

// subtree is the common verdict on all units in one leaf queue. It is the verdict on the queue that
// is one step below the lowest common ancestor of the leaf and the preemptor's queue. That queue is
// the top of the subtree.
type subtree struct {
	judged bool
	// rule is the rule that protects the leaf's units; empty if they may be reclaimed.
	rule Rule
	// byQuota is true if units may be reclaimed until the top queue uses only its quota. byShare is
	// true if they may be reclaimed until it uses only its fair share.
	byQuota, byShare bool
	// near is true if the usage of the top queue is just above its fair share.
	near bool
	// spare is the leaf's usage that exceeds all quotas in its subtree; nil until it is computed.
	spare []int64
	// top is the queue at the top of the subtree, one step below the lowest common ancestor.
	top int32
}

func newQueuePolicy(v *problem, r *ruling) *queuePolicy {
	c := &queuePolicy{ruling: r, request: v.request(), count: make(map[Rule]int)}
	c.shown = topUnits{s: v.s, sign: -1, most: capUnits}
	c.line = v.s
	if len(v.p.Bands) > 0 {
		line := *v.s
		line.bands = v.p.Bands
		c.line = &line
	}
	for r, want := range c.request {
		if want > 0 {
			c.asks = append(c.asks, r)
		}
	}
	c.index, c.used = v.inQueues()
	c.leafOf = c.index.leaves
	if c.t != nil {
		for r, name := range v.s.Resources {
			kind := fairshare.Absent
			if v.s.lists(r) {
				kind = fairshare.KindOf(name)
			}
			c.kinds = append(c.kinds, kind)
		}
		c.shares = v.s.Queues.Shares
		c.ruling.ratio = c.overallRatio()
		_, c.lacks = c.ownDegraded()
		c.climb()
		c.asIs = newPathUse(c).reach()
		c.reachTo(c.farthest())
	}
	return c
}

// lists reports whether any node has a quantity of resource r.
func (s *Snapshot) lists(r int) bool {
	for i := range s.Nodes {
		if has := s.Nodes[i].Allocatable; r < len(has) && has[r] > 0 {
			return true
		}
	}
	return false
}

// request returns the sum of the requests of the members that must be placed.
func (v *problem) request() []int64 {
	request := make([]int64, v.dims)
	for class, n := range firstMembers(v.p.Classes, max(v.p.MinCount, 1)) {
		for r, want := range v.wanted[class] {
			request[r] = fairshare.Add(request[r], fairshare.Times(min(want, maxAmount), n))
		}
	}
	return request
}

// inQueues returns the units of each queue, and the usage of the queues.
func (v *problem) inQueues() (*leafIndex, []int64) {
	ro := v.c.index
	if ro == nil {
		ro = newLeafIndex(v.s)
	}
	switch q := v.s.Queues; {
	case q == nil || q.Tree == nil:
		return ro, nil
	case q.used != nil:
		return ro, q.used
	default:
		return ro, usedBy(v.s, ro.leaves)
	}
}

// fullFor returns a queue whose limit leaves no room for the preemptor: its own queue or an
// ancestor. It returns -1 if there is none.
func (v *problem) fullFor() int32 {
	if v.s.Queues == nil {
		return -1
	}
	t := v.s.Queues.Tree
	home := t.LeafOf(v.p.Queue)
	if home < 0 {
		return -1
	}
	_, used := v.inQueues()
	var levels []fairshare.Level
	path := t.Path(home)
	for _, q := range path {
		levels = append(levels, fairshare.Level{Limit: t.Queue(q).Limit, Used: used[int(q)*t.Dims():][:t.Dims()]})
	}
	_, over := fairshare.Room(levels, []Amounts{v.request()})
	if over == nil {
		return -1
	}
	return path[over.Level]
}

func (c *queuePolicy) rules() *ruling { return c.ruling }

// climb sets path to the preemptor's queue and its ancestors.
func (c *queuePolicy) climb() {
	c.onPath = make([]int32, c.t.Len())
	if c.home < 0 {
		return
	}
	c.path = c.t.Path(c.home)
	for i, q := range c.path {
		c.onPath[q] = int32(i) + 1
	}
}

func (c *queuePolicy) usedOf(q int32) []int64 { return c.used[int(q)*c.t.Dims():][:c.t.Dims()] }

// share returns a queue's fair share, for the resources that have one.
func (c *queuePolicy) share(q int32) Amounts {
	if int(q) >= len(c.shares) {
		return nil
	}
	return c.shares[q]
}

func (c *queuePolicy) shareOf(q int32, r int) int64 {
	if share := c.share(q); r < len(share) {
		return share[r]
	}
	return 0
}

// quotaOf returns the amount that a queue can always reclaim: its quota, but no more than its fair
// share. The share can be lower than the quota, if all quotas exceed the capacity or if the queue's
// demand is low.
func (c *queuePolicy) quotaOf(q int32, r int) int64 {
	return min(c.t.Queue(q).Quota[r], c.shareOf(q, r))
}

// ratio returns the highest ratio of a queue's usage to its fair share, among the resources of the
// preemptor's request. It first subtracts taken from the usage.
func (c *queuePolicy) ratio(q int32, taken []int64) float64 {
	if taken != nil {
		taken = taken[int(q)*c.t.Dims():][:c.t.Dims()]
	}
	return fairshare.DominantShare(c.usedOf(q), taken, c.share(q), c.asks)
}

// overallRatio returns a function that computes the ratio of a queue's usage to its fair share, for
// the listed resource where it is highest. The ratio does not depend on the preemptor's request, so
// two gangs that compare their queues get the same result.
func (c *queuePolicy) overallRatio() func(q int32) float64 {
	var listed []int
	for r, kind := range c.kinds {
		if kind != fairshare.Absent {
			listed = append(listed, r)
		}
	}
	return func(q int32) float64 { return fairshare.DominantShare(c.usedOf(q), nil, c.share(q), listed) }
}

// subtreeOf returns the common verdict on all units of a leaf queue. The leaf must not be the
// preemptor's own.
func (c *queuePolicy) subtreeOf(leaf int32) *subtree {
	st := &c.subtrees[leaf]
	if st.judged {
		return st
	}
	st.judged, st.top = true, c.top(leaf)
	if st.top != leaf {
		// The verdict depends on the queue at the top of the subtree, so copy it from there.
		*st = *c.subtreeOf(st.top)
		return st
	}
	steps := c.stepsTo(leaf)
	st.byShare, st.byQuota = steps <= c.reach.share, steps <= c.reach.quota
	switch {
	case !st.byShare && !st.byQuota:
		st.rule = RuleOverShare
	case !c.above(st.top, nil):
		st.rule = RuleFairShare
	default:
		// If the quota counts, usage above the fair share is reclaimed first, so units need a
		// verdict each.
		st.near = !st.byQuota && distanceOf(c.ratio(st.top, nil)) >= nearest
	}
	return st
}

// above reports whether the queue at the top of a subtree uses more of any requested resource than
// must be left to it. If l is not nil, its units are subtracted from the usage.
func (c *queuePolicy) above(top int32, l *ledger) bool {
	return slices.ContainsFunc(c.asks, func(r int) bool { return c.lent(top, r, c.usedOf(top)[r]-l.takenOf(top, r)) })
}

// lent reports whether the usage of a resource is more than must be left to the queue at the top of
// a subtree.
func (c *queuePolicy) lent(top int32, r int, used int64) bool {
	st := &c.subtrees[top]
	return st.byShare && used > c.shareOf(top, r) || st.byQuota && c.hasQuota(r) && used > c.quotaOf(top, r)
}

// entitlement returns whether the preemptor may evict a unit by priority, or by the fair shares and
// quotas of both queues.
func (c *queuePolicy) entitlement(u int32) Verdict {
	if !c.reclaims(u) {
		return c.entitledByPriority(u)
	}
	leaf := c.leafOf[u]
	if rule := c.subtreeOf(leaf).rule; rule != "" {
		return Verdict{Rule: rule}
	}
	if c.pastSpare(leaf, func(r int) int64 { return useOf(&c.s.Units[u], r) }) {
		if q := c.belowQuota(u, nil); q >= 0 {
			return Verdict{Rule: RuleQuota, Queue: c.t.Queue(q).Name}
		}
	}
	return Verdict{Eligible: true, Rule: RuleReclaim}
}

// spareOf returns the most that one unit of a leaf queue may use so that its eviction leaves no
// queue of the subtree below its quota.
func (c *queuePolicy) spareOf(leaf int32) []int64 {
	st := c.subtreeOf(leaf)
	if st.spare != nil {
		return st.spare
	}
	spare := slices.Repeat([]int64{math.MaxInt64}, c.t.Dims())
	for q := leaf; ; q = c.t.Parent(q) {
		for r := range spare {
			if quota := c.quotaOf(q, r); quota > 0 {
				spare[r] = min(spare[r], max(c.usedOf(q)[r]-quota, 0))
			}
		}
		if q == st.top {
			break
		}
	}
	st.spare = spare
	return spare
}

// pastSpare reports whether the eviction of a unit with this usage would leave any queue of the
// leaf's subtree below its quota.
func (c *queuePolicy) pastSpare(leaf int32, use func(r int) int64) bool {
	for r, spare := range c.spareOf(leaf) {
		if spare < math.MaxInt64 && use(r) > spare {
			return true
		}
	}
	return false
}

// belowQuota returns a queue of the victim's subtree that would be below its quota after the
// eviction; -1 for none. If l is not nil, its units count as evicted too. Only resources count that
// make the quota protect this unit, or a unit in l. It returns the top queue if that would be below
// its quota in every resource where it has usage to spare.
func (c *queuePolicy) belowQuota(u int32, l *ledger) int32 {
	leaf, use := c.leafOf[u], c.useOfAll(u)
	top := c.subtreeOf(leaf).top
	for q := leaf; ; q = c.t.Parent(q) {
		held := c.holding(q, use)
		for r, v := range use {
			if v > 0 && (held.By(r) || l.holds(q, r)) && c.usedOf(q)[r]-l.takenOf(q, r)-v < c.quotaOf(q, r) {
				return q
			}
		}
		if q == top {
			break
		}
	}
	for _, r := range c.asks {
		if left := c.usedOf(top)[r] - l.takenOf(top, r); c.lent(top, r, left) && left-use[r] >= c.quotaOf(top, r) {
			return -1
		}
	}
	return top
}

// useOfAll returns the usage of a unit, with an entry for each resource. It is valid until the next
// call.
func (c *queuePolicy) useOfAll(u int32) []int64 {
	if c.use == nil {
		c.use = make([]int64, c.t.Dims())
	}
	for r := range c.use {
		c.use[r] = useOf(&c.s.Units[u], r)
	}
	return c.use
}

// holding returns the resources that make the quota of a queue protect work with this usage.
func (c *queuePolicy) holding(q int32, use []int64) fairshare.Hold {
	return fairshare.Holding(c.kinds, c.t.Queue(q).Quota, use)
}

// useOf returns the usage of a unit for one resource, on all its nodes.
func useOf(u *Unit, r int) int64 {
	use := int64(0)
	for i := range u.Pods {
		use = fairshare.Add(use, fairshare.Usage(u.Pods[i].Request[r]))
	}
	return min(use, maxAmount)
}

// usedBy returns the usage of every queue, with all queues below it included.
func usedBy(s *Snapshot, leaves []int32) []int64 {
	t := s.Queues.Tree
	used := make([]int64, t.Len()*t.Dims())
	for u, leaf := range leaves {
		useUnit(t, used, leaf, &s.Units[u])
	}
	return used
}

// useUnit adds a unit to the usage of its leaf queue and of all ancestors.
func useUnit(t *fairshare.Tree, used []int64, leaf int32, u *Unit) {
	for i := range u.Pods {
		t.Use(used, leaf, u.Pods[i].Request, 1)
	}
}

func (c *queuePolicy) everything(sr *search, mem *scratch) *search {
	c.rank(mem)
	return sr.among(c.order, nil)
}

func (c *queuePolicy) fits(units []int32) (bound, bool) { return c.ledger().within(units) }

func (c *queuePolicy) part(col *nodeColumn, positions []int32) []int32 {
	if !c.order.bounded {
		return positions
	}
	l := c.ledger()
	var part []int32
	for _, pos := range positions {
		if l.take(col.units[pos]) {
			part = append(part, pos)
		}
	}
	slices.Sort(part)
	return part
}

func (c *queuePolicy) bounded() bool { return c.order.bounded }

func (c *queuePolicy) potential() int { return c.order.count }

func (c *queuePolicy) potentialOn(n int32) []int32 { return c.order.on(n) }

func (c *queuePolicy) roomOn(n int32) []int64 { return c.order.roomOn(n) }

func (c *queuePolicy) protected() map[Rule]int { return c.count }

func (c *queuePolicy) named() []int32 {
	c.order.showBarred()
	return c.shown.units
}

func (c *queuePolicy) passing() []timed { return c.timed }
