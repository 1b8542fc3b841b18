package core

import (
	"math"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// queuePolicy entitles a preemptor by the shares and quotas of queues, and by priority to units of
// its own queue and of no queue. It also bounds sets of units, because verdicts judge each unit
// alone: by shares, quotas, and the surplus of gangs inside a min-runtime.
type queuePolicy struct {
	*ruling
	// used and shares are by queue. request is the preemptor's request, and asks lists the
	// resources in it.
	used    []int64
	shares  []Amounts
	request []int64
	asks    []int
	// kinds are the kinds of all resources. A resource that no node lists is Absent.
	kinds []fairshare.Kind
	// use is memory for useOfAll.
	use []int64
	// reach limits the queues that the preemptor may evict from, by their distance in the tree.
	// asIs is the reach without any eviction.
	reach, asIs reach
	subtrees    []subtree
	// lacks is true if the preemptor is a gang that lacks members that it had.
	lacks bool
	// line is the snapshot with the preemptor's bands. It orders the units of a queue.
	line *Snapshot
	// scratch is a ledger for sets of units that are checked one after the other.
	scratch *ledger

	order *victimOrder
	count map[Rule]int
	shown topUnits
	// timed are the units that are protected for a time only.
	timed []timed
}

// subtree is the verdict of the queues on all units in one leaf. It belongs to the queue one step
// below the lowest common ancestor.
type subtree struct {
	judged bool
	// rule protects the leaf's units; empty if they may be reclaimed.
	rule Rule
	// byQuota is true if they may be reclaimed down to the quota of the queue at the top, byShare
	// if down to its fair share.
	byQuota, byShare bool
	// near is true if the subtree is at the nearest distance from its fair share.
	near bool
	// spare is the leaf's usage beyond all quotas in its subtree; nil until it is needed.
	spare []int64
	// top is the queue at the top of the subtree.
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

// lists reports whether some node has any of a resource.
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

// inQueues returns the units of each queue, and the queues' usage.
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

// fullFor returns a queue with a limit that leaves no room for the preemptor: its own queue or one
// above it. It returns -1 for none.
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

// climb sets the path from the preemptor's queue upwards.
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

// share returns a queue's fair share of the resources that have one.
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

// quotaOf returns the amount that a queue can always reclaim: its quota, limited to its fair share.
// The share is lower if quotas exceed the capacity, or if the queue's demand is lower.
func (c *queuePolicy) quotaOf(q int32, r int) int64 {
	return min(c.t.Queue(q).Quota[r], c.shareOf(q, r))
}

// ratio returns the ratio of a queue's usage to its fair share, among the resources of the
// preemptor's request. It subtracts the amounts taken from the usage.
func (c *queuePolicy) ratio(q int32, taken []int64) float64 {
	if taken != nil {
		taken = taken[int(q)*c.t.Dims():][:c.t.Dims()]
	}
	return fairshare.DominantShare(c.usedOf(q), taken, c.share(q), c.asks)
}

// overallRatio returns a function that reports how far a queue is over its fair share, by the
// listed resource with the highest ratio. It does not depend on the preemptor's request, so two
// gangs that compare their queues agree on the order.
func (c *queuePolicy) overallRatio() func(q int32) float64 {
	var listed []int
	for r, kind := range c.kinds {
		if kind != fairshare.Absent {
			listed = append(listed, r)
		}
	}
	return func(q int32) float64 { return fairshare.DominantShare(c.usedOf(q), nil, c.share(q), listed) }
}

// subtreeOf judges all units of a leaf that is not the preemptor's own.
func (c *queuePolicy) subtreeOf(leaf int32) *subtree {
	st := &c.subtrees[leaf]
	if st.judged {
		return st
	}
	st.judged, st.top = true, c.top(leaf)
	if st.top != leaf {
		// All leaves of a subtree are judged by the queue at its top.
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
		// By quota, usage above the fair share is reclaimed first, so units are judged one by one.
		st.near = !st.byQuota && distanceOf(c.ratio(st.top, nil)) >= nearest
	}
	return st
}

// above reports whether a queue at the top of a subtree uses more of any requested resource than it
// may be reclaimed down to. Units in a ledger, if there is one, are subtracted.
func (c *queuePolicy) above(top int32, l *ledger) bool {
	return slices.ContainsFunc(c.asks, func(r int) bool { return c.lent(top, r, c.usedOf(top)[r]-l.takenOf(top, r)) })
}

// lent reports whether a usage of a resource is more than a queue at the top of a subtree may be
// reclaimed down to.
func (c *queuePolicy) lent(top int32, r int, used int64) bool {
	st := &c.subtrees[top]
	return st.byShare && used > c.shareOf(top, r) || st.byQuota && c.hasQuota(r) && used > c.quotaOf(top, r)
}

// entitlement returns the verdict by priority, or by the entitlements of the unit's queue and the
// preemptor's queue.
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

// spareOf returns the most that a single unit of a leaf may use without leaving a queue in its
// subtree below its quota.
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

// pastSpare reports whether evicting a unit with the given usage would leave some queue in a leaf's
// subtree below its quota of any resource.
func (c *queuePolicy) pastSpare(leaf int32, use func(r int) int64) bool {
	for r, spare := range c.spareOf(leaf) {
		if spare < math.MaxInt64 && use(r) > spare {
			return true
		}
	}
	return false
}

// belowQuota returns a queue in the victim's subtree that its eviction would leave below its quota;
// -1 for none. It subtracts the units in a ledger, if there is one. Only resources count that hold
// the unit to the quota, or a unit taken before. It returns the queue at the top if that would be
// below its quota of every resource that it has to spare.
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

// useOfAll returns a unit's usage of every resource, valid until the next call.
func (c *queuePolicy) useOfAll(u int32) []int64 {
	if c.use == nil {
		c.use = make([]int64, c.t.Dims())
	}
	for r := range c.use {
		c.use[r] = useOf(&c.s.Units[u], r)
	}
	return c.use
}

// holding returns the resources that a queue's quota holds the given usage by.
func (c *queuePolicy) holding(q int32, use []int64) fairshare.Hold {
	return fairshare.Holding(c.kinds, c.t.Queue(q).Quota, use)
}

// useOf returns a unit's usage of one resource, on all nodes.
func useOf(u *Unit, r int) int64 {
	use := int64(0)
	for i := range u.Pods {
		use = fairshare.Add(use, fairshare.Usage(u.Pods[i].Request[r]))
	}
	return min(use, maxAmount)
}

// usedBy returns the usage of every queue and the queues below it.
func usedBy(s *Snapshot, leaves []int32) []int64 {
	t := s.Queues.Tree
	used := make([]int64, t.Len()*t.Dims())
	for u, leaf := range leaves {
		useUnit(t, used, leaf, &s.Units[u])
	}
	return used
}

// useUnit adds a unit to the usage of its leaf and of all queues above it.
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
