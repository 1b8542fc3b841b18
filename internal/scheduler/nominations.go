package scheduler

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// nominations say where the pods of a preemptor are expected. What the framework writes at the end of the cycle
// is the nomination of the pod that is in it; nil for none.
func (p *Plugin) nominations(pre *preemptor, nodes map[types.UID]string, inCycle *corev1.Pod) []Nomination {
	var out []Nomination
	for _, pod := range pre.pods {
		// Newer than what the cycle started with.
		now, err := p.hub.pods.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || now.UID != pod.UID || now.Spec.NodeName != "" {
			continue
		}
		out = append(out, Nomination{
			Pod: now, Node: nodes[pod.UID],
			ByFramework: inCycle != nil && inCycle.UID == pod.UID && (nodes[pod.UID] == "" || !p.hub.overstates(pod)),
		})
	}
	return out
}

// overstates reports whether a pod's own priority is above the one that counts for it. The framework compares
// nominations by the pods' own: it would keep the room from pods that may have it.
func (h *Hub) overstates(pod *corev1.Pod) bool {
	return corev1helpers.PodPriority(pod) > h.priorityOf(pod)
}

// overstatedPods are pending pods whose nomination in the API overstates their priority, by node. The zero
// value is ready to use, and safe for concurrent use.
type overstatedPods struct {
	mu    sync.Mutex
	nodes map[types.UID]string
}

// see takes over the nomination of a pod; "" for none.
func (o *overstatedPods) see(uid types.UID, node string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if node == "" {
		delete(o.nodes, uid)
		return
	}
	if o.nodes == nil {
		o.nodes = make(map[types.UID]string)
	}
	o.nodes[uid] = node
}

func (o *overstatedPods) each(do func(uid types.UID, node string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for uid, node := range o.nodes {
		do(uid, node)
	}
}

// hush takes back in memory the nominations that overstate a priority, which the framework takes over from the
// API whenever a pod changes. Seats keep the room. It reports whether there were any.
func (h *Hub) hush() (found bool) {
	h.overstated.each(func(uid types.UID, node string) {
		for _, nominated := range h.handle.NominatedPodsForNode(node) {
			if pod := nominated.GetPod(); pod.UID == uid {
				h.handle.DeleteNominatedPodIfExists(pod)
				found = true
			}
		}
	})
	return found
}

// seeNomination follows what the API says of a pod.
func (h *Hub) seeNomination(pod *corev1.Pod) {
	h.nominees.see(pod)
	node := pod.Status.NominatedNodeName
	if pod.Spec.NodeName != "" || !h.overstates(pod) {
		node = ""
	}
	h.overstated.see(pod.UID, node)
}

// displace takes back what has been promised on the preemptor's nodes to those who do not keep it from it, so that they look for
// another place at once. Those whose own calls are under way do when these are over.
func (p *Plugin) displace(ctx context.Context, pre *preemptor, nodes map[types.UID]string) {
	used := sets.New[string]()
	for _, node := range nodes {
		used.Insert(node)
	}
	for _, o := range p.hub.seats.yielding(used, pre.rank()) {
		if o != pre.owner && !p.hub.isEvicting(o) {
			p.hub.displace(ctx, o, "a preemptor of a higher priority takes a node of its plan")
		}
	}
	for node := range p.hub.nominees.nodes(&p.hub.seats).Intersection(used) {
		for _, nominated := range p.handle.NominatedPodsForNode(node) {
			pod := nominated.GetPod()
			if p.hub.seats.has(pod.UID) || pre.owns(pod) || p.hub.rankOf(pod).keepsFrom(pre.rank()) {
				continue
			}
			p.handle.DeleteNominatedPodIfExists(pod)
			p.hub.evictor.Nominate(ctx, []Nomination{{Pod: pod}})
			p.hub.wake(p.hub.ownerOf(pod))
		}
	}
}

// displace gives up all that is kept for an owner, and has it try again.
func (h *Hub) displace(ctx context.Context, o owner, why string) {
	var none []Nomination
	for _, s := range h.seats.of(o) {
		h.handle.DeleteNominatedPodIfExists(s.pod.GetPod())
		if pod, err := h.pods.Pods(o.Namespace).Get(s.pod.GetPod().Name); err == nil && pod.UID == s.uid && pod.Spec.NodeName == "" {
			none = append(none, Nomination{Pod: pod})
		}
	}
	if o.gang && h.registry.Planned(o.NamespacedName) > 0 {
		h.release(o.NamespacedName, nil, why)
	}
	h.keep(o, nil)
	h.awaited.forget(o)
	h.evictor.Nominate(ctx, none)
	h.wake(o)
}
