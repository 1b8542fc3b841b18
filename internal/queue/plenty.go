package queue

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// plenty records whether there is room for all waiting pods, in any order and on any node that
// accepts them. If so, workloads are admitted without turns, because the order of admission has no
// effect. [Ledger.Judge] determines this. Later changes of pods update it, until a change requires
// another call of Judge.
type plenty struct {
	judged bool
	// partial is true while some existing pods are not charged yet.
	partial bool
	// ended has a token after plenty has ended.
	ended chan struct{}
	// spare is the number of additional pods that certainly find room. It is valid for the kinds of
	// pods in the last judgment.
	spare int64
	kinds map[waitingKind]*waitingPods
	// waitingIn maps namespaces to the number of their waiting pods in queues. repelling maps
	// namespaces to the number of pods whose required anti-affinity may repel pods of the
	// namespace.
	waitingIn, repelling map[string]int
}

// waitingKind identifies waiting pods with the same requirements. inQueue is true if the pods count
// for a queue.
type waitingKind struct {
	kind    string
	inQueue bool
}

// mostWaitingKinds is the maximum number of kinds of waiting pods in a judgment. With more kinds,
// Judge returns false.
const mostWaitingKinds = 64

// mostComparisons is the maximum number of comparisons of a kind of pods with a node or a kind of
// nodes. This many comparisons take a few milliseconds.
const mostComparisons = 1 << 16

func newPlenty() plenty {
	return plenty{waitingIn: make(map[string]int), repelling: make(map[string]int), ended: make(chan struct{}, 1)}
}

// reset removes all facts about waiting pods. After that, only Judge can determine plenty.
func (p *plenty) reset() {
	p.kinds, p.partial = nil, false
	clear(p.waitingIn)
	clear(p.repelling)
}

// end records that there may no longer be room for all waiting pods.
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

// Plenty reports whether the cluster and the limits of a queue certainly have room for all waiting
// work of the queue, in any order. It ignores pods that no node or limit can ever serve; see
// [Ledger.Servable].
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

// Servable reports whether nodes and limits could serve a waiting pod if no other work were
// running. The pod must be charged, and its group must not be held.
func (b *Ledger) Servable(uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.pods[uid]
	return ok && !b.unweighed && b.isServed(&c)
}

// Judged reports whether there is certainly room for all waiting work. It ignores limits.
func (b *Ledger) Judged() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.plenty.judged
}

// PlentyEnds returns a channel that has a token after plenty has ended.
func (b *Ledger) PlentyEnds() <-chan struct{} { return b.plenty.ended }

// Judge determines whether there is room for all waiting work, unless this is already known. It
// ignores limits. It looks at every node while it holds the lock. mapped reports whether a device
// class maps a resource. Nodes may have such a resource without listing it.
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
	// Include the kinds of the last judgment. So new pods of these kinds need no new judgment.
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

// withFormer returns the given kinds of waiting pods, and the kinds of the last judgment that have
// no waiting pods now.
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

// waitingKinds returns the waiting pods by kind. It returns false if there are too many kinds, or
// if any kind is not countable; see isCountable.
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

// waitingKind returns the kind of the pods for a judgment. For pods outside of queues, the kind
// ignores node affinity. So all nodes whose taints they tolerate count as possible places.
func (d *pendingPods) waitingKind() waitingKind {
	if d.queue == "" {
		return waitingKind{kind: kindOf(d.request) + d.terms.tolerates}
	}
	return waitingKind{kind: d.kind, inQueue: true}
}

// isCountable reports whether the room for pods of a kind can be counted. Pods of queues must be
// plain, and some node must list each resource that they request. A resource that nodes list and
// that a device class maps cannot be counted, because other nodes may have it without listing it.
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

// mayTake reports whether a pod with the request and the terms may run on the nodes of a kind.
func (b *Ledger) mayTake(k *nodeKind, request Amounts, t *terms) bool {
	return b.holds(k.allocatable, request) > 0 && k.tolerated(t)
}

// takers are the nodes of one kind, with the pods that they may take. Bit i of who is set if the
// pods of kind i may run there. slots has, for each node, the number of additional pods that fit
// there, and all is the sum over the nodes.
type takers struct {
	*nodeKind
	who   uint64
	slots []int64
	all   int64
}

// takersOf returns the nodes that accept pods of at least one of the given kinds. A slot has room
// for any of these pods: for each resource, it has the largest request.
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

// spareFor returns the number of additional pods of the waiting kinds that certainly find room. It
// is negative if the present waiting pods may not all find room, or if there are too many kinds to
// compare.
//
// The reasoning: a slot is large enough for any pod. So a node without room for a pod has received
// at least as many pods as it had slots. If a pod finds no room on any of its nodes, these nodes
// have received at least as many pods as they had slots in total. So if fewer pods may come to
// these nodes, every pod finds room.
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

// roomFor returns the number of slots on the nodes that pods with the terms may use.
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

// slotsFor returns the number of additional pods with a request that fit on a node.
func (g *nodeEntry) slotsFor(request Amounts) int64 {
	most := mostRequested
	for name, v := range request {
		if v > 0 {
			most = min(most, max(g.allocatable[name]-g.used[name], 0)/v)
		}
	}
	return most
}

// isRepelled reports whether the anti-affinity of any pod may repel waiting pods of queues.
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

// demand records that more pods of a kind wait. If fewer pods wait, the field spare stays the same
// until the next judgment, because other pods may not be able to use the room.
func (p *plenty) demand(d *pendingPods, more int64) {
	if p.judged && more > 0 {
		if p.spare -= more; p.spare < 0 || p.kinds[d.waitingKind()] == nil {
			p.end()
		}
	}
}

// isExpected reports whether plenty stays correct after a change of a pod. There are two such
// changes:
//
//   - The pod still waits, or stays on its node and does not grow.
//   - A waiting pod was placed on a node that was counted for its kind, and needs at most one slot.
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

// follow updates plenty after the charge of a pod has changed. If the change is not expected,
// follow ends plenty.
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
