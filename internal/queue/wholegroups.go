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
	pods    int64
	amounts Amounts
}

// wholeGroup is what a group has that goes as a whole.
type wholeGroup struct {
	wholeGroupKey
	leaf   int32
	amount fairshare.Amounts
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
		l.amounts = make(Amounts)
	}
	l.amounts.add(c.request, sign)
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
			out = append(out, wholeGroup{wholeGroupKey: key, leaf: leaf, amount: l.amounts.vector(s.Names, 0)})
		}
	}
	slices.SortFunc(out, func(x, y wholeGroup) int {
		return cmp.Or(cmp.Compare(x.queue, y.queue), cmp.Compare(x.group.Namespace, y.group.Namespace), cmp.Compare(x.group.Name, y.group.Name))
	})
	return out
}

// guaranteed is what a queue can always get back: its quota, cut down where quotas claim more than there is.
func (s *Standing) guaranteed(q int32, r int) int64 {
	return min(s.Tree.Queue(q).Quota[r], s.Shares[q][r])
}

// unreturnable says what keeps a queue from getting its quota back: whole groups that are larger than what their queues have
// beyond theirs; "" for nothing. It leaves out what only a search can find, such as that room is in pieces.
func (s *Standing) unreturnable(q int32, wholeGroups WholeGroups) string {
	for r := range s.Names {
		lacks := s.guaranteed(q, r) - s.Allocated[q][r]
		if lacks <= 0 {
			continue
		}
		back := s.Capacity[r]
		for _, top := range s.Tree.Top() {
			back -= s.Allocated[top][r]
		}
		back = max(back, 0)
		var held *wholeGroup
		var spare int64
		for _, other := range s.beside(q) {
			gives, tooLarge := s.gives(other, r, wholeGroups)
			back += gives
			if tooLarge != nil && (held == nil || tooLarge.amount[r] > held.amount[r]) {
				held, spare = tooLarge, s.Allocated[other][r]-s.guaranteed(other, r)
			}
		}
		if held != nil && back < lacks {
			amount := func(v int64) string { return fairshare.Format(s.Names[r], v) + " " + s.Names[r] }
			return fmt.Sprintf("%s of the quota cannot be given back: PodGroup %s of Queue %q goes as a whole and has %s, more than the %s by which its quota is exceeded",
				amount(lacks-back), held.group, held.queue, amount(held.amount[r]), amount(spare))
		}
	}
	return ""
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
func (s *Standing) gives(q int32, r int, wholeGroups WholeGroups) (most int64, tooLarge *wholeGroup) {
	spare := s.Allocated[q][r] - s.guaranteed(q, r)
	if spare <= 0 {
		return 0, nil
	}
	most = s.Allocated[q][r]
	kinds := s.kinds()
	for i := range wholeGroups {
		l := &wholeGroups[i]
		if l.amount[r] <= spare || !slices.Contains(s.Tree.Path(l.leaf), q) {
			continue
		}
		if h := fairshare.Holding(kinds, s.Tree.Queue(q).Quota, l.amount); !h.By(r) {
			continue
		}
		most -= l.amount[r]
		if tooLarge == nil || l.amount[r] > tooLarge.amount[r] {
			tooLarge = l
		}
	}
	return min(most, spare), tooLarge
}
