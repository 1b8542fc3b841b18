package core

import (
	"math"
	"slices"
)

// systemCritical is the lowest priority of preemptors that go by priority whatever the queues say.
const systemCritical = 2_000_000_000

// contest is how one preemptor stands against the units of a snapshot where more than their priority counts: queues,
// or min-runtimes. Each unit gets a verdict; those that may be taken become the candidates of the search.
type contest struct {
	s *Snapshot
	p *Preemptor
	c *columns
	t *Tree
	// used and shares are by queue; request is what the preemptor asks for, and asks lists the resources of that.
	used    []int64
	shares  []Amounts
	request []int64
	asks    []int
	// leaf is the preemptor's queue, -1 for none. path leads from it to the top, onPath is the inverse, from 1 on;
	// within says up to where on the path the preemptor would stay within its fair share.
	leaf   int32
	path   []int
	onPath []int32
	within int
	roster *roster
	leafOf []int32
	sides  []side
	// surplus is how many members each gang has past its minCount, by UID.
	surplus map[string]int
	// scratch is a ledger for sets of units that are looked at one after the other.
	scratch *ledger

	protected map[Rule]int
	shown     topUnits
	// passing are the units that are protected for a time only.
	passing []timed
}

// side is what the queues say of all units in one leaf.
type side struct {
	judged bool
	// rule protects the leaf's units; empty where they may be reclaimed.
	rule Rule
	// near is true where the side is at the nearest distance from its fair share.
	near bool
	// spare is what the leaf has beyond all quotas on its side; nil where nobody has asked.
	spare []int64
	// top is the queue one step below the lowest common ancestor, on the leaf's side.
	top int32
}

// timed is a unit with the rule that protects it for a time.
type timed struct {
	unit    int32
	verdict Verdict
}

// contested reports whether more than priority counts for a preemptor.
func contested(s *Snapshot, p *Preemptor) bool {
	if p.MinRuntime.Preempt > 0 {
		return true
	}
	if s.Queues == nil || s.Queues.Tree == nil || len(s.Queues.Tree.nodes) == 0 {
		return false
	}
	return leafOfPreemptor(s, p) >= 0 || s.Queues.Tree.protects()
}

// protects reports whether any queue keeps its work from preemption for a time.
func (t *Tree) protects() bool {
	for i := range t.nodes {
		if t.nodes[i].PreemptMinRuntime > 0 {
			return true
		}
	}
	return false
}

// leafOfPreemptor is the queue that a preemptor stands for; -1 for one that goes by priority.
func leafOfPreemptor(s *Snapshot, p *Preemptor) int32 {
	if s.Queues == nil || p.Priority >= systemCritical {
		return -1
	}
	return s.Queues.Tree.leaf(p.Queue)
}

func newContest(v *view) *contest {
	c := &contest{
		s: v.s, p: v.p, c: v.c, leaf: leafOfPreemptor(v.s, v.p), roster: v.c.roster, request: make([]int64, v.dims),
		surplus: make(map[string]int), protected: make(map[Rule]int),
	}
	c.shown = topUnits{s: v.s, sign: -1}
	for class, n := range firstMembers(v.p.Classes, max(v.p.MinCount, 1)) {
		for r, want := range v.wanted[class] {
			for range n {
				c.request[r] = addSaturating(c.request[r], min(want, maxAmount))
			}
		}
	}
	for r, want := range c.request {
		if want > 0 {
			c.asks = append(c.asks, r)
		}
	}
	q := v.s.Queues
	if c.roster == nil {
		c.roster = newRoster(v.s)
	}
	c.leafOf = c.roster.leaves
	if q != nil && q.Tree != nil {
		c.t, c.shares, c.used = q.Tree, q.Shares, q.used
		if c.used == nil {
			c.used = usedBy(v.s, c.leafOf)
		}
		c.sides = make([]side, len(c.t.nodes))
		c.climb()
	}
	return c
}

// queues is how many queues there are.
func (c *contest) queues() int {
	if c.t == nil {
		return 0
	}
	return len(c.t.nodes)
}

// climb finds the way up from the preemptor's queue, and how far it stays within its fair share.
func (c *contest) climb() {
	c.onPath = make([]int32, len(c.t.nodes))
	if c.leaf < 0 {
		return
	}
	c.path = c.t.Path(int(c.leaf))
	c.within = len(c.path)
	for i, q := range c.path {
		c.onPath[q] = int32(i) + 1
		for _, r := range c.asks {
			if addSaturating(c.usedOf(int32(q))[r], c.request[r]) > c.shareOf(int32(q), r) {
				c.within = min(c.within, i)
			}
		}
	}
}

