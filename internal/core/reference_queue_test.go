package core

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// refForbids returns the reason why a set of units must not be evicted for a preemptor; "" if the
// eviction is allowed. It judges the usage of all queues after the eviction, including the
// preemptor. It ignores min-runtimes and tolerations.
func refForbids(s *Snapshot, p *Preemptor, set []int) string {
	tree, dims := s.Queues.Tree, len(s.Resources)
	before, gone := make([]Amounts, tree.Len()), make([]Amounts, tree.Len())
	for q := range before {
		before[q], gone[q] = make(Amounts, dims), make(Amounts, dims)
	}
	outside, want := make(Amounts, dims), make(Amounts, dims)
	book := func(books []Amounts, u int) {
		leaf := tree.LeafOf(s.Units[u].queue())
		for i := range s.Units[u].Pods {
			if leaf < 0 {
				addTo(outside, s.Units[u].Pods[i].Request)
				continue
			}
			for _, q := range tree.Path(leaf) {
				addTo(books[q], s.Units[u].Pods[i].Request)
			}
		}
	}
	for u := range s.Units {
		book(before, u)
	}
	clear(outside)
	for _, u := range set {
		book(gone, u)
	}
	for class, n := range refCounts(p) {
		for range n {
			addTo(want, p.Classes[class].Request)
		}
	}
	r := &refQueues{s: s, before: before, gone: gone, outside: outside, want: want}
	if p.Priority < systemCritical {
		r.mine = tree.Path(tree.LeafOf(p.Queue))
	}
	for _, u := range set {
		if why := r.forbids(p, set, u); why != "" {
			return fmt.Sprintf("%s: %s", s.Units[u].Name, why)
		}
	}
	for q := tree.LeafOf(p.Queue); q >= 0; q = tree.Parent(q) {
		for i, w := range want {
			if w > 0 && r.after(q, i) > tree.Queue(q).Limit[i] {
				return fmt.Sprintf("it takes %s beyond its limit", tree.Queue(q).Name)
			}
		}
	}
	for _, q := range r.mine {
		for i, w := range want {
			if w > 0 && r.after(q, i)-outside[i] > max(before[q][i], s.Queues.Shares[q][i]) {
				return fmt.Sprintf("it takes %s beyond its share", tree.Queue(q).Name)
			}
		}
	}
	return ""
}

// guaranteed returns the amounts that a queue can always reclaim: its quota, limited to its share.
func guaranteed(qs *Queues, q int32) Amounts {
	out := slices.Clone(qs.Tree.Queue(q).Quota)
	for i := range out {
		out[i] = min(out[i], qs.Shares[q][i])
	}
	return out
}

// refQueues has the usage of queues before the eviction of a set of units (before), and the usage
// of the set (gone).
type refQueues struct {
	s             *Snapshot
	mine          []int32
	before, gone  []Amounts
	outside, want Amounts
}

// after returns the usage of resource i after the eviction, for a queue of the preemptor.
func (r *refQueues) after(q int32, i int) int64 { return r.before[q][i] + r.want[i] - r.gone[q][i] }

func (r *refQueues) forbids(p *Preemptor, set []int, u int) string {
	tree, unit := r.s.Queues.Tree, &r.s.Units[u]
	leaf := tree.LeafOf(unit.queue())
	if len(r.mine) == 0 || leaf < 0 || leaf == r.mine[0] {
		if unit.Priority >= p.Priority {
			return "its priority is not lower"
		}
		return ""
	}
	theirs := tree.Path(leaf)
	steps := slices.IndexFunc(r.mine, func(q int32) bool { return slices.Contains(theirs, q) })
	if steps < 0 {
		steps = len(r.mine)
	}
	theirs = theirs[:slices.IndexFunc(append(slices.Clone(theirs), -1), func(q int32) bool { return q < 0 || slices.Contains(r.mine, q) })]
	top := theirs[len(theirs)-1]
	for _, q := range theirs {
		for _, i := range r.holding(q, func(i int) int64 { return useOf(unit, i) }) {
			if r.before[q][i]-r.gone[q][i] < guaranteed(r.s.Queues, q)[i] {
				return fmt.Sprintf("%s is left with less than its quota", tree.Queue(q).Name)
			}
		}
	}
	share := func(q int32) Amounts { return r.s.Queues.Shares[q] }
	quota := func(q int32) Amounts {
		// For resources without quota, the fair share of the preemptor's queue applies.
		to := guaranteed(r.s.Queues, q)
		for i, v := range tree.Queue(r.mine[0]).Quota {
			if v == 0 {
				to[i] = share(q)[i]
			}
		}
		return to
	}
	lent := r.lends(set, top, share(top))
	// The last unit may exceed the lent amount, if the preemptor was entitled before any eviction.
	if r.isEntitled(steps, share, r.before) && lent || r.isEntitled(steps, share, r.left()) && lent && r.keeps(top, share(top)) {
		return ""
	}
	lacks := guaranteed(r.s.Queues, top)
	for i, v := range tree.Queue(r.mine[0]).Quota {
		if v == 0 {
			lacks[i] = maxAmount
		}
	}
	if r.isEntitled(steps, quota, r.left()) && r.lends(set, top, lacks) && r.returns() {
		return ""
	}
	return fmt.Sprintf("%s is not to take from %s", p.Queue, tree.Queue(top).Name)
}

