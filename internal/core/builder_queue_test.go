package core

import (
	"fmt"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// queueOption changes a new queue.
type queueOption func(*fairshare.Queue)

func under(parent string) queueOption  { return func(q *fairshare.Queue) { q.Parent = parent } }
func quota(v ...int64) queueOption     { return func(q *fairshare.Queue) { q.Quota = v } }
func limit(v ...int64) queueOption     { return func(q *fairshare.Queue) { q.Limit = v } }
func preemptAfter(d int64) queueOption { return func(q *fairshare.Queue) { q.PreemptMinRuntime = d } }
func reclaimAfter(d int64) queueOption { return func(q *fairshare.Queue) { q.ReclaimMinRuntime = d } }
func inQueue(leaf string) unitOption {
	return func(u *Unit) { u.Membership = &QueueMembership{Queue: leaf} }
}
func ofProfile(m MinRuntime) unitOption    { return func(u *Unit) { u.MinRuntime = &m } }
func since(t int64) unitOption             { return func(u *Unit) { u.Since = t } }
func ofQueue(leaf string) func(*Preemptor) { return func(p *Preemptor) { p.Queue = leaf } }
func queue(name string, opts ...queueOption) fairshare.Queue {
	q := fairshare.Queue{Name: name, Weight: 1, PreemptMinRuntime: fairshare.Unset, ReclaimMinRuntime: fairshare.Unset}
	for _, o := range opts {
		o(&q)
	}
	return q
}

// bundlesOf returns the bundles for the nodes of a snapshot.
func bundlesOf(s *Snapshot) fairshare.Bundles {
	return fairshare.NewBundles(s.Resources, func(name string) fairshare.Amounts {
		out, of := make(Amounts, len(s.Resources)), slices.Index(s.Resources, name)
		for i := range s.Nodes {
			if a := s.Nodes[i].Allocatable; of < len(a) && a[of] > 0 {
				addTo(out, a)
			}
		}
		return out
	})
}

// randomTree makes up to 9 queues in up to 3 levels.
func randomTree(pick chooser, dims int) *fairshare.Tree {
	amounts := func(most int) Amounts {
		a := make(Amounts, dims)
		for r := range a {
			a[r] = int64(pick(most))
		}
		return a
	}
	var queues []fairshare.Queue
	for i := range 2 + pick(8) {
		q := queue(fmt.Sprintf("q%d", i))
		q.Weight, q.Priority = int64(pick(4)), int32(pick(2))
		if i >= 2 && pick(3) > 0 {
			q.Parent = queues[pick(i)].Name
		}
		if pick(2) == 0 {
			if q.Quota = amounts(8); pick(3) == 0 {
				// The quota names one resource and carries the others.
				q.Quota = q.Quota[:1]
			}
		}
		if pick(4) == 0 {
			q.Limit = amounts(24)
		}
		queues = append(queues, q)
	}
	tree, _ := fairshare.NewTree(dims, queues)
	return tree
}

// randomMinRuntime returns the min-runtimes of a profile, up to a length, or nil for no profile.
func randomMinRuntime(pick chooser, most int) *MinRuntime {
	if pick(2) == 0 {
		return nil
	}
	m := &MinRuntime{Preempt: int64(pick(most)), Reclaim: int64(pick(most))}
	if pick(2) == 0 {
		m.Resolve = ResolveQueue
	}
	return m
}
