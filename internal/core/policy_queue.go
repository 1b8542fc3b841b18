package core

import (
	"math"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// queuePolicy decides by the fair shares and quotas of queues. For units in the preemptor's own
// queue and in no queue, it decides by priority. A verdict is for a single unit. So the policy also
// has bounds on sets of units: fair shares, quotas, and the surplus of gangs inside a min-runtime.
type queuePolicy struct {
	*ruling
	// used has the usage of each queue, with one entry per queue and resource. shares has the fair
	// share of each queue. request is the preemptor's request, and asks has the indexes of the
	// resources in it.
	used    []int64
	shares  []Amounts
	request []int64
	asks    []int
	// kinds has the kind of each resource. It is Absent for a resource that no node has.
	kinds []fairshare.Kind
	// use is memory for the method useOfAll.
	use []int64
	// reach limits the queues that the preemptor may evict from, by their distance in the tree.
	// asIs is the reach before any eviction.
	reach, asIs reach
	subtrees    []subtree
	// lacks is true if the preemptor belongs to a gang that has lost members.
	lacks bool
	// line is the snapshot with the preemptor's priority bands. It defines the order of units
	// within a queue.
	line *Snapshot
	// scratch is the ledger that the method ledger returns.
	scratch *ledger

	order *victimOrder
	count map[Rule]int
	shown topUnits
	// timed has the units whose protection ends at a known time.
	timed []timed
}

// subtree is the verdict that all units of one leaf queue have in common. It depends only on the
// top queue of the subtree. The top queue is the ancestor of the leaf, or the leaf itself, just
// below the lowest common ancestor with the preemptor's queue.
type subtree struct {
	judged bool
	// rule is the rule that protects the leaf's units; empty if they may be reclaimed.
	rule Rule
	// byQuota is true if reclaim may lower the usage of the top queue to its quota. byShare is true
	// if reclaim may lower this usage to the fair share.
	byQuota, byShare bool
	// near is true if the usage of the top queue is just above its fair share.
	near bool
	// spare is the result of spareOf; nil until it is computed.
	spare []int64
	// top is the top queue of the subtree.
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

// inQueues returns the index of units by leaf queue, and the usage of each queue.
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

// fullFor returns the index of a queue whose limit is too low for the preemptor now: its own queue
// or an ancestor. It returns -1 if there is none.
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

// climb sets path to the preemptor's queue and its ancestors. It also sets onPath.
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

// share returns the fair share of a queue; nil if it is unknown.
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

// quotaOf returns the amount of resource r that a queue can always reclaim: the minimum of its
// quota and its fair share. The fair share can be lower than the quota if all quotas together
// exceed the capacity, or if the queue's demand is low.
func (c *queuePolicy) quotaOf(q int32, r int) int64 {
	return min(c.t.Queue(q).Quota[r], c.shareOf(q, r))
}

// ratio returns the ratio of a queue's usage to its fair share, for the requested resource with the
// highest ratio. It subtracts taken from the usage; taken is indexed by queue and resource and may
// be nil.
func (c *queuePolicy) ratio(q int32, taken []int64) float64 {
	if taken != nil {
		taken = taken[int(q)*c.t.Dims():][:c.t.Dims()]
	}
	return fairshare.DominantShare(c.usedOf(q), taken, c.share(q), c.asks)
}

// overallRatio returns a function that computes the ratio of a queue's usage to its fair share. It
// uses the resource with the highest ratio among all resources of the nodes. So the ratio does not
// depend on the preemptor's request, and two gangs that compare their queues get the same result.
func (c *queuePolicy) overallRatio() func(q int32) float64 {
	var listed []int
	for r, kind := range c.kinds {
		if kind != fairshare.Absent {
			listed = append(listed, r)
		}
	}
	return func(q int32) float64 { return fairshare.DominantShare(c.usedOf(q), nil, c.share(q), listed) }
}

// subtreeOf returns the subtree of a leaf queue. The leaf must not be the preemptor's own queue.
func (c *queuePolicy) subtreeOf(leaf int32) *subtree {
	st := &c.subtrees[leaf]
	if st.judged {
		return st
	}
	st.judged, st.top = true, c.top(leaf)
	if st.top != leaf {
		// The verdict depends only on the top queue, so copy the top queue's entry.
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
		// With byQuota set, the search reclaims usage above the fair share before usage above the
		// quota. So the units of the queue differ in rank, and the policy judges each of them.
		st.near = !st.byQuota && distanceOf(c.ratio(st.top, nil)) >= nearest
	}
	return st
}

// above reports whether the queue top uses more of a requested resource than it may keep. If l is
// not nil, its units are subtracted from the usage.
func (c *queuePolicy) above(top int32, l *ledger) bool {
	return slices.ContainsFunc(c.asks, func(r int) bool { return c.lent(top, r, c.usedOf(top)[r]-l.takenOf(top, r)) })
}

// lent reports whether used is more of resource r than the queue top may keep. The queue may keep
// its fair share, or its quota if units may be reclaimed by quota.
func (c *queuePolicy) lent(top int32, r int, used int64) bool {
	st := &c.subtrees[top]
	return st.byShare && used > c.shareOf(top, r) || st.byQuota && c.hasQuota(r) && used > c.quotaOf(top, r)
}

// entitlement returns whether the preemptor may evict a unit by priority or by reclaim. It ignores
// protections.
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

// spareOf returns, by resource, the highest usage of a single unit that may be evicted. With a
// higher usage, the eviction would leave a queue between leaf and top below its quota.
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

// pastSpare reports whether a usage exceeds spareOf in any resource.
func (c *queuePolicy) pastSpare(leaf int32, use func(r int) int64) bool {
	for r, spare := range c.spareOf(leaf) {
		if spare < math.MaxInt64 && use(r) > spare {
			return true
		}
	}
	return false
}

// belowQuota returns a queue between the unit's leaf and the top that would be below its quota
// after the eviction of unit u; -1 for none. If l is not nil, its units count as evicted too. It
// considers only resources that make the quota protect u or a unit in l (see holding). It also
// returns the top queue if the eviction leaves it below its quota. This must be so in each
// requested resource that may be reclaimed.
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

// useOfAll returns the usage of a unit, by resource. The result is valid until the next call.
func (c *queuePolicy) useOfAll(u int32) []int64 {
	if c.use == nil {
		c.use = make([]int64, c.t.Dims())
	}
	for r := range c.use {
		c.use[r] = useOf(&c.s.Units[u], r)
	}
	return c.use
}

// holding returns the resources that make the quota of queue q protect a unit with this usage.
func (c *queuePolicy) holding(q int32, use []int64) fairshare.Hold {
	return fairshare.Holding(c.kinds, c.t.Queue(q).Quota, use)
}

// useOf returns the usage of a unit for resource r, on all its nodes.
func useOf(u *Unit, r int) int64 {
	use := int64(0)
	for i := range u.Pods {
		use = fairshare.Add(use, fairshare.Usage(u.Pods[i].Request[r]))
	}
	return min(use, maxAmount)
}

// usedBy returns the usage of every queue, including the queues below it.
func usedBy(s *Snapshot, leaves []int32) []int64 {
	t := s.Queues.Tree
	used := make([]int64, t.Len()*t.Dims())
	for u, leaf := range leaves {
		useUnit(t, used, leaf, &s.Units[u])
	}
	return used
}

// useUnit adds a unit to the usage of its leaf queue and of the leaf's ancestors.
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
