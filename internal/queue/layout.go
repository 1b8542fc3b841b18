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

// layout divides the nodes into pools, by the classes of pods that can use them. Shares are
// computed for each pool; see [fairshare.Tree.Markets]. Without a layout, all nodes are one pool.
type layout struct {
	// kinds maps each kind of pods to its class. It only grows, and known is its number of entries.
	// If there are too many classes, the kind of a running pod has noClass. signatures maps each
	// combination of terms and matching sizes to its class.
	kinds      *sync.Map
	known      int
	signatures map[string]int
	classes    []*podClass
	// sizes are the distinct allocatable resources of nodes. A pod's class depends on the sizes
	// that it fits on.
	sizes []Amounts
	pools []*nodePool
	// poolOf maps the name of each node to its pool. reaches has a set of pools, as bits, for each
	// class. Neither changes.
	poolOf  map[string]int
	reaches []uint64
}

// podClass is a set of pods that can run on the same nodes.
type podClass struct {
	terms *terms
	fits  []bool
	// running and waiting are the requests of the class, by queue.
	running, waiting map[string]Amounts
}

// nodePool is a set of nodes that the same classes can reach.
type nodePool struct {
	// capacity is the sum of the nodes' counted amounts minus their amounts beyond. staying is the
	// usage by pods that are not terminating, by queue.
	capacity Amounts
	staying  map[string]Amounts
}

// mostClasses and mostLaidKinds are the largest numbers of classes and kinds of pods in a layout.
// If waiting pods need more classes, or all pods more kinds, all nodes count as one pool.
const mostClasses, mostLaidKinds = 64, 4096

// mostLaid is the largest product of classes and nodes in a layout. Beyond it, all nodes count as
// one pool.
const mostLaid = 1 << 19

// KindOf returns the kind of a pod. Pods with equal requirements on a node have the same kind.
func KindOf(pod *corev1.Pod) string { return kindOf(RequestOf(pod)) + termsOf(pod).key }

// relay records that the layout is outdated.
func (b *Ledger) relay() { b.layout, b.laid = nil, false }

// lay computes the layout if it is outdated.
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

// layFewer records that pending pods of a kind are gone. If the layout failed because of too many
// classes, it is computed again once a quarter of the kinds is gone. So a large number of kinds
// causes few attempts.
func (b *Ledger) layFewer() {
	if b.laid && b.layout == nil && b.crowded && len(b.pending) <= b.laidKinds*3/4 {
		b.relay()
	}
}

// layRunning and layWaiting update the layout after a change of running or waiting pods. If the
// class of a pod is unknown, the layout becomes outdated.
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

// knowsClass reports whether the layout has the class of the given pods. A layout without their
// class becomes outdated.
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

// newLayout returns a new layout; nil if there are too many classes, nodes or pools. crowded is
// true if there is no layout now, but there might be one without some of the pending pods.
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

// hasPendingOnly reports whether any class has no running pods, by the running pods of each kind.
func (l *layout) hasPendingOnly(running map[string]charge) bool {
	classes := make(map[int]bool)
	for kind := range running {
		if class := l.classOf(kind); class != noClass {
			classes[class] = true
		}
	}
	return len(classes) < len(l.classes)
}

// classify finds the class of a kind of pods, or adds one. It returns false if there are too many
// kinds, or if waiting pods need more classes than allowed.
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

// divide groups nodes into pools: nodes that can be used by the same classes. It returns false if
// there are too many pools.
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
	// Number the pools by name, so that the same pools have the same numbers in each layout; see
	// [layout.hasPoolsOf].
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

// hasPoolsOf reports whether two layouts divide the same nodes into the same pools.
func (l *layout) hasPoolsOf(other *layout) bool {
	return l == other || maps.Equal(l.poolOf, other.poolOf)
}

// reachedBy returns a bit for each class that can run on a node. On a closed node only running pods
// count, so taints do not matter there.
func (l *layout) reachedBy(g *nodeEntry, size int) (out uint64) {
	kind := nodeKind{taints: g.node.Spec.Taints}
	for i, class := range l.classes {
		if class.fits[size] && (g.closed || kind.tolerated(class.terms)) && (class.terms.anywhere || class.terms.matches(g.node)) {
			out |= 1 << i
		}
	}
	return out
}

// noClass replaces the class of running pods beyond mostClasses. Such pods count only where they
// run.
const noClass = -1

// classOf returns the class of a kind of pods; noClass if the layout does not know the kind.
func (l *layout) classOf(kind string) int {
	known, _ := l.kinds.Load(kind)
	if class, ok := known.(int); ok {
		return class
	}
	return noClass
}

// runs adds a running pod, multiplied by sign, to its class. waits adds a number of waiting pods.
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

// count adds a node's contribution to the capacity, multiplied by sign.
func (p *nodePool) count(g *nodeEntry, sign int64) {
	p.capacity.add(g.counted, sign)
	p.capacity.add(g.beyond, -sign)
}

// stay adds usage of pods that are not terminating, multiplied by sign.
func (p *nodePool) stay(queue string, amounts Amounts, sign int64) {
	addOf(p.staying, queue, amounts, sign)
}

// addOf adds amounts, multiplied by sign, to the sum of a queue. It removes an empty sum.
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

// markets has the markets of a Snapshot: parts of the nodes with shares of their own. Its layout
// maps pods and nodes to them.
type markets struct {
	*fairshare.Divided
	layout *layout
}

// marketsOf divides the capacity into markets; nil if there is only one market.
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

// Place is, for each resource, the set of nodes that some work competes for.
type Place struct {
	*fairshare.Place
	poolOf map[string]int
}

// Has reports whether a node is part of the place for a resource.
func (p *Place) Has(node string, resource int) bool {
	pool, ok := p.poolOf[node]
	return ok && p.Place.Has(pool, resource)
}

// PlaceOf returns the nodes that pods of the given kinds compete for. It returns nil if these are
// all nodes, or if the class of any kind is unknown.
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
