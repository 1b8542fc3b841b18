package queue

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Membership is the group of a pod, with facts that affect how the pod counts.
type Membership struct {
	// Group is the zero name for a pod without a group.
	Group types.NamespacedName
	// Whole is true if the group is evicted as a whole or not at all.
	Whole bool
	// Overdue is true for a terminating pod that counts as running. It should have terminated long
	// ago, or its grace period is longer than planning waits for.
	Overdue bool
}

// wholeGroupKey identifies the usage of a whole group in one queue.
type wholeGroupKey struct {
	queue string
	group types.NamespacedName
}

// groupUse is the usage of a group's pods.
type groupUse struct {
	pods int64
	// amounts is the usage by node.
	amounts map[string]Amounts
}

// wholeGroup is the usage of a group that is evicted as a whole.
type wholeGroup struct {
	wholeGroupKey
	leaf int32
	// amount is the total usage of the group, and in is its usage in each pool of the layout.
	amount fairshare.Amounts
	in     map[int]fairshare.Amounts
}

// chargeWhole adds a charge to the usage of its group, or subtracts it if sign is -1. It does
// nothing for pods without a node and for groups that may lose single pods.
func (b *Ledger) chargeWhole(c charge, sign int64) {
	if !c.Whole || !c.placed {
		return
	}
	key := wholeGroupKey{queue: c.queue, group: c.Group}
	l := b.wholeGroups[key]
	l.pods += sign
	if l.amounts == nil {
		l.amounts = make(map[string]Amounts)
	}
	addOf(l.amounts, c.node, c.request, sign)
	if b.wholeGroups[key] = l; l.pods == 0 {
		delete(b.wholeGroups, key)
	}
}

// WholeGroups is the usage of the groups that are evicted as a whole. It is immutable.
type WholeGroups []wholeGroup

// WholeGroups returns the usage of the groups that are evicted as a whole. It includes only groups
// in leaf queues of the Snapshot.
func (b *Ledger) WholeGroups(s *Snapshot) WholeGroups {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out WholeGroups
	for key, l := range b.wholeGroups {
		if leaf := s.Tree.LeafOf(key.queue); leaf >= 0 {
			out = append(out, s.wholeGroup(key, leaf, l))
		}
	}
	slices.SortFunc(out, func(x, y wholeGroup) int {
		return cmp.Or(cmp.Compare(x.queue, y.queue), cmp.Compare(x.group.Namespace, y.group.Namespace), cmp.Compare(x.group.Name, y.group.Name))
	})
	return out
}

func (s *Snapshot) wholeGroup(key wholeGroupKey, leaf int32, use groupUse) wholeGroup {
	out, all := wholeGroup{wholeGroupKey: key, leaf: leaf, in: make(map[int]fairshare.Amounts)}, make(Amounts)
	for node, amounts := range use.amounts {
		all.add(amounts, 1)
		if s.markets == nil {
			continue
		}
		if pool, ok := s.markets.layout.poolOf[node]; ok {
			if out.in[pool] == nil {
				out.in[pool] = make(fairshare.Amounts, len(s.Names))
			}
			for r, v := range amounts.vector(s.Names, 0) {
				out.in[pool][r] += v
			}
		}
	}
	out.amount = all.vector(s.Names, 0)
	return out
}

// region is a set of nodes with separate fair shares of one resource.
type region struct {
	*Snapshot
	// capacity is the amount of the resource in the region. has returns the usage of a queue in the
	// region. entitled returns the share of a queue in the region plus its usage elsewhere.
	capacity      int64
	has, entitled func(q int32) int64
	// of returns the usage of a group in the region.
	of func(*wholeGroup) int64
}

// regions lists the regions of a resource.
func (s *Snapshot) regions(r int) []region {
	if s.markets == nil {
		return []region{{
			Snapshot: s, capacity: s.Capacity[r], has: func(q int32) int64 { return s.Allocated[q][r] },
			entitled: func(q int32) int64 { return s.Shares[q][r] }, of: func(l *wholeGroup) int64 { return l.amount[r] },
		}}
	}
	out := make([]region, len(s.markets.Markets[r]))
	for i := range out {
		market := &s.markets.Markets[r][i]
		used := s.markets.UsedIn(market.Pools, r)
		out[i] = region{
			Snapshot: s, capacity: s.markets.CapacityOf(market.Pools, r), has: func(q int32) int64 { return used[q] },
			entitled: func(q int32) int64 { return market.Shares[q] + s.Allocated[q][r] - used[q] },
			of: func(l *wholeGroup) (sum int64) {
				for pool, amounts := range l.in {
					if market.Pools&(1<<pool) != 0 {
						sum += amounts[r]
					}
				}
				return sum
			},
		}
	}
	return out
}

