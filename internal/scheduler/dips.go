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
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/reservation"
)

// dipTime is how long a node has to offer less of a resource before its reservations are judged by
// that. A device plugin that restarts takes its devices off the node for some seconds; a
// reservation that is released meanwhile costs a second set of victims. A node that has shrunk for
// good is judged that much later.
const dipTime = 10 * time.Second

// dips are the nodes that have begun to offer less of a resource within the last dipTime. A dip
// ends when the node offers as much as before, when its time has passed, or when the node is gone.
// Make one with newDips. Any goroutine may use it.
type dips struct {
	mu    sync.Mutex
	lasts time.Duration
	nodes map[string]map[corev1.ResourceName]dip
}

// dip is a resource that a node offers less of than before.
type dip struct {
	// had is how much the node offered before.
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

// forget drops a node that is gone.
func (d *dips) forget(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nodes, node)
}

// over ends the dips whose time has passed, and returns the nodes that they were on.
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

// endOf returns when the last dip of a node ends; false for a node without any.
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

// dipUnder returns the node of a preemptor's reservation that has a dip, and when the dip ends; ""
// if the decision may be carried out. The node could fulfill the reservation before the dip, and the
// decision would release it, or evict others.
func (h *Hub) dipUnder(made *cycleDecision) (node string, ends time.Time) {
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

// rideOut keeps the reservations of a preemptor until a dip ends, in place of carrying out a
// decision that was made in it.
func (p *Plugin) rideOut(made *cycleDecision, pod *corev1.Pod, node string, ends time.Time) (*fwk.PostFilterResult, *fwk.Status) {
	key, said := made.pre.key, fmt.Sprintf("waits for node %s, which has begun to offer less", node)
	if key.Gang {
		p.hub.registry.Unplanned(nameOf(key))
		v := gang.Verdict{Reason: v1alpha1.ReasonPreempting, Message: said}
		p.hub.registry.SetVerdict(nameOf(key), v)
		p.hub.telling.say(nameOf(key), v, p.hub.clock.Now())
	}
	p.hub.waits.Decided(key)
	p.hub.waits.WaitUntil(key, admission.Retry, ends)
	if !p.hub.remains(&made.pre) {
		// Gone in its own cycle, it is forgotten already.
		p.hub.waits.Forget(key)
	}
	return p.show(key, pod, p.hub.reserved.NodeOf(pod.UID)), fwk.NewStatus(fwk.Success, "preemption: "+said)
}
