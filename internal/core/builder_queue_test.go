package core

import (
	"fmt"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// queueOption sets a field of a queue.
type queueOption func(*fairshare.Queue)

func under(parent string) queueOption  { return func(q *fairshare.Queue) { q.Parent = parent } }
func quota(v ...int64) queueOption     { return func(q *fairshare.Queue) { q.Quota = v } }
func limit(v ...int64) queueOption     { return func(q *fairshare.Queue) { q.Limit = v } }
func preemptAfter(d int64) queueOption { return func(q *fairshare.Queue) { q.PreemptMinRuntime = d } }
func reclaimAfter(d int64) queueOption { return func(q *fairshare.Queue) { q.ReclaimMinRuntime = d } }
func silentCap(d int64) queueOption    { return func(q *fairshare.Queue) { q.SilentWorkCap = &d } }
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

// bundlesOf returns the fairshare.Bundles for the nodes of a snapshot.
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

// randomTree returns a tree with up to 9 queues on up to 3 levels.
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
				// Let the quota name only the first resource, so that the other resources may be
				// carried.
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

// randomMinRuntime returns random min-runtimes of a profile, each up to most nanoseconds. It may
// return nil, for an unknown profile.
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

// queues adds queues to the cluster. Their demand is the usage plus the preemptor's request.
func (b *build) queues(queues ...fairshare.Queue) *build {
	tree, faults := fairshare.NewTree(len(b.s.Resources), queues)
	if len(faults) > 0 {
		panic(faults)
	}
	b.s.Queues = &Queues{Tree: tree}
	return b
}

// shared returns the snapshot with fair shares. The preemptor's request counts as demand of its
// queue.
func (b *build) shared(p *Preemptor) *Snapshot {
	s := &b.s
	tree, dims := s.Queues.Tree, len(s.Resources)
	demand := make([]Amounts, tree.Len())
	for i := range demand {
		demand[i] = make(Amounts, dims)
	}
	capacity := make(Amounts, dims)
	for i := range s.Nodes {
		addTo(capacity, s.Nodes[i].Allocatable)
	}
	add := func(leaf int32, a Amounts) {
		if leaf >= 0 {
			addTo(demand[leaf], a)
		}
	}
	for u := range s.Units {
		for i := range s.Units[u].Pods {
			if tree.LeafOf(s.Units[u].queue()) < 0 {
				for r, v := range s.Units[u].Pods[i].Request {
					capacity[r] -= v
				}
			}
			add(tree.LeafOf(s.Units[u].queue()), s.Units[u].Pods[i].Request)
		}
	}
	for _, c := range p.Classes {
		for range c.Members {
			add(tree.LeafOf(p.Queue), c.Request)
		}
	}
	s.Queues.Shares = tree.FairShares(capacity, bundlesOf(s), demand)
	return s
}

func with(p *Preemptor, opts ...func(*Preemptor)) *Preemptor {
	for _, o := range opts {
		o(p)
	}
	return p
}

func at(now int64) func(*Preemptor) { return func(p *Preemptor) { p.Now = now } }

// elasticGang adds a gang whose members are preempted one by one, with one running member on each
// given node.
func (b *build) elasticGang(name, leaf string, minCount int32, priority int32, request int64, nodes []string, opts ...unitOption) *build {
	membership := &QueueMembership{Queue: leaf, MinCount: minCount}
	for i, n := range nodes {
		member := append([]unitOption{inPodGroup("uid-" + name), func(u *Unit) {
			u.Membership, u.Running, u.Surplus = membership, true, i >= int(minCount)
		}}, opts...)
		b.pod(name+"-"+string(rune('0'+i)), n, priority, request, member...)
	}
	return b
}

// ray adds a gang with three roles: a head, a worker with a GPU, and two workers without GPUs. One
// of the latter is surplus.
func (b *build) ray(opts ...unitOption) *build {
	membership := &QueueMembership{Queue: "b", MinCount: 3}
	member := func(role string, surplus bool) []unitOption {
		return append([]unitOption{inPodGroup("uid-ray"), func(u *Unit) {
			u.Membership, u.Running, u.Surplus, u.Role = membership, true, surplus, &Role{Name: role, Needs: 1}
		}}, opts...)
	}
	return b.pod("head", "h", 0, 4, member("head", false)...).pod("gpu-0", "g", 0, 4, member("gpu", false)...).
		pod("cpu-0", "c", 0, 1, member("cpu", false)...).pod("cpu-1", "c", 0, 1, member("cpu", true)...)
}

// minute is a minute in nanoseconds.
const minute = int64(60e9)