// returns reports whether the preemptor's queue ends with at least its former usage of each
// resource that the method holding returns for it.
func (r *refQueues) returns() bool {
	mine := r.mine[0]
	return !slices.ContainsFunc(r.holding(mine, func(i int) int64 { return r.want[i] }), func(i int) bool { return r.after(mine, i) < r.before[mine][i] })
}

// holding returns the resources that make the quota of a queue hold (protect) work with the given
// usage. Only resources that the quota names and the work uses count, and of these only the first
// kind in the order Device, Basic, Bound. Within this kind, holding returns the resources with the
// largest ratio of usage to quota.
func (r *refQueues) holding(q int32, useOf func(i int) int64) []int {
	for _, kind := range []fairshare.Kind{fairshare.Device, fairshare.Basic, fairshare.Bound} {
		var best []int
		quota := r.s.Queues.Tree.Queue(q).Quota
		for i, name := range r.s.Resources {
			use, order := useOf(i), 1
			listed := slices.ContainsFunc(r.s.Nodes, func(n Node) bool { return n.Allocatable[i] > 0 })
			if use == 0 || quota[i] == 0 || fairshare.KindOf(name) != kind || !listed {
				continue
			}
			if len(best) > 0 {
				// Amounts in tests are small, so the products do not overflow.
				order = cmp.Compare(use*quota[best[0]], useOf(best[0])*quota[i])
			}
			switch order {
			case 1:
				best = []int{i}
			case 0:
				best = append(best, i)
			}
		}
		if len(best) > 0 {
			return best
		}
	}
	return nil
}

// left returns the usage of all queues without the set.
func (r *refQueues) left() []Amounts {
	left := make([]Amounts, len(r.before))
	for q := range left {
		left[q] = slices.Clone(r.before[q])
		for i, v := range r.gone[q] {
			left[q][i] -= v
		}
	}
	return left
}

// isEntitled reports whether the lowest queues on the preemptor's path stay within their
// entitlement (to) with the preemptor. steps is the number of queues.
func (r *refQueues) isEntitled(steps int, to func(q int32) Amounts, have []Amounts) bool {
	for _, q := range r.mine[:steps] {
		for i, w := range r.want {
			if w > 0 && have[q][i]+w > to(q)[i] {
				return false
			}
		}
	}
	return true
}

// keeps reports whether a queue is left with its fair share. It looks at each resource whose usage
// exceeded the fair share before the evictions.
func (r *refQueues) keeps(q int32, share Amounts) bool {
	for i, w := range r.want {
		if w > 0 && r.before[q][i] > share[i] && r.before[q][i]-r.gone[q][i] < share[i] {
			return false
		}
	}
	return true
}

// lends reports whether some unit of the set may be evicted last. After the eviction of all other
// units, the queue top must still use more of a resource than keeps. The preemptor's queue must
// gain the same resource.
func (r *refQueues) lends(set []int, top int32, keeps Amounts) bool {
	tree := r.s.Queues.Tree
	for _, u := range set {
		leaf := tree.LeafOf(r.s.Units[u].queue())
		if leaf < 0 || !slices.Contains(tree.Path(leaf), top) {
			continue
		}
		for i, w := range r.want {
			gains := r.after(r.mine[0], i) > r.before[r.mine[0]][i]
			gains = gains && r.before[top][i]-r.gone[top][i] >= guaranteed(r.s.Queues, top)[i]
			if w > 0 && gains && r.before[top][i]-r.gone[top][i]+useOf(&r.s.Units[u], i) > keeps[i] {
				return true
			}
		}
	}
	return false
}

// refMakesRoom reports whether a preemptor has enough room without the units of a set: on one node
// for a pod, on all nodes together for a gang.
func refMakesRoom(s *Snapshot, p *Preemptor, set []int) bool {
	gone := make(map[int]bool)
	for _, u := range set {
		gone[u] = true
	}
	return slices.ContainsFunc(testDomains(s, p), func(nodes []int) bool { return refFeasible(s, p, gone, nodes, refCounts(p)) })
}
