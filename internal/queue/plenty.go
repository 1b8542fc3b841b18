package queue

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// plenty records whether there is room for all waiting pods, in any order and on any node that
// accepts them. If so, the order of admission makes no difference, and workloads get a free pass.
// [Ledger.Judge] determines plenty. Afterwards, each change of a pod updates it, until a change
// needs a new judgment.
type plenty struct {
	judged bool
	// partial is true while some existing pods are not charged yet. ended has a token after plenty
	// has ended.
	partial bool
	ended   chan struct{}
	// spare is the number of further pods, of the kinds in the last judgment, that certainly find
	// room.
	spare int64
	kinds map[waitingKind]*waitingPods
	// waitingIn counts the waiting pods of queues by namespace. repelling counts the pods with
	// required anti-affinity, by each namespace that they repel pods of.
	waitingIn, repelling map[string]int
}

// waitingKind is a kind of waiting pods. inQueue is true if the pods count for a queue.
type waitingKind struct {
	kind    string
	inQueue bool
}

// mostWaitingKinds is the most kinds of waiting pods that Judge compares. With more kinds, plenty
// is false.
const mostWaitingKinds = 64

// mostComparisons is the most comparisons of kinds of pods with nodes or kinds of nodes. That many
// take a few milliseconds.
const mostComparisons = 1 << 16

func newPlenty() plenty {
	return plenty{waitingIn: make(map[string]int), repelling: make(map[string]int), ended: make(chan struct{}, 1)}
}

// reset removes all waiting pods. Judge must determine plenty again.
func (p *plenty) reset() {
	p.kinds, p.partial = nil, false
	clear(p.waitingIn)
	clear(p.repelling)
}

// end records that there may not be room for all waiting pods any more.
func (p *plenty) end() {
	if !p.judged {
		return
	}
	p.judged = false
	select {
	case p.ended <- struct{}{}:
	default:
	}
}

// Plenty reports whether the queue and the cluster have room for all waiting work of a queue, in
// any order. If this is not certain, it returns false. It ignores pods that no node or limit could
// ever serve; see [Ledger.Servable].
func (b *Ledger) Plenty(queue string) bool {
	if !b.Used() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.plenty.judged {
		return false
	}
	for _, name := range b.path(queue) {
		for resource, most := range b.limits[name] {
			if b.allocated[name][resource]+b.waiting[name][resource] > most {
				return false
			}
		}
	}
	return true
}

// Servable reports whether a waiting pod is charged, and nodes and limits could serve it if nothing
// else ran. A member of a held group is not servable.
func (b *Ledger) Servable(uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.pods[uid]
	return ok && !b.unweighed && b.isServed(&c)
}

// Judged reports whether there is certainly room for all waiting work, apart from limits.
func (b *Ledger) Judged() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.plenty.judged
}

// PlentyEnds returns a channel that has a token after plenty has ended.
func (b *Ledger) PlentyEnds() <-chan struct{} { return b.plenty.ended }

// Judge determines whether there is room for all waiting work, limits aside, unless that is already
// known. It looks at every node while it holds the lock. mapped reports whether a device class maps
// a resource, so that nodes may have the resource without listing it.
func (b *Ledger) Judge(mapped func(corev1.ResourceName) bool) bool {
	if !b.Used() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.plenty.judged {
		return true
	}
	if b.unweighed {
		b.weighAll()
	}
	if b.plenty.partial || b.plenty.isRepelled() {
		return false
	}
	waiting, ok := b.waitingKinds(mapped)
	if !ok {
		return false
	}
	// Include earlier kinds, so that new pods of these kinds do not need a new judgment.
	kinds := b.withFormer(waiting, mapped)
	spare := b.spareFor(kinds)
	if spare < 0 && len(kinds) > len(waiting) {
		kinds, spare = waiting, b.spareFor(waiting)
	}
	if spare < 0 {
		b.plenty.kinds = nil
		return false
	}
	b.plenty.judged, b.plenty.spare, b.plenty.kinds = true, spare, kinds
	return true
}

