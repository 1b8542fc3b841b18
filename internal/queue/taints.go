package queue

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// taintedNodes are nodes that accept pods and have the same taints. At least one of the taints
// repels pods.
type taintedNodes struct {
	taints []corev1.Taint
	nodes  []*nodeEntry
}

// tolerance identifies the waiting pods of one queue with the same tolerations.
type tolerance struct{ queue, tolerates string }

// tolerant counts the waiting pods with the same tolerations. It leaves out pods that do not count
// as demand.
type tolerant struct {
	tolerations []corev1.Toleration
	pods        int64
}

// taint adds a node to the nodes with the same taints. If none of its taints repels pods, taint
// clears the mark shunned instead.
func (b *Ledger) taint(g *nodeEntry) {
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

// tolerate records that more pods, or fewer if more is negative, wait and count as demand.
func (b *Ledger) tolerate(d *pendingPods, more int64) {
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

// reach marks a node as shunned if no waiting work of a queue tolerates its taints. No queue can
// use the free resources of such a node. If these resources counted as capacity, there would seem
// to be enough for all queues, and no queue would have to return borrowed resources.
func (b *Ledger) reach() {
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

// shun sets or clears the mark shunned of a node, and updates the capacity.
func (b *Ledger) shun(g *nodeEntry, shunned bool) {
	if g.shunned != shunned {
		g.shunned = shunned
		b.recount(g)
	}
}