func (c *contest) usedOf(q int32) []int64 { return c.used[int(q)*c.t.dims:][:c.t.dims] }

func (c *contest) shareOf(q int32, r int) int64 {
	if int(q) >= len(c.shares) || r >= len(c.shares[q]) {
		return 0
	}
	return c.shares[q][r]
}

// sideOf judges all units of a leaf that is not the preemptor's own.
func (c *contest) sideOf(leaf int32) *side {
	sd := &c.sides[leaf]
	if sd.judged {
		return sd
	}
	sd.judged, sd.top = true, leaf
	parent := c.t.nodes[leaf].parent
	for parent >= 0 && c.onPath[parent] == 0 {
		sd.top, parent = parent, c.t.nodes[parent].parent
	}
	if sd.top != leaf {
		// All leaves of a side are judged by the queue at its top.
		*sd = *c.sideOf(sd.top)
		return sd
	}
	// steps is how many queues the preemptor has below the lowest common ancestor.
	steps := len(c.path)
	if parent >= 0 {
		steps = int(c.onPath[parent]) - 1
	}
	switch {
	case c.within < steps:
		sd.rule = RuleOverShare
	case !c.above(sd.top, nil):
		sd.rule = RuleFairShare
	default:
		sd.near = distanceOf(c.ratio(sd.top, nil)) == nearest
	}
	return sd
}

// above reports whether a queue has more than its fair share of anything that the preemptor asks for, less what has
// been taken.
func (c *contest) above(q int32, taken []int64) bool {
	for _, r := range c.asks {
		used := c.usedOf(q)[r]
		if taken != nil {
			used -= taken[int(q)*c.t.dims+r]
		}
		if used > c.shareOf(q, r) {
			return true
		}
	}
	return false
}

// leafOfUnit is the queue of a unit; -1 where it has none, or one that is no longer there.
func (c *contest) leafOfUnit(u int32) int32 { return c.leafOf[u] }

// byPriority reports whether a unit goes by priority, and not by what its queue is entitled to.
func (c *contest) byPriority(u int32) bool {
	leaf := c.leafOfUnit(u)
	return c.leaf < 0 || leaf < 0 || leaf == c.leaf
}

// judge gives the verdict on one unit (min-runtime document, and "who may be taken").
func (c *contest) judge(u int32) Verdict {
	unit := &c.s.Units[u]
	v := Verdict{Eligible: true, Rule: RuleLowerPriority}
	switch {
	case c.p.PodGroup != "" && unit.PodGroup == c.p.PodGroup:
		return Verdict{Rule: RuleOwnGang}
	case c.byPriority(u):
		if unit.Priority >= c.p.Priority {
			return Verdict{Rule: RuleNotLowerPriority}
		}
	default:
		sd := c.sideOf(c.leafOfUnit(u))
		if sd.rule != "" {
			return Verdict{Rule: sd.rule}
		}
		if c.isQuota(u) {
			return Verdict{Rule: RuleQuota, Queue: c.t.nodes[c.belowQuota(u, nil)].Name}
		}
		v.Rule = RuleReclaim
	}
	if w, tolerated := tolerates(c.p, unit); tolerated {
		return w
	}
	if w, young := c.minRuntime(u); young && (!elastic(unit) || c.surplusOf(unit) <= 0) {
		return w
	}
	return v
}

// elastic reports whether a unit is a member of a gang that may lose some members and stay whole.
func elastic(u *Unit) bool {
	return !u.Group && u.PodGroup != "" && u.Tenure != nil && u.Tenure.MinCount > 0
}

// surplusOf is how many running members a unit's gang has past its minCount.
func (c *contest) surplusOf(u *Unit) int {
	n, known := c.surplus[u.PodGroup]
	if !known {
		n = -int(u.Tenure.MinCount)
		for _, m := range c.c.ofPodGroup(c.s, u.PodGroup) {
			if c.s.Units[m].Running {
				n++
			}
		}
		c.surplus[u.PodGroup] = n
	}
	return n
}

// spareOf is what a single unit of a leaf may have without leaving any queue on its side with less than its quota.
func (c *contest) spareOf(leaf int32) []int64 {
	sd := c.sideOf(leaf)
	if sd.spare != nil {
		return sd.spare
	}
	spare := slices.Repeat([]int64{math.MaxInt64}, c.t.dims)
	for q := leaf; ; q = c.t.nodes[q].parent {
		for r, quota := range c.t.nodes[q].Quota {
			if quota > 0 {
				spare[r] = min(spare[r], max(c.usedOf(q)[r]-quota, 0))
			}
		}
		if q == sd.top {
			break
		}
	}
	sd.spare = spare
	return spare
}