// withFormer returns the kinds of waiting pods. It adds kinds of the last judgment that have no
// waiting pods now.
func (b *Ledger) withFormer(waiting map[waitingKind]*waitingPods, mapped func(corev1.ResourceName) bool) map[waitingKind]*waitingPods {
	out := maps.Clone(waiting)
	for key, w := range b.plenty.kinds {
		if len(out) == mostWaitingKinds {
			break
		}
		if out[key] == nil && b.isCountable(key, w.request, w.terms, mapped) {
			none := *w
			none.pods = 0
			out[key] = &none
		}
	}
	return out
}

// waitingPods are the waiting pods of one kind.
type waitingPods struct {
	inQueue bool
	pods    int64
	request Amounts
	terms   *terms
}

// waitingKinds counts the waiting pods by kind. It returns false if there are too many kinds, or if
// a kind is not countable; see isCountable.
func (b *Ledger) waitingKinds(mapped func(corev1.ResourceName) bool) (map[waitingKind]*waitingPods, bool) {
	out := make(map[waitingKind]*waitingPods)
	for _, d := range b.pending {
		if d.counted == 0 {
			continue
		}
		key := d.waitingKind()
		if w := out[key]; w != nil {
			w.pods += d.counted
			continue
		}
		if len(out) == mostWaitingKinds || !b.isCountable(key, d.request, d.terms, mapped) {
			return nil, false
		}
		out[key] = &waitingPods{inQueue: key.inQueue, pods: d.counted, request: d.request, terms: d.terms}
	}
	return out, true
}

// waitingKind returns the kind of the pods in a judgment. For pods outside of queues, only
// tolerations distinguish kinds, so all nodes that they tolerate count as possible places.
func (d *pendingPods) waitingKind() waitingKind {
	if d.queue == "" {
		return waitingKind{kind: kindOf(d.request) + d.terms.tolerates}
	}
	return waitingKind{kind: d.kind, inQueue: true}
}

// isCountable reports whether room for pods of a kind can be counted. Pods of queues must be plain,
// and some node must list each resource that they request. If nodes list a resource that a device
// class maps, other nodes may have it without listing it. Such requests are not countable.
func (b *Ledger) isCountable(key waitingKind, request Amounts, t *terms, mapped func(corev1.ResourceName) bool) bool {
	if key.inQueue && !t.plain {
		return false
	}
	for name, v := range request {
		if v > 0 && (key.inQueue && !b.listedByNodes[name] || b.listedByNodes[name] && mapped(name)) {
			return false
		}
	}
	return true
}

// mayTake reports whether a pod with the request and the terms may run on any node of a kind.
func (b *Ledger) mayTake(k *nodeKind, request Amounts, t *terms) bool {
	return b.holds(k.allocatable, request) > 0 && k.tolerated(t)
}

// takers are the nodes of one kind. Bit i of who is set if waiting pods of kind i may run there.
// slots has the number of further pods for each node, and all is their sum.
type takers struct {
	*nodeKind
	who   uint64
	slots []int64
	all   int64
}

// takersOf lists the nodes that accept pods of at least one of the given kinds. A slot is large
// enough for any of these pods: for each resource, it has the largest request.
func (b *Ledger) takersOf(kinds []*waitingPods) []takers {
	var out []takers
	for _, k := range b.kinds {
		t, largest := takers{nodeKind: k}, make(Amounts)
		for i, w := range kinds {
			if !b.mayTake(k, w.request, w.terms) {
				continue
			}
			t.who |= 1 << i
			for name, v := range w.request {
				largest[name] = max(largest[name], v)
			}
		}
		if t.who == 0 {
			continue
		}
		t.slots = make([]int64, len(k.nodes))
		for i, g := range k.nodes {
			t.slots[i] = g.slotsFor(largest)
			t.all += t.slots[i]
		}
		out = append(out, t)
	}
	return out
}

