package queue

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// nodeEntry has the facts about a node that matter for capacity.
type nodeEntry struct {
	allocatable Amounts
	// node is the object that terms of pods are matched with; nil after the node was deleted.
	node *corev1.Node
	// closed is true if the node accepts no new pods. Its capacity is then the usage of its running
	// pods.
	closed bool
	// shunned is true if no waiting work of a queue tolerates the node's taints. Its capacity is
	// then the usage of its running pods, too.
	shunned bool
	// used is the usage on the node. staying is the usage by pods that are not terminating, and
	// shares divides staying by queue.
	used, staying Amounts
	shares        map[string]Amounts
	// kind is the set of nodes with the same resources and taints. The last call of weighAll set
	// it.
	kind *nodeKind
	// pool is the node's pool in the layout; nil for none.
	pool *nodePool
	// counted is the amount that the node adds to Ledger.capacity. beyond is the amount that it
	// adds to Ledger.beyond.
	counted, beyond Amounts
}

// SetNode adds or updates a node. The caller must not change the object afterwards.
func (b *Ledger) SetNode(node *corev1.Node) {
	b.setNode(node.Name, nodeEntry{allocatable: roomOf(node), node: node})
}

// SetClosedNode adds or updates a node that accepts no more pods. The capacity of such a node is
// the usage of its running pods, because no queue can use the rest.
func (b *Ledger) SetClosedNode(node *corev1.Node) {
	b.setNode(node.Name, nodeEntry{allocatable: roomOf(node), node: node, closed: true})
}

// DeleteNode removes a node.
func (b *Ledger) DeleteNode(name string) { b.setNode(name, nodeEntry{}) }

func (b *Ledger) setNode(name string, now nodeEntry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.nodeEntry(name)
	if g.closed != now.closed || (g.allocatable == nil) != (now.allocatable == nil) || !sameAmounts(g.allocatable, now.allocatable) {
		b.list(g.allocatable, -1)
		b.list(now.allocatable, 1)
		g.allocatable, g.closed = now.allocatable, now.closed
		b.unweigh()
		b.recount(g)
		b.fill(name, g)
	}
	if g.node == nil || now.node == nil || !maps.Equal(g.node.Labels, now.node.Labels) || taintsKey(g.node.Spec.Taints) != taintsKey(now.node.Spec.Taints) {
		b.unweigh()
		b.counted++
	}
	g.node = now.node
	b.prune(name)
}

// list adds a node's resources, multiplied by sign, to nodesWith. Closed nodes count too, so that
// cordoning a node does not change the amounts that a quota carries.
func (b *Ledger) list(allocatable Amounts, sign int64) {
	for name, v := range allocatable {
		if v <= 0 {
			continue
		}
		if b.nodesWith[name] == nil {
			b.nodesWith[name] = make(Amounts)
		}
		if b.nodesWith[name].add(allocatable, sign); len(b.nodesWith[name]) == 0 {
			delete(b.nodesWith, name)
		}
	}
}

// carried returns the amounts of other resources that accompany each resource of a quota.
func (b *Ledger) carried(names []string) fairshare.Bundles {
	return fairshare.NewBundles(names, func(name string) fairshare.Amounts { return b.nodesWith[corev1.ResourceName(name)].vector(names, 0) })
}

// occupy adds the request of a pod to the usage on its node, or removes it if sign is -1.
func (b *Ledger) occupy(c charge, sign int64) {
	g := b.nodeEntry(c.node)
	g.used.add(c.request, sign)
	if !c.going {
		g.staying.add(c.request, sign)
		if g.pool != nil {
			g.pool.stay(c.queue, c.request, sign)
		}
		own := g.shares[c.queue]
		if own == nil {
			own = make(Amounts)
			g.shares[c.queue] = own
		}
		if own.add(c.request, sign); len(own) == 0 {
			delete(g.shares, c.queue)
		}
		if g.closed || g.shunned {
			b.recount(g)
		}
		b.fill(c.node, g)
	}
	b.prune(c.node)
}

// vacate removes all usage from all nodes.
func (b *Ledger) vacate() {
	for name, g := range b.nodes {
		clear(g.used)
		clear(g.staying)
		clear(g.shares)
		b.recount(g)
		b.fill(name, g)
		b.prune(name)
	}
}

func (b *Ledger) nodeEntry(name string) *nodeEntry {
	g := b.nodes[name]
	if g == nil {
		g = &nodeEntry{used: make(Amounts), staying: make(Amounts), shares: make(map[string]Amounts)}
		b.nodes[name] = g
	}
	return g
}

// prune removes the entry of a deleted node once nothing runs there.
func (b *Ledger) prune(name string) {
	if g := b.nodes[name]; g.allocatable == nil && len(g.used) == 0 {
		delete(b.nodes, name)
	}
}

// recount updates the amounts that a node adds to the capacity.
func (b *Ledger) recount(g *nodeEntry) {
	b.counted++
	if g.pool != nil {
		g.pool.count(g, -1)
		defer func() { g.pool.count(g, 1) }()
	}
	b.capacity.add(g.counted, -1)
	b.beyond.add(g.beyond, -1)
	g.counted, g.beyond = g.allocatable, nil
	switch {
	case g.closed:
		g.counted = g.runs()
	case g.shunned:
		g.beyond = g.allocatable.clone()
		g.beyond.add(g.runs(), -1)
	}
	b.capacity.add(g.counted, 1)
	b.beyond.add(g.beyond, 1)
}

// runs returns the usage of staying pods on a node, at most the node's resources.
func (g *nodeEntry) runs() Amounts {
	out := make(Amounts, len(g.staying))
	for name, v := range g.staying {
		if most := min(v, g.allocatable[name]); most > 0 {
			out[name] = most
		}
	}
	return out
}

// fill records whether the staying pods on a node use more than the node adds to the capacity. That
// happens if the node was deleted, lost devices, or runs pods that no scheduler placed there.
func (b *Ledger) fill(name string, g *nodeEntry) {
	for r, v := range g.staying {
		if v > g.counted[r] {
			b.overfull[name] = g
			return
		}
	}
	delete(b.overfull, name)
}

// addBeyond corrects a capacity after the usage outside of the queues was subtracted from it. Some
// of that usage exceeds the capacity of its node, so addBeyond adds this excess back.
func (b *Ledger) addBeyond(capacity Amounts, outside sets.Set[string]) {
	for _, g := range b.overfull {
		capacity.add(g.overfill(outside.Has), 1)
	}
}

// overfill returns the part of the usage of some queues on a node that exceeds the node's
// contribution to the capacity.
func (g *nodeEntry) overfill(of func(queue string) bool) Amounts {
	has, out := make(Amounts), make(Amounts)
	for queue, amounts := range g.shares {
		if of(queue) {
			has.add(amounts, 1)
		}
	}
	for r, v := range has {
		if beyond := v - g.counted[r]; beyond > 0 {
			out[r] = beyond
		}
	}
	return out
}
