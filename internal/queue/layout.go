package queue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// layout divides the nodes into pools. Nodes are in the same pool if the same classes of pods can
// run on all of them. Fair shares are computed for each pool; see [fairshare.Tree.Markets]. Without
// a layout, all nodes are one pool.
type layout struct {
	// kinds maps each kind of pods ([KindOf]) to the index of its class. It only grows. If there
	// are too many classes, the kinds of running pods map to noClass.
	kinds *sync.Map
	// known is the number of entries in kinds.
	known int
	// signatures maps combinations of terms and sizes to the index of a class: the pods that have
	// these terms and fit on these sizes.
	signatures map[string]int
	classes    []*podClass
	// sizes are the distinct allocatable resources of the nodes. The class of a pod depends on the
	// sizes that it fits on.
	sizes []Amounts
	pools []*nodePool
	// poolOf maps node names to pools. It does not change.
	poolOf map[string]int
	// reaches has, for each class, the set of pools that the class can use, as bits. It does not
	// change.
	reaches []uint64
}

// podClass is a set of pods that can run on the same nodes.
type podClass struct {
	terms *terms
	fits  []bool
	// running and waiting are the sums of the requests of the class, by queue.
	running, waiting map[string]Amounts
}

// nodePool is a set of nodes that the same classes can use.
type nodePool struct {
	// capacity is the sum of counted minus beyond over the nodes of the pool; see [nodeEntry].
	capacity Amounts
	// staying is the usage by pods that do not terminate, by queue.
	staying map[string]Amounts
}

// mostClasses and mostLaidKinds are the maximum numbers of classes and of kinds in a layout. If
// waiting pods need more classes, or all pods have more kinds, all nodes count as one pool.
const mostClasses, mostLaidKinds = 64, 4096

// mostLaid is the maximum product of classes and nodes in a layout. If the product is larger, all
// nodes count as one pool.
const mostLaid = 1 << 19

// KindOf returns the kind of a pod. Pods with equal requirements on a node have the same kind.
func KindOf(pod *corev1.Pod) string { return kindOf(RequestOf(pod)) + termsOf(pod).key }

// relay records that the layout is outdated.
func (b *Ledger) relay() { b.layout, b.laid = nil, false }

// lay computes the layout again if it is outdated.
func (b *Ledger) lay() {
	if b.laid {
		return
	}
	b.laid = true
	b.layout, b.crowded = b.newLayout()
	b.laidKinds = len(b.pending)
	for _, g := range b.nodes {
		g.pool = nil
	}
	l := b.layout
	if l == nil {
		return
	}
	for name, g := range b.nodes {
		if i, ok := l.poolOf[name]; ok {
			g.pool = l.pools[i]
			g.pool.count(g, 1)
			for queue, amounts := range g.shares {
				g.pool.stay(queue, amounts, 1)
			}
		}
	}
	for uid := range b.pods {
		if c := b.pods[uid]; c.placed && !c.going {
			l.runs(&c, 1)
		}
	}
	for _, d := range b.pending {
		l.waits(d, d.counted)
	}
}

// layFewer requests another layout after pending pods of a kind are gone, if the last layout failed
// because of too many classes. To limit the number of attempts, it waits until a quarter of the
// kinds is gone.
func (b *Ledger) layFewer() {
	if b.laid && b.layout == nil && b.crowded && len(b.pending) <= b.laidKinds*3/4 {
		b.relay()
	}
}

// layRunning updates the layout after a change of a running pod. If the class of the pod is
// unknown, the layout becomes outdated.
func (b *Ledger) layRunning(c *charge, sign int64) {
	if b.knowsClass(c.queue, c.kind, c.request, c.terms, false) {
		b.layout.runs(c, sign)
	}
}

func (b *Ledger) layWaiting(d *pendingPods, more int64) {
	if more != 0 && b.knowsClass(d.queue, d.kind, d.request, d.terms, true) {
		b.layout.waits(d, more)
	}
}

// knowsClass reports whether the layout has the class of the given pods. If it does not, the layout
// becomes outdated.
func (b *Ledger) knowsClass(queue, kind string, request Amounts, t *terms, waits bool) bool {
	if b.layout == nil || queue == "" {
		return false
	}
	before := len(b.layout.classes)
	if b.classify(b.layout, kind, request, t, waits) && len(b.layout.classes) == before {
		return true
	}
	b.relay()
	return false
}