// spareFor returns how many more pods of the waiting kinds certainly find room. The result is
// negative if not all waiting pods certainly do, or if there are too many kinds to compare.
//
// If a node has no room for the largest pod that may run there, it has received at least as many
// pods as it had slots. So if a pod finds no room on any of its nodes, these nodes have received as
// many pods as all their slots. If fewer pods than that can come to these nodes, every pod finds
// room.
func (b *Ledger) spareFor(waiting map[waitingKind]*waitingPods) int64 {
	kinds := slices.Collect(maps.Values(waiting))
	comparisons := len(b.kinds) * len(kinds)
	for _, w := range kinds {
		if w.inQueue && !w.terms.anywhere {
			comparisons += len(b.nodes)
		}
	}
	if comparisons > mostComparisons {
		return -1
	}
	nodes := b.takersOf(kinds)
	spare := mostRequested
	for i, w := range kinds {
		if !w.inQueue {
			continue
		}
		room, others := int64(0), uint64(0)
		for _, t := range nodes {
			if t.who&(1<<i) != 0 {
				others |= t.who
				room += t.roomFor(w.terms)
			}
		}
		for j, other := range kinds {
			if others&(1<<j) != 0 {
				room -= other.pods
			}
		}
		spare = min(spare, room)
	}
	return spare
}

// roomFor returns the number of slots on the nodes that pods with the given terms may use.
func (t *takers) roomFor(terms *terms) (room int64) {
	if terms.anywhere {
		return t.all
	}
	for i, g := range t.nodes {
		if terms.matches(g.node) {
			room += t.slots[i]
		}
	}
	return room
}

// slotsFor returns how many pods with a request the node has room for.
func (g *nodeEntry) slotsFor(request Amounts) int64 {
	most := mostRequested
	for name, v := range request {
		if v > 0 {
			most = min(most, max(g.allocatable[name]-g.used[name], 0)/v)
		}
	}
	return most
}

// isRepelled reports whether anti-affinity of other pods may repel waiting pods of queues.
func (p *plenty) isRepelled() bool {
	if len(p.waitingIn) == 0 {
		return false
	}
	for namespace := range p.repelling {
		if namespace == anyNamespace || p.waitingIn[namespace] > 0 {
			return true
		}
	}
	return false
}

// demand records that more pods of a kind wait. Fewer pods do not raise spare before the next
// judgment, because other pods may not be able to use their room.
func (p *plenty) demand(d *pendingPods, more int64) {
	if p.judged && more > 0 {
		if p.spare -= more; p.spare < 0 || p.kinds[d.waitingKind()] == nil {
			p.end()
		}
	}
}

// isExpected reports whether plenty stays correct after a change of a pod without a new judgment.
// There are two such changes. First, the pod still waits, or stays on its node and does not grow.
// Second, a waiting pod was placed on a node that was counted for its kind, and needs at most one
// slot.
func (b *Ledger) isExpected(before, now *charge) bool {
	switch {
	case !now.placed:
		return true
	case !covers(before.request, now.request):
		return false
	case before.placed:
		return before.node == now.node
	}
	g := b.nodes[now.node]
	if g == nil || !b.isServed(before) {
		return false
	}
	return g.closed || g.kind != nil && b.mayTake(g.kind, before.request, before.terms)
}

// follow updates plenty after a pod's charge has changed. An unexpected change ends it.
func (p *plenty) follow(now *charge, expected bool) {
	p.count(now, 1)
	if now.placed && !expected || (len(now.repels) > 0 || !now.placed && now.queue != "") && p.isRepelled() {
		p.end()
	}
}

// count adds a pod to the counts by namespace, or removes it if by is -1.
func (p *plenty) count(c *charge, by int) {
	add := func(counts map[string]int, name string) {
		if counts[name] += by; counts[name] == 0 {
			delete(counts, name)
		}
	}
	for _, name := range c.repels {
		add(p.repelling, name)
	}
	if !c.placed && c.queue != "" {
		add(p.waitingIn, c.namespace)
	}
}
