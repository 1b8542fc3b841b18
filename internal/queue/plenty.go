package queue

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// plenty is whether there is room for all pods that wait, in whatever order they go and wherever they are placed: then no order
// makes a difference to anything. It is found by [Board.Judge], and followed from there pod by pod, up to what that cannot follow.
type plenty struct {
	judged bool
	// partial is true while not all pods have been charged that there are, and ended has a token when there is not plenty any more.
	partial bool
	ended   chan struct{}
	// spare is for how many pods more there is room, of the kinds that have been judged.
	spare int64
	kinds map[waitingKind]*waitingPods
	// waitingIn counts the pods of queues that wait, by namespace, and repelling those that keep others off, by the others' namespace.
	waitingIn, repelling map[string]int
}

// waitingKind is what pods that wait ask for; inQueue is whether they count for a queue.
type waitingKind struct {
	kind    string
	inQueue bool
}

// mostWaitingKinds bounds what is judged: more kinds of pods than that are not told apart from too many.
const mostWaitingKinds = 64

// mostComparisons bounds how many kinds of pods are held against kinds of nodes, and against nodes one by one, which takes some milliseconds.
const mostComparisons = 1 << 16

func newPlenty() plenty {
	return plenty{waitingIn: make(map[string]int), repelling: make(map[string]int), ended: make(chan struct{}, 1)}
}

// reset has nothing wait. There is no plenty known then.
func (p *plenty) reset() {
	p.kinds, p.partial = nil, false
	clear(p.waitingIn)
	clear(p.repelling)
}

// end has there not be plenty any more.
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

// Plenty reports whether there is room for all that waits in a queue, and in the cluster, whichever pod goes first. When in doubt there
// is not. What no node or no limit could ever serve is left out, see [Board.Servable].
func (b *Board) Plenty(queue string) bool {
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

// Servable reports whether a pod that waits has been charged, and the nodes and limits could serve it if nothing else ran. A member of a group
// is not as long as the group is held.
func (b *Board) Servable(uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.pods[uid]
	return ok && !b.unweighed && b.isServed(&c)
}

// Judged reports whether it is known that there is plenty of room for all that waits, limits left out.
func (b *Board) Judged() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.plenty.judged
}

// PlentyEnds has a token when there is not plenty of room any more, until that is judged anew.
func (b *Board) PlentyEnds() <-chan struct{} { return b.plenty.ended }

// Judge finds out whether there is plenty of room for all that waits, limits left out, unless that is known. It looks at every
// node. Mapped says which resources device classes map, so that nodes may have them without listing them.
func (b *Board) Judge(mapped func(corev1.ResourceName) bool) bool {
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
	// More of what has come before is to find that known.
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

// withFormer are some kinds, and those that were judged before, of which none wait.
func (b *Board) withFormer(waiting map[waitingKind]*waitingPods, mapped func(corev1.ResourceName) bool) map[waitingKind]*waitingPods {
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

// waitingPods are the pods of a kind that wait.
type waitingPods struct {
	inQueue bool
	pods    int64
	request Amounts
	terms   *terms
}

// waitingKinds adds up the pods that wait, by kind. It reports false where there are too many kinds, or some of a queue about which
// room does not say all.
func (b *Board) waitingKinds(mapped func(corev1.ResourceName) bool) (map[waitingKind]*waitingPods, bool) {
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

// waitingKind is the kind of what counts for a queue. Of other pods it does not matter where they have to go: they may.
func (d *pendingPods) waitingKind() waitingKind {
	if d.queue == "" {
		return waitingKind{kind: kindOf(d.request) + d.terms.tolerates}
	}
	return waitingKind{kind: d.kind, inQueue: true}
}

// isCountable reports whether it can be told for which nodes pods of a kind count, and of those in queues that room there is all that they need.
// What a device class maps may come from nodes that do not list it, where others do; what no node lists counts as had by all.
func (b *Board) isCountable(key waitingKind, request Amounts, t *terms, mapped func(corev1.ResourceName) bool) bool {
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

// mayTake reports whether such a pod may be placed on some node of a kind.
func (b *Board) mayTake(k *nodeKind, request Amounts, t *terms) bool {
	return b.holds(k.allocatable, request) > 0 && k.tolerated(t)
}

// takers are nodes of one kind, with who of those that wait may come there, by their places in a list, and how many more of them each
// node and all of them have room for.
type takers struct {
	*nodeKind
	who   uint64
	slots []int64
	all   int64
}

// takersOf are the nodes that take any of some kinds of pods. A node counts in pods as large as the largest of them, of each resource.
func (b *Board) takersOf(kinds []*waitingPods) []takers {
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

// spareFor is for how many pods there is room beside those that wait, of their kinds; less than none where there is not room for all of
// them.
//
// A node that has no room for one of the largest pods that may come there has taken at least as many pods as it was counted for. So if a
// pod found no room on any of its nodes, they would have taken as many as all of them were counted for. There is room for all as long as no
// more may come there.
func (b *Board) spareFor(waiting map[waitingKind]*waitingPods) int64 {
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

// roomFor is how many pods the nodes have room for together on which one with such terms may be.
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

// slotsFor is how many pods a node still has room for.
func (g *nodeEntry) slotsFor(request Amounts) int64 {
	most := mostRequested
	for name, v := range request {
		if v > 0 {
			most = min(most, max(g.allocatable[name]-g.used[name], 0)/v)
		}
	}
	return most
}

// isRepelled reports whether others may keep pods of queues off by anti-affinity that wait.
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

// demand takes in that more pods of a kind wait. Of fewer, nothing is made before it is judged again: others may not have the use
// of what they leave.
func (p *plenty) demand(d *pendingPods, more int64) {
	if p.judged && more > 0 {
		if p.spare -= more; p.spare < 0 || p.kinds[d.waitingKind()] == nil {
			p.end()
		}
	}
}

// isExpected reports whether it has been reckoned with that a pod comes to count as it does now: it waited, and was counted for nodes like the
// one that it is placed on, of which it takes no more than one of the places that were counted.
func (b *Board) isExpected(before, now *charge) bool {
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

// follow takes in that a pod counts as now, and whether that was expected.
func (p *plenty) follow(now *charge, expected bool) {
	p.count(now, 1)
	if now.placed && !expected || (len(now.repels) > 0 || !now.placed && now.queue != "") && p.isRepelled() {
		p.end()
	}
}

// count counts a pod in its namespace, or no more.
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