// newLayout returns a new layout, or nil if there are too many classes, nodes or pools. crowded is
// true if a layout may become possible when some pending pods are gone.
func (b *Ledger) newLayout() (out *layout, crowded bool) {
	l := &layout{kinds: new(sync.Map), signatures: make(map[string]int), poolOf: make(map[string]int)}
	sizes := make(map[string]Amounts)
	for _, g := range b.nodes {
		if g.node != nil {
			sizes[kindOf(g.allocatable)] = g.allocatable
		}
	}
	for _, key := range slices.Sorted(maps.Keys(sizes)) {
		l.sizes = append(l.sizes, sizes[key])
	}
	running := make(map[string]charge)
	for _, c := range b.pods {
		if c.placed && c.queue != "" {
			running[c.kind] = c
		}
	}
	for _, d := range b.pending {
		if d.queue != "" && d.counted > 0 && !b.classify(l, d.kind, d.request, d.terms, true) {
			return nil, true
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(running)) {
		if c := running[kind]; !b.classify(l, kind, c.request, c.terms, false) {
			return nil, false
		}
	}
	if len(l.classes)*len(b.nodes) > mostLaid || !b.divide(l) {
		return nil, l.hasPendingOnly(running)
	}
	return l, false
}

// hasPendingOnly reports whether any class has only pending pods. running has a running pod of each
// kind.
func (l *layout) hasPendingOnly(running map[string]charge) bool {
	classes := make(map[int]bool)
	for kind := range running {
		if class := l.classOf(kind); class != noClass {
			classes[class] = true
		}
	}
	return len(classes) < len(l.classes)
}

// classify finds or adds the class of a kind of pods. It returns false if there are too many kinds,
// or if waiting pods need too many classes.
func (b *Ledger) classify(l *layout, kind string, request Amounts, t *terms, waits bool) bool {
	if class, known := l.kinds.Load(kind); known {
		return !waits || class != noClass
	}
	if l.known == mostLaidKinds {
		return false
	}
	fits, signature := make([]bool, len(l.sizes)), strings.Builder{}
	signature.WriteString(t.reach)
	for i, size := range l.sizes {
		fits[i] = b.holds(size, request) > 0
		fmt.Fprintf(&signature, " %t", fits[i])
	}
	class, known := l.signatures[signature.String()]
	if !known {
		class = len(l.classes)
		if class == mostClasses && waits {
			return false
		}
		if class == mostClasses {
			l.kinds.Store(kind, noClass)
			l.known++
			return true
		}
		l.signatures[signature.String()] = class
		l.classes = append(l.classes, &podClass{terms: t, fits: fits, running: make(map[string]Amounts), waiting: make(map[string]Amounts)})
	}
	l.kinds.Store(kind, class)
	l.known++
	return true
}

// divide groups the nodes into pools. Nodes that the same classes can use are in one pool. It
// returns false if there are too many pools.
func (b *Ledger) divide(l *layout) bool {
	sizes := make(map[string]int, len(l.sizes))
	for i, size := range l.sizes {
		sizes[kindOf(size)] = i
	}
	by := make(map[uint64][]string)
	for name, g := range b.nodes {
		if g.node != nil {
			reached := l.reachedBy(g, sizes[kindOf(g.allocatable)])
			by[reached] = append(by[reached], name)
		}
	}
	if len(by) > fairshare.MostPools {
		return false
	}
	l.reaches = make([]uint64, len(l.classes))
	first := make(map[uint64]string, len(by))
	for reached, names := range by {
		first[reached] = slices.Min(names)
	}
	// Number the pools in the order of their names. So the same pools have the same numbers in each
	// layout; see [layout.hasPoolsOf].
	for i, reached := range slices.SortedFunc(maps.Keys(by), func(x, y uint64) int { return strings.Compare(first[x], first[y]) }) {
		l.pools = append(l.pools, &nodePool{capacity: make(Amounts), staying: make(map[string]Amounts)})
		for _, name := range by[reached] {
			l.poolOf[name] = i
		}
		for class := range l.classes {
			if reached&(1<<class) != 0 {
				l.reaches[class] |= 1 << i
			}
		}
	}
	return true
}

// hasPoolsOf reports whether two layouts divide the nodes into the same pools.
func (l *layout) hasPoolsOf(other *layout) bool {
	return l == other || maps.Equal(l.poolOf, other.poolOf)
}

// reachedBy returns a bit for each class that can run on a node. It ignores the taints of a closed
// node, because such a node gets no new pods.
func (l *layout) reachedBy(g *nodeEntry, size int) (out uint64) {
	kind := nodeKind{taints: g.node.Spec.Taints}
	for i, class := range l.classes {
		if class.fits[size] && (g.closed || kind.tolerated(class.terms)) && (class.terms.anywhere || class.terms.matches(g.node)) {
			out |= 1 << i
		}
	}
	return out
}

// noClass is the class of running pods if there are already mostClasses classes. Such pods count
// only on the nodes that they run on.
const noClass = -1

// classOf returns the class of a kind of pods; noClass if the layout does not have the kind.
func (l *layout) classOf(kind string) int {
	known, _ := l.kinds.Load(kind)
	if class, ok := known.(int); ok {
		return class
	}
	return noClass
}

// runs adds the request of a running pod to its class, or subtracts it if sign is -1.
func (l *layout) runs(c *charge, sign int64) {
	if class := l.classOf(c.kind); class >= 0 {
		addOf(l.classes[class].running, c.queue, c.request, sign)
	}
}

func (l *layout) waits(d *pendingPods, pods int64) {
	if class := l.classOf(d.kind); class >= 0 && pods != 0 {
		addOf(l.classes[class].waiting, d.queue, d.request, pods)
	}
}

// count adds the capacity that comes from a node, or subtracts it if sign is -1.
func (p *nodePool) count(g *nodeEntry, sign int64) {
	p.capacity.add(g.counted, sign)
	p.capacity.add(g.beyond, -sign)
}

// stay adds usage of pods that do not terminate, or subtracts it if sign is -1.
func (p *nodePool) stay(queue string, amounts Amounts, sign int64) {
	addOf(p.staying, queue, amounts, sign)
}

// addOf adds amounts to the sum of a queue, or subtracts them if sign is -1. It deletes a sum that
// is empty.
func addOf(sums map[string]Amounts, queue string, amounts Amounts, sign int64) {
	own := sums[queue]
	if own == nil {
		own = make(Amounts)
		sums[queue] = own
	}
	if own.add(amounts, sign); len(own) == 0 {
		delete(sums, queue)
	}
}

// markets divides the nodes of a Snapshot into markets: sets of pools with separate fair shares.
// layout maps pods and nodes to pools.
type markets struct {
	*fairshare.Divided
	layout *layout
}

// marketsOf divides the capacity into markets. It returns nil if there is only one market.
func (b *Ledger) marketsOf(s *Snapshot) *markets {
	b.lay()
	l := b.layout
	if l == nil || len(l.pools) < 2 {
		return nil
	}
	byLeaf := func(sums map[string]Amounts) map[int32]fairshare.Amounts {
		out := make(map[int32]fairshare.Amounts, len(sums))
		for name, a := range sums {
			if leaf := s.Tree.LeafOf(name); leaf >= 0 {
				out[leaf] = a.vector(s.Names, 0)
			}
		}
		return out
	}
	f := &fairshare.Field{Allocated: make([]fairshare.Amounts, s.Tree.Len())}
	for i, class := range l.classes {
		f.Classes = append(f.Classes, fairshare.Class{Reach: l.reaches[i], Running: byLeaf(class.running), Waiting: byLeaf(class.waiting)})
	}
	given := make(map[*nodePool]Amounts)
	for _, g := range b.overfull {
		if g.pool == nil {
			continue
		}
		if given[g.pool] == nil {
			given[g.pool] = make(Amounts)
		}
		given[g.pool].add(g.overfill(func(name string) bool { return s.Tree.LeafOf(name) < 0 }), 1)
	}
	for _, p := range l.pools {
		capacity := p.capacity.clone()
		for name, a := range p.staying {
			if s.Tree.LeafOf(name) < 0 {
				capacity.add(a, -1)
			}
		}
		capacity.add(given[p], 1)
		f.Pools = append(f.Pools, fairshare.Pool{Capacity: capacity.vector(s.Names, 0), Used: byLeaf(p.staying)})
	}
	for q := range f.Allocated {
		f.Allocated[q] = make(fairshare.Amounts, len(s.Names))
	}
	for name, a := range b.accounts {
		staying := a.staying.vector(s.Names, 0)
		for q := s.Tree.LeafOf(name); q >= 0; q = s.Tree.Parent(q) {
			for r, v := range staying {
				f.Allocated[q][r] += v
			}
		}
	}
	return &markets{Divided: s.Tree.Divide(f, b.carried(s.Names)), layout: l}
}

// Place describes the nodes that some work competes for. The nodes may differ by resource.
type Place struct {
	*fairshare.Place
	poolOf map[string]int
}

// Has reports whether a node is in the Place for a resource. resource is an index of
// [Snapshot.Names].
func (p *Place) Has(node string, resource int) bool {
	pool, ok := p.poolOf[node]
	return ok && p.Place.Has(pool, resource)
}

// PlaceOf returns the nodes that pods of the given kinds compete for. It returns nil if these are
// all nodes, or if the class of any kind is not known.
func (s *Snapshot) PlaceOf(kinds ...string) *Place {
	m := s.markets
	if m == nil || len(kinds) == 0 {
		return nil
	}
	classes := make([]int, len(kinds))
	for i, kind := range kinds {
		if classes[i] = m.layout.classOf(kind); classes[i] < 0 {
			return nil
		}
	}
	p := m.PlaceOf(classes...)
	if p == nil {
		return nil
	}
	return &Place{Place: p, poolOf: m.layout.poolOf}
}