// guaranteed returns the amount of a resource that a queue can always reclaim: its quota, or less
// if the quotas exceed the capacity.
func (g *region) guaranteed(q int32, r int) int64 {
	return min(g.Tree.Queue(q).Quota[r], g.entitled(q))
}

// unreturnable returns the reason why a queue cannot reclaim its quota; "" if it can. The reason is
// a group in another queue that is evicted as a whole. The group is larger than the usage of its
// queue beyond the quota, so it cannot be reclaimed. Obstacles that only a search can find, such as
// fragmented room, are not reported.
func (s *Snapshot) unreturnable(q int32, wholeGroups WholeGroups) string {
	for r := range s.Names {
		why := ""
		for _, region := range s.regions(r) {
			lacks := region.guaranteed(q, r) - s.Allocated[q][r]
			if lacks <= 0 {
				continue
			}
			if why = region.unreturnable(q, r, lacks, wholeGroups); why == "" {
				// The queue can use its quota in this region.
				break
			}
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// unreturnable does the work of [Snapshot.unreturnable] for one region. The argument lacks is the
// amount of the quota that the queue does not have.
func (g *region) unreturnable(q int32, r int, lacks int64, wholeGroups WholeGroups) string {
	back := g.capacity
	for _, top := range g.Tree.Top() {
		back -= g.has(top)
	}
	back = max(back, 0)
	var held *wholeGroup
	var spare int64
	for _, other := range g.beside(q) {
		gives, tooLarge := g.gives(other, r, wholeGroups)
		back += gives
		if tooLarge != nil && (held == nil || g.of(tooLarge) > g.of(held)) {
			held, spare = tooLarge, g.Allocated[other][r]-g.guaranteed(other, r)
		}
	}
	if held == nil || back >= lacks {
		return ""
	}
	amount := func(v int64) string { return fairshare.Format(g.Names[r], v) + " " + g.Names[r] }
	return fmt.Sprintf("%s of the quota cannot be given back: PodGroup %s of Queue %q goes as a whole and has %s, more than the %s by which its quota is exceeded",
		amount(lacks-back), held.group, held.queue, amount(g.of(held)), amount(spare))
}

// beside returns the queues that a queue can reclaim from: its siblings, and the siblings of its
// ancestors.
func (s *Snapshot) beside(q int32) []int32 {
	var out []int32
	for ; q >= 0; q = s.Tree.Parent(q) {
		siblings := s.Tree.Top()
		if p := s.Tree.Parent(q); p >= 0 {
			siblings = s.Tree.Children(p)
		}
		for _, other := range siblings {
			if other != q {
				out = append(out, other)
			}
		}
	}
	return out
}

// kinds returns the kind of each resource. The kind is Absent if there is no capacity.
func (s *Snapshot) kinds() []fairshare.Kind {
	out := make([]fairshare.Kind, len(s.Names))
	for r, name := range s.Names {
		if out[r] = fairshare.KindOf(name); s.Capacity[r] <= 0 {
			out[r] = fairshare.Absent
		}
	}
	return out
}

// gives returns the largest amount of a resource that can be reclaimed from a queue. tooLarge is
// the largest whole group that prevents more; nil for none.
func (g *region) gives(q int32, r int, wholeGroups WholeGroups) (most int64, tooLarge *wholeGroup) {
	spare := g.Allocated[q][r] - g.guaranteed(q, r)
	if spare <= 0 {
		return 0, nil
	}
	most = g.has(q)
	kinds := g.kinds()
	for i := range wholeGroups {
		l := &wholeGroups[i]
		if g.of(l) == 0 || l.amount[r] <= spare || !slices.Contains(g.Tree.Path(l.leaf), q) {
			continue
		}
		if h := fairshare.Holding(kinds, g.Tree.Queue(q).Quota, l.amount); !h.By(r) {
			continue
		}
		most -= g.of(l)
		if tooLarge == nil || g.of(l) > g.of(tooLarge) {
			tooLarge = l
		}
	}
	return min(most, spare), tooLarge
}
