package queue

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// taintedNodes are the nodes that take pods and have the same taints, some of which keep pods off.
type taintedNodes struct {
	taints []corev1.Taint
	nodes  []*nodeEntry
}

// tolerance is what pods of a queue tolerate.
type tolerance struct{ queue, tolerates string }

// tolerant are pods without a node that are demand.
type tolerant struct {
	tolerations []corev1.Toleration
	pods        int64
}

// taint adds a node to those that have its taints, if any of these keep pods off.
func (b *Board) taint(g *nodeEntry) {
	if !slices.ContainsFunc(g.node.Spec.Taints, func(t corev1.Taint) bool { return keepsOff(&t) }) {
		b.shun(g, false)
		return
	}
	key := taintsKey(g.node.Spec.Taints)
	if b.tainted[key] == nil {
		b.tainted[key] = &taintedNodes{taints: g.node.Spec.Taints}
	}
	b.tainted[key].nodes = append(b.tainted[key].nodes, g)
}

// tolerate takes in that more pods, or fewer, of some that wait are demand.
func (b *Board) tolerate(d *pendingPods, more int64) {
	if more == 0 {
		return
	}
	key := tolerance{queue: d.queue, tolerates: d.terms.tolerates}
	t := b.tolerances[key]
	if t == nil {
		t = &tolerant{tolerations: d.terms.tolerations}
		b.tolerances[key] = t
		b.unreached = true
	}
	if t.pods += more; t.pods == 0 {
		delete(b.tolerances, key)
		b.unreached = true
	}
}

// reach settles which tainted nodes are shunned: those whose taints no work tolerates that waits in a queue. What else they have is of use to
// no queue: as long as it counted, there would seem to be enough for all, and none would give anything back.
func (b *Board) reach() {
	if !b.unreached {
		return
	}
	b.unreached = false
	waiting := make(map[string]*terms)
	for key, t := range b.tolerances {
		if waiting[key.tolerates] == nil && key.queue != "" && b.check(key.queue) == (gang.Verdict{}) {
			waiting[key.tolerates] = &terms{tolerations: t.tolerations}
		}
	}
	for _, of := range b.tainted {
		kind, shunned := nodeKind{taints: of.taints}, true
		for _, t := range waiting {
			if kind.tolerated(t) {
				shunned = false
				break
			}
		}
		for _, g := range of.nodes {
			b.shun(g, shunned)
		}
	}
}

// shun has a node be shunned, or no more.
func (b *Board) shun(g *nodeEntry, shunned bool) {
	if g.shunned != shunned {
		g.shunned = shunned
		b.recount(g)
	}
}