// isQuota reports whether some queue on the victim's side would be left with less than its quota without a unit.
func (c *contest) isQuota(u int32) bool {
	for r, spare := range c.spareOf(c.leafOfUnit(u)) {
		if spare < math.MaxInt64 && useOf(&c.s.Units[u], r) > spare {
			return true
		}
	}
	return false
}

// belowQuota finds a queue on the victim's side that would be left with less than its quota of something that the
// unit has, once it is gone beside what has been taken; -1 where there is none.
func (c *contest) belowQuota(u int32, taken []int64) int32 {
	leaf := c.leafOfUnit(u)
	top := c.sideOf(leaf).top
	for r := range c.t.dims {
		use := useOf(&c.s.Units[u], r)
		if use == 0 {
			continue
		}
		for q := leaf; ; q = c.t.nodes[q].parent {
			left := c.usedOf(q)[r] - use
			if taken != nil {
				left -= taken[int(q)*c.t.dims+r]
			}
			if quota := c.t.nodes[q].Quota[r]; quota > 0 && left < quota {
				return q
			}
			if q == top {
				break
			}
		}
	}
	return -1
}

// useOf is what a unit occupies of one resource, on all nodes.
func useOf(u *Unit, r int) int64 {
	use := int64(0)
	for i := range u.Pods {
		use = addSaturating(use, usedAmount(u.Pods[i].Request[r]))
	}
	return min(use, maxAmount)
}

// minRuntimeOf is how long units of a leaf run before this preemptor may take them, and the queue that says so; -1
// where it is the default.
func (c *contest) minRuntimeOf(leaf int32) (queue int32, runtime int64) {
	if c.leaf < 0 || leaf < 0 || leaf == c.leaf {
		return c.t.resolve(leaf, c.p.MinRuntime.Preempt, func(q *Queue) int64 { return q.PreemptMinRuntime })
	}
	from := c.sideOf(leaf).top
	if c.p.MinRuntime.Resolve == ResolveQueue {
		from = leaf
	}
	return c.t.resolve(from, c.p.MinRuntime.Reclaim, func(q *Queue) int64 { return q.ReclaimMinRuntime })
}

// minRuntime reports whether a unit has not run long enough for this preemptor to take it.
func (c *contest) minRuntime(u int32) (Verdict, bool) {
	queue, runtime := c.minRuntimeOf(c.leafOfUnit(u))
	v := Verdict{Rule: RuleReclaimMinRuntime}
	if c.byPriority(u) {
		v.Rule = RulePreemptMinRuntime
	}
	if queue >= 0 {
		v.Queue = c.t.nodes[queue].Name
	}
	since := c.s.Units[u].Since
	switch {
	case runtime <= 0:
		return Verdict{}, false
	case since == 0:
		// The clock has not begun, so there is no telling when it ends.
		return v, true
	}
	if v.Until = addSaturating(since, runtime); v.Until == math.MaxInt64 {
		v.Until = 0
		return v, true
	}
	return v, c.p.Now <= v.Until
}

// resolve finds the first queue on the way up that sets a min-runtime; the default counts where none does.
func (t *Tree) resolve(from int32, otherwise int64, setting func(*Queue) int64) (queue int32, runtime int64) {
	for q := from; q >= 0; q = t.nodes[q].parent {
		if d := setting(&t.nodes[q].Queue); d >= 0 {
			return q, d
		}
	}
	return -1, otherwise
}

// usedBy adds up what runs in every queue and below it.
func usedBy(s *Snapshot, leaves []int32) []int64 {
	t := s.Queues.Tree
	used := make([]int64, len(t.nodes)*t.dims)
	for u, leaf := range leaves {
		t.use(used, leaf, &s.Units[u], 1)
	}
	return used
}

// use adds a unit to what is used in its leaf and in all queues above it, or takes it away.
func (t *Tree) use(used []int64, leaf int32, u *Unit, sign int64) {
	if leaf < 0 {
		return
	}
	for i := range u.Pods {
		t.useAmounts(used, leaf, u.Pods[i].Request, sign)
	}
}

func (t *Tree) useAmounts(used []int64, leaf int32, a Amounts, sign int64) {
	for q := leaf; q >= 0; q = t.nodes[q].parent {
		row := used[int(q)*t.dims:][:t.dims]
		for r, v := range a {
			row[r] += sign * usedAmount(v)
		}
	}
}
