package scheduler

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/reservation"
)

// dipTime is the time between a drop in a node's allocatable resources and the review of its
// reservations. A device plugin that restarts removes its devices from the node for some seconds.
// If the reservation were released in this time, a second set of victims would be evicted. If a
// node has shrunk permanently, the review comes dipTime late.
const dipTime = 10 * time.Second

// dips holds the nodes whose allocatable resources dropped within the last dipTime. A dip ends when
// the node offers as much as before, when its time has passed, or when the node is gone. Make one
// with newDips. It is safe for concurrent use.
type dips struct {
	mu    sync.Mutex
	lasts time.Duration
	nodes map[string]map[corev1.ResourceName]dip
}

// dip is a drop of one resource of a node.
type dip struct {
	// had is the amount that the node offered before.
	had  resource.Quantity
	ends time.Time
}

func newDips(lasts time.Duration) *dips {
	return &dips{lasts: lasts, nodes: make(map[string]map[corev1.ResourceName]dip)}
}

// follow records an update of a node.
func (d *dips) follow(before, after *corev1.Node, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.nodes[after.Name]
	for name := range of {
		if has, had := after.Status.Allocatable[name], of[name].had; has.Cmp(had) >= 0 {
			delete(of, name)
		}
	}
	for name, had := range before.Status.Allocatable {
		if _, dips := of[name]; dips {
			continue
		}
		if has := after.Status.Allocatable[name]; has.Cmp(had) < 0 {
			if of == nil {
				of = make(map[corev1.ResourceName]dip)
			}
			of[name] = dip{had: had.DeepCopy(), ends: now.Add(d.lasts)}
		}
	}
	d.set(after.Name, of)
}

// set replaces the dips of a node. The caller holds the lock.
func (d *dips) set(node string, of map[corev1.ResourceName]dip) {
	if len(of) == 0 {
		delete(d.nodes, node)
	} else {
		d.nodes[node] = of
	}
}

// forget drops a node that was deleted.
func (d *dips) forget(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nodes, node)
}

// over ends the dips whose time has passed, and returns their nodes.
func (d *dips) over(now time.Time) (nodes []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for node, of := range d.nodes {
		before := len(of)
		for name := range of {
			if !of[name].ends.After(now) {
				delete(of, name)
			}
		}
		if len(of) < before {
			nodes = append(nodes, node)
		}
		d.set(node, of)
	}
	slices.Sort(nodes)
	return nodes
}

// without returns a node with the resources that it offered before its dips.
func (d *dips) without(node *corev1.Node) *corev1.Node {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.nodes[node.Name]
	if len(of) == 0 {
		return node
	}
	out := node.DeepCopy()
	if out.Status.Allocatable == nil {
		out.Status.Allocatable = make(corev1.ResourceList)
	}
	for name := range of {
		if has, had := out.Status.Allocatable[name], of[name].had; has.Cmp(had) < 0 {
			out.Status.Allocatable[name] = had.DeepCopy()
		}
	}
	return out
}

// endOf returns the end of the last dip of a node; false for a node without dips.
func (d *dips) endOf(node string) (end time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, dip := range d.nodes[node] {
		if dip.ends.After(end) {
			end = dip.ends
		}
	}
	return end, !end.IsZero()
}

// dipUnder returns a node that has both a dip and a reservation of the preemptor, and the end of
// the dip. It returns "" if the decision may be carried out. The node had enough room for the
// reservation before the dip, and the decision would release the reservation or evict other pods.
func (h *Scheduler) dipUnder(made *cycleDecision) (node string, ends time.Time) {
	if d := made.decision.Outcome; d != core.Preempts && d != core.Infeasible {
		return "", time.Time{}
	}
	for _, r := range h.reserved.Of(made.pre.key) {
		end, dips := h.dips.endOf(r.Node)
		if dips && !slices.ContainsFunc(h.crowdedOutOn(r.Node), func(out *reservation.Reservation) bool { return out.UID == r.UID }) {
			return r.Node, end
		}
	}
	return "", time.Time{}
}

// waitForDip keeps the reservations of a preemptor until a dip ends, and does not carry out the
// decision, because it was made during the dip.
func (p *Plugin) waitForDip(made *cycleDecision, pod *corev1.Pod, node string, ends time.Time) (*fwk.PostFilterResult, *fwk.Status) {
	key, said := made.pre.key, fmt.Sprintf("waits for node %s, which has begun to offer less", node)
	if key.Gang {
		p.sched.gangs.Unplanned(key)
		v := gang.Verdict{Reason: v1alpha1.ReasonPreempting, Message: said}
		p.sched.gangs.SetVerdict(key, v)
		p.sched.reporter.say(key, v)
	}
	p.sched.turns.Decided(key)
	p.sched.waits.WaitUntil(key, engine.Retry, ends)
	return p.show(key, pod, p.sched.reserved.NodeOf(pod.UID)), fwk.NewStatus(fwk.Success, "preemption: "+said)
}
