package queue

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// plenty is whether there is room for all pods that wait, in whatever order they go and wherever they are placed: then no order
// makes a difference to anything. It is found by [Board.Judge], and followed from there pod by pod, up to what that cannot follow.
type plenty struct {
	judged bool
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

func newPlenty() plenty {
	return plenty{waitingIn: make(map[string]int), repelling: make(map[string]int)}
}

// Plenty reports whether there is room for all that waits in a queue, and in the cluster, whoever goes first. When in doubt there is
// not. What no node or no limit could ever serve is left out, see [Board.Servable].
func (b *Board) Plenty(queue string) bool {
	if !b.Used() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.plenty.judged || b.unweighed {
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

// Judge finds out whether there is plenty of room for all that waits, limits left out, unless that is known. It looks at every
// node.
func (b *Board) Judge() bool {
	if !b.Used() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unweighed {
		b.weighAll()
	} else if b.plenty.judged {
		return true
	}
	b.plenty.judged = false
	if b.plenty.isRepelled() {
		return false
	}
	waiting, ok := b.waitingKinds()
	if !ok {
		return false
	}
	// More of what has come before is to find that known.
	for _, kinds := range []map[waitingKind]*waitingPods{b.plenty.with(waiting), waiting} {
		if spare := b.spareFor(kinds); spare >= 0 {
			b.plenty.judged, b.plenty.spare, b.plenty.kinds = true, spare, kinds
			return true
		}
	}
	b.plenty.kinds = nil
	return false
}

// with are some kinds, and those that were judged before, of which none wait.
func (p *plenty) with(waiting map[waitingKind]*waitingPods) map[waitingKind]*waitingPods {
	out := maps.Clone(waiting)
	for key, w := range p.kinds {
		if len(out) == mostWaitingKinds {
			break
		}
		if out[key] == nil {
			none := *w
			none.pods = 0
			out[key] = &none
		}
	}
	return out
}

// waitingPods are the pods of a kind that wait.
type waitingPods struct {
	pods    int64
	request Amounts
	terms   *terms
}

// waitingKinds adds up the pods that wait, by kind. It reports false where there are too many kinds, or some of a queue about which
// room does not say all.
func (b *Board) waitingKinds() (map[waitingKind]*waitingPods, bool) {
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
		if len(out) == mostWaitingKinds || key.inQueue && (!d.terms.plain || !b.areListed(d.request)) {
			return nil, false
		}
		out[key] = &waitingPods{pods: d.counted, request: d.request, terms: d.terms}
	}
	return out, true
}

func (d *pendingPods) waitingKind() waitingKind {
	return waitingKind{kind: d.kind, inQueue: d.queue != ""}
}

// areListed reports whether nodes list all that is asked for: what none does may come from elsewhere, as from a device class.
func (b *Board) areListed(request Amounts) bool {
	for name, v := range request {
		if v > 0 && !b.listedByNodes[name] {
			return false
		}
	}
	return true
}

// mayTake reports whether such a pod may be placed on some node of a kind.
func (b *Board) mayTake(k *nodeKind, w *waitingPods) bool {
	return b.holds(k.allocatable, w.request) > 0 && k.tolerated(w.terms)
}

// spareFor is for how many pods there is room beside those that wait, of their kinds; less than none where there is not room for all of
// them.
//
// On each kind of nodes, count what a node still has in pods as large as the largest that may come there, of each resource.
// A node that has no room for one of those has taken at least as many pods as that. So if a pod found no room on any of its nodes, they would
// have taken as many as all of them count together. There is room for all as long as no more may come there.
func (b *Board) spareFor(waiting map[waitingKind]*waitingPods) int64 {
	type takers struct {
		*nodeKind
		slots []int64
		all   int64
		who   map[waitingKind]bool
	}
	var nodes []takers
	for _, k := range b.kinds {
		t := takers{nodeKind: k, slots: make([]int64, len(k.nodes)), who: make(map[waitingKind]bool)}
		largest := make(Amounts)
		for key, w := range waiting {
			if !b.mayTake(k, w) {
				continue
			}
			t.who[key] = true
			for name, v := range w.request {
				largest[name] = max(largest[name], v)
			}
		}
		if len(t.who) == 0 {
			continue
		}
		for i, g := range k.nodes {
			t.slots[i] = g.slotsFor(largest)
			t.all += t.slots[i]
		}
		nodes = append(nodes, t)
	}
	spare := mostRequested
	for key, w := range waiting {
		if !key.inQueue {
			continue
		}
		room, others := int64(0), make(map[waitingKind]bool)
		for _, t := range nodes {
			if !t.who[key] {
				continue
			}
			for other := range t.who {
				others[other] = true
			}
			if w.terms.anywhere {
				room += t.all
				continue
			}
			for i, g := range t.nodes {
				if w.terms.matches(g.node) {
					room += t.slots[i]
				}
			}
		}
		for other := range others {
			room -= waiting[other].pods
		}
		spare = min(spare, room)
	}
	return spare
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
		p.spare -= more
		p.judged = p.spare >= 0 && p.kinds[d.waitingKind()] != nil
	}
}

// follow takes in that a pod counts as now, and that it was counted among those that wait before. A pod that is placed takes the room of at
// most one of those that were judged, and is one less of them.
func (p *plenty) follow(before, now *charge, counted bool) {
	p.count(now, 1)
	if !p.judged {
		return
	}
	if expected := (counted || before.placed) && covers(before.request, now.request); now.placed && !expected {
		// It takes what was not counted on.
		p.judged = false
	}
	if len(now.repels) > 0 || !now.placed && now.queue != "" {
		p.judged = p.judged && !p.isRepelled()
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
