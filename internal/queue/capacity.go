package queue

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// nodeEntry is one node, as far as it counts for what there is to share.
type nodeEntry struct {
	allocatable Amounts
	// node is what pods' terms are about; nil for one that is gone.
	node *corev1.Node
	// closed is true where nothing new can go: only what runs there counts then.
	closed bool
	// shunned is true where the taints keep off all work that waits in queues: the same counts of it.
	shunned bool
	// used is what runs there, staying what of that is not on its way out, and shares whose that is, by queue.
	used, staying Amounts
	shares        map[string]Amounts
	// kind are the nodes that are like it, as of the last time that pending pods were weighed.
	kind *nodeKind
	// pool is the node's in the layout; nil for none.
	pool *nodePool
	// counted is what it adds to the capacity, and beyond what of that is behind taints.
	counted, beyond Amounts
}

// SetNode takes in a node. It may not be changed from now on.
func (b *Board) SetNode(node *corev1.Node) {
	b.setNode(node.Name, nodeEntry{allocatable: AmountsOf(node.Status.Allocatable), node: node})
}

// SetClosedNode takes in a node that takes no more pods. It counts with what runs there: the rest is of use to no queue,
// and what runs is still had by one.
func (b *Board) SetClosedNode(node *corev1.Node) {
	b.setNode(node.Name, nodeEntry{allocatable: AmountsOf(node.Status.Allocatable), node: node, closed: true})
}

// DeleteNode drops a node.
func (b *Board) DeleteNode(name string) { b.setNode(name, nodeEntry{}) }

func (b *Board) setNode(name string, now nodeEntry) {
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

// list adds what a node has to what the nodes have that list the same, or takes it away. Whether the node is open is no matter: what a
// quota carries is to stay the same while nodes are cordoned.
func (b *Board) list(allocatable Amounts, sign int64) {
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

// carried is what quotas carry beside what they name.
func (b *Board) carried(names []string) fairshare.Bundles {
	return fairshare.NewBundles(names, func(name string) fairshare.Amounts { return b.nodesWith[corev1.ResourceName(name)].vector(names, 0) })
}

// occupy adds a charge to what runs on its node, or takes it away.
func (b *Board) occupy(c charge, sign int64) {
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

// vacate has nothing run anywhere.
func (b *Board) vacate() {
	for name, g := range b.nodes {
		clear(g.used)
		clear(g.staying)
		clear(g.shares)
		b.recount(g)
		b.fill(name, g)
		b.prune(name)
	}
}

func (b *Board) nodeEntry(name string) *nodeEntry {
	g := b.nodes[name]
	if g == nil {
		g = &nodeEntry{used: make(Amounts), staying: make(Amounts), shares: make(map[string]Amounts)}
		b.nodes[name] = g
	}
	return g
}

// prune drops a node that is gone, once nothing runs there.
func (b *Board) prune(name string) {
	if g := b.nodes[name]; g.allocatable == nil && len(g.used) == 0 {
		delete(b.nodes, name)
	}
}

// recount has a node add to the capacity what it has now.
func (b *Board) recount(g *nodeEntry) {
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

// runs is what stays on a node, up to what the node has.
func (g *nodeEntry) runs() Amounts {
	out := make(Amounts, len(g.staying))
	for name, v := range g.staying {
		if most := min(v, g.allocatable[name]); most > 0 {
			out[name] = most
		}
	}
	return out
}

// fill takes note of whether more stays on a node than the node adds to the capacity: on one that is gone, or whose devices are, or that
// pods name which no scheduler has put there.
func (b *Board) fill(name string, g *nodeEntry) {
	for r, v := range g.staying {
		if v > g.counted[r] {
			b.overfull[name] = g
			return
		}
	}
	delete(b.overfull, name)
}

// addBeyond gives back to a capacity what work outside the queues has of nodes beyond what these add to it.
func (b *Board) addBeyond(capacity Amounts, outside sets.Set[string]) {
	for _, g := range b.overfull {
		capacity.add(g.overfill(outside.Has), 1)
	}
}

// overfill is what work of some queues has of a node beyond what the node adds to the capacity.
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
