package queue

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// nodeEntry has the facts about a node that the ledger computes capacities from.
type nodeEntry struct {
	allocatable Amounts
	// node is the object that node selectors and tolerations of pods are matched with. It is nil
	// after the node was deleted.
	node *corev1.Node
	// closed is true if the node accepts no new pods, for example because it is cordoned. Only the
	// usage of its running pods then counts as capacity.
	closed bool
	// shunned is true if no waiting work of a queue tolerates the node's taints. Only the usage of
	// its running pods then counts as capacity.
	shunned bool
	// used is the usage on the node. staying is the part of used that belongs to pods that do not
	// terminate.
	used, staying Amounts
	// shares maps each queue to its part of staying.
	shares map[string]Amounts
	// kind is the set of nodes with the same resources and taints. [Ledger.weighAll] sets it.
	kind *nodeKind
	// pool is the node's pool in the layout; nil for none.
	pool *nodePool
	// counted is the amount that the node adds to Ledger.capacity. beyond is the part of counted
	// that no queue can use, because the node is shunned. The node adds it to Ledger.beyond.
	counted, beyond Amounts
}

// SetNode adds or updates a node. The caller must not change the object afterwards.
func (b *Ledger) SetNode(node *corev1.Node) {
	b.setNode(node.Name, nodeEntry{allocatable: roomOf(node), node: node})
}

// SetClosedNode adds or updates a node that accepts no more pods. Only the usage of its running
// pods counts as capacity, because no queue can use its free resources.
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

// list adds a node's resources, multiplied by sign (1 or -1), to nodesWith. It includes closed
// nodes. So cordoning a node does not change the amounts that a quota carries.
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

// carried returns, for each resource of a quota, the amounts of other resources that the quota
// carries with it. The glossary explains carried quota.
func (b *Ledger) carried(names []string) fairshare.Bundles {
	return fairshare.NewBundles(names, func(name string) fairshare.Amounts { return b.nodesWith[corev1.ResourceName(name)].vector(names, 0) })
}

// occupy adds the request of a pod to the usage of its node, or subtracts it if sign is -1.
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

// vacate sets the usage of all nodes to zero.
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

// prune deletes the entry of a deleted node if no pod runs there any more.
func (b *Ledger) prune(name string) {
	if g := b.nodes[name]; g.allocatable == nil && len(g.used) == 0 {
		delete(b.nodes, name)
	}
}

// recount computes again how much capacity comes from a node.
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

// runs returns the usage on a node by pods that do not terminate, limited to the node's resources.
func (g *nodeEntry) runs() Amounts {
	out := make(Amounts, len(g.staying))
	for name, v := range g.staying {
		if most := min(v, g.allocatable[name]); most > 0 {
			out[name] = most
		}
	}
	return out
}

// fill records whether the pods that stay on a node use more than the capacity that comes from the
// node. That happens if the node was deleted, lost devices, or runs pods that no scheduler placed
// there.
func (b *Ledger) fill(name string, g *nodeEntry) {
	for r, v := range g.staying {
		if v > g.counted[r] {
			b.overfull[name] = g
			return
		}
	}
	delete(b.overfull, name)
}

// addBeyond corrects a capacity after the caller has subtracted all usage outside of the queues. A
// part of this usage may exceed the capacity of its node. That part was never in the capacity, so
// addBeyond adds it back.
func (b *Ledger) addBeyond(capacity Amounts, outside sets.Set[string]) {
	for _, g := range b.overfull {
		capacity.add(g.overfill(outside.Has), 1)
	}
}

// overfill returns the part of some queues' usage on a node that exceeds the capacity that comes
// from the node.
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
