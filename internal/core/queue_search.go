package core

import (
	"cmp"
	"fmt"
	"slices"
)

// boundRounds is the maximum number of searches that repeat with fewer potential victims because
// the outcome exceeded a bound.
const boundRounds = 8

// search looks for victims among all units that the policy allows. First it uses the reach of the
// preemptor before any eviction. If there is no room, it uses the reach after evictions in the
// preemptor's own queue. So a preemptor that can reclaim its quota does not evict from its own
// queue.
//
// The search by fair share comes first, because it is fast. If its victims may be evicted only
// because of the quota, the search is repeated by fair share and quota together. This search
// reclaims usage above the fair shares first.
func (c *queuePolicy) search(sr *search) Decision {
	far, near := c.reach, c.asIs
	if near.share < far.share || near.share == far.share && far.quota > 0 {
		c.reachTo(reach{share: near.share})
		d, victims, ok := c.searchAmong(sr)
		if ok && near.quota > 0 && !c.keepShares(victims) {
			c.reachTo(near)
			if both, _, found := c.searchAmong(sr); found {
				d = both
			}
		}
		if ok && (near.quota == 0 || !slices.ContainsFunc(d.Victims, func(v Victim) bool { return v.Rule == RuleLowerPriority })) {
			return d
		}
		c.reachTo(far)
		if wide, _, found := c.searchAmong(sr); found || !ok {
			return wide
		}
		return d
	}
	d, _, _ := c.searchAmong(sr)
	return d
}

// keepShares reports whether the fair shares allow the eviction of the units, if the preemptor's
// quota does not count.
func (c *queuePolicy) keepShares(units []int32) bool {
	l := c.ledger()
	for _, u := range units {
		l.add(u, c.reclaims(u))
		l.pathUse.free(u, 1)
	}
	after := l.pathUse.reach()
	after.quota = 0
	_, ok := l.allowsWithin(units, l.pathUse, after)
	return ok
}

// searchAmong searches within the reach of the policy. If an outcome exceeds a bound, it repeats
// the search without some of the units that this bound limits. If that fails, it tries other sets
// of units. At last, it searches only units that may be evicted in any combination. It returns the
// Decision, the victims as indexes of units, and whether there is room.
func (c *queuePolicy) searchAmong(sr *search) (Decision, []int32, bool) {
	mem := sr.v.c.borrow()
	defer sr.v.c.handBack(mem)
	order := c.rank(mem)
	var sub *search
	var first, last *overBound
	without := make(map[int32]bool)
	for range boundRounds {
		sub = sr.among(order, without)
		if f, ok := sub.pick(); ok {
			return sub.preempting(f), slices.Clone(f.victims), true
		}
		first, last = cmp.Or(first, sub.refused), sub.refused
		if sub.refused == nil || sub.refused.bound.rule == RuleOverShare || sub.refused.bound.rule == RuleLimit {
			break
		}
		c.bar(sub.refused, sub.s.ranks, without)
	}
	if first != nil {
		sub = sr.among(order, nil)
		if f, ok := sub.wholeSets(cmp.Or(last, first).bound.rule); ok {
			return sub.preempting(f), slices.Clone(f.victims), true
		}
	}
	if sr.p.Gang && order.bounded {
		sub = sr.among(order, order.apart())
		if f, ok := sub.pick(); ok {
			return sub.preempting(f), slices.Clone(f.victims), true
		}
	}
	if first != nil || sr.p.Gang {
		sub = sr.among(order, nil)
	}
	sub.refused = first
	return sub.infeasible(), nil, false
}

// bar fills the set without: it adds the potential victims that count against the exceeded bound.
// It goes through the victims of the rejected outcome, the last one first, and spares the victims
// that together stay within the bound.
func (c *queuePolicy) bar(refused *overBound, ranks []int32, without map[int32]bool) {
	kept, l := make(map[int32]bool), c.ledger()
	for _, u := range slices.Backward(refused.victims) {
		if refused.bound.holds(c, u) {
			kept[u] = l.take(u)
		}
	}
	for i, rank := range ranks {
		if u := int32(i); rank < rankSafe && !kept[u] && refused.bound.holds(c, u) {
			without[u] = true
		}
	}
}

// sentence describes the bound for a message.
func (b bound) sentence() string {
	switch {
	case b.queue < 0:
		return fmt.Sprintf("it takes more members of a gang than %s permits", b.rule)
	case b.rule == RuleOverShare:
		return fmt.Sprintf("it takes queue %s beyond its fair share", b.name)
	case b.rule == RuleLimit:
		return fmt.Sprintf("it takes queue %s beyond its limit", b.name)
	case b.rule == RuleQuota:
		return fmt.Sprintf("it takes more than queue %s has beyond its quota", b.name)
	default:
		return fmt.Sprintf("it takes more than queue %s has beyond its fair share", b.name)
	}
}
