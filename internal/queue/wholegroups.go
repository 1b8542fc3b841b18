package queue

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Membership is what a pod is a member of, and whether it is about to leave that.
type Membership struct {
	// Group is zero for none.
	Group types.NamespacedName
	// Whole is true where the group is disrupted as a whole or not at all.
	Whole bool
	// Overdue is true for a pod that is terminating, and that nothing counts on to go any more: it counts as one that stays.
	Overdue bool
}

// wholeGroupKey names what a group has in one queue that goes as a whole.
type wholeGroupKey struct {
	queue string
	group types.NamespacedName
}

// groupUse is what so many pods have.
type groupUse struct {
	pods int64
	// amounts are by node.
	amounts map[string]Amounts
}

// wholeGroup is what a group has that goes as a whole.
type wholeGroup struct {
	wholeGroupKey
	leaf int32
	// amount is what the group has, and in what of that is in each pool of the layout.
	amount fairshare.Amounts
	in     map[int]fairshare.Amounts
}

// chargeWhole keeps up to date what groups have on nodes that go whole.
func (b *Board) chargeWhole(c charge, sign int64) {
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

// WholeGroups are what groups that go as a whole have in queues. They do not change.
type WholeGroups []wholeGroup

// WholeGroups lists what groups that go as a whole have in the queues of a standing.
func (b *Board) WholeGroups(s *Standing) WholeGroups {
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

func (s *Standing) wholeGroup(key wholeGroupKey, leaf int32, use groupUse) wholeGroup {
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

// region is nodes of which a resource is shared by itself.
type region struct {
	*Standing
	// capacity is what there is of the resource. Has is what a queue has of it there, and entitled its share with what it has elsewhere.
	capacity      int64
	has, entitled func(q int32) int64
	// of is what a group has there.
	of func(*wholeGroup) int64
}

// regions are the regions of a resource.
func (s *Standing) regions(r int) []region {
	if s.markets == nil {
		return []region{{
			Standing: s, capacity: s.Capacity[r], has: func(q int32) int64 { return s.Allocated[q][r] },
			entitled: func(q int32) int64 { return s.Shares[q][r] }, of: func(l *wholeGroup) int64 { return l.amount[r] },
		}}
	}
	out := make([]region, len(s.markets.Markets[r]))
	for i := range out {
		market := &s.markets.Markets[r][i]
		used := s.markets.UsedIn(market.Pools, r)
		out[i] = region{
			Standing: s, capacity: s.markets.CapacityOf(market.Pools, r), has: func(q int32) int64 { return used[q] },
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

// guaranteed is what a queue can always get back: its quota, cut down where quotas claim more than there is.
func (g *region) guaranteed(q int32, r int) int64 {
	return min(g.Tree.Queue(q).Quota[r], g.entitled(q))
}

// unreturnable says what keeps a queue from getting its quota back: whole groups that are larger than what their queues have
// beyond theirs; "" for nothing. It leaves out what only a search can find, such as that room is in pieces.
func (s *Standing) unreturnable(q int32, wholeGroups WholeGroups) string {
	for r := range s.Names {
		why := ""
		for _, region := range s.regions(r) {
			lacks := region.guaranteed(q, r) - s.Allocated[q][r]
			if lacks <= 0 {
				continue
			}
			if why = region.unreturnable(q, r, lacks, wholeGroups); why == "" {
				// It can have its quota there.
				break
			}
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// unreturnable says the same of one region, in which a queue lacks so much of its quota.
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

// beside are the queues from which a queue and those above it reclaim: what branches off its way to the top.
func (s *Standing) beside(q int32) []int32 {
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

// kinds are those of all resources of the standing. Of what there is nothing to share is absent.
func (s *Standing) kinds() []fairshare.Kind {
	out := make([]fairshare.Kind, len(s.Names))
	for r, name := range s.Names {
		if out[r] = fairshare.KindOf(name); s.Capacity[r] <= 0 {
			out[r] = fairshare.Absent
		}
	}
	return out
}

// gives is how much of a resource a queue can give back at most, and the largest whole group that keeps it from giving more; nil for none.
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
