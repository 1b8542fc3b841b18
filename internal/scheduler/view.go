package scheduler

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// view is the cluster as one decision sees it. It is good until the next one: the snapshot shares what the
// mirror keeps.
type view struct {
	snapshot *core.Snapshot
	// byName finds the framework's nodes.
	byName map[string]listedNode
	// held are pods with a seat or nomination that the preemptor has to respect, by node. The snapshot has no
	// room for anyone else there.
	held map[string][]fwk.PodInfo
	// freed is the count of given-up seats when the view was taken.
	freed uint64
}

// look takes a view of the cycle's snapshot for a preemptor.
func (p *Plugin) look(pre *preemptor) (*view, error) {
	infos, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list nodes of the snapshot: %w", err)
	}
	budgets, err := p.budgets.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	m := p.hub.mirror
	v := &view{freed: p.hub.seats.freed.Load()}
	if err := m.level(infos, budgets); err != nil {
		return nil, err
	}
	v.byName = m.nodes
	var holds []core.Hold
	v.held, holds = p.heldFor(pre, m.nodes)
	for name, pods := range v.held {
		for _, pi := range pods {
			holds = append(holds, core.Hold{
				Node: name, Request: m.dimensions.amounts(pi.CalculateResource().Resource, 1), Queue: p.hub.queueOf(pi.GetPod()),
			})
		}
	}
	v.snapshot = m.cluster.Snapshot(holds...)
	return v, nil
}

// heldFor are the pods that are not on a node yet and that the preemptor has to leave room for: those with a
// seat, and those that the framework has nominated. A seat is the last word on where a pod goes. Of those to whom it
// has to leave none, their queues still have what they were promised: these are holds of no node.
func (p *Plugin) heldFor(pre *preemptor, nodes map[string]listedNode) (held map[string][]fwk.PodInfo, promised []core.Hold) {
	held = make(map[string][]fwk.PodInfo)
	p.hub.seats.each(func(name string, seats []*seat) {
		info := nodes[name].info
		if info == nil {
			return
		}
		for _, s := range seats {
			switch {
			case pre.owns(s.pod.GetPod()) || s.takenOn(info):
			case s.keepsFrom(pre.rank()):
				held[name] = append(held[name], s.pod)
			case s.queue != "":
				amounts := p.hub.mirror.dimensions.amounts(s.pod.CalculateResource().Resource, 1)
				promised = append(promised, core.Hold{Request: amounts, Queue: s.queue})
			}
		}
	})
	for name := range p.hub.nominees.nodes(&p.hub.seats) {
		if nodes[name].info == nil {
			continue
		}
		for _, nominated := range p.handle.NominatedPodsForNode(name) {
			pod := nominated.GetPod()
			if !p.hub.seats.has(pod.UID) && !pre.owns(pod) && p.hub.rankOf(pod).keepsFrom(pre.rank()) {
				held[name] = append(held[name], nominated)
			}
		}
	}
	return held, promised
}

// podsByUID finds pods of a node.
func (v *view) podsByUID(node string, wanted sets.Set[types.UID]) []*corev1.Pod {
	info := v.byName[node].info
	if info == nil {
		return nil
	}
	var out []*corev1.Pod
	for _, pi := range info.GetPods() {
		if pod := pi.GetPod(); wanted.Has(pod.UID) {
			out = append(out, pod)
		}
	}
	return out
}

// leavingOn are the pods that are on their way out of a node.
func (v *view) leavingOn(nodes sets.Set[string]) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range v.snapshot.Leaving {
		lp := &v.snapshot.Leaving[i]
		if pi := podOf(lp); pi != nil && nodes.Has(v.snapshot.Nodes[lp.Node].Name) {
			out = append(out, pi.GetPod())
		}
	}
	return out
}

// coreGroup is a PodGroup as the core knows it. Where the pods go one by one and by their own priorities, there is
// none.
func (h *Hub) coreGroup(key types.NamespacedName) (core.Group, bool) {
	g, ok := h.groups.Group(key)
	if !ok || g.PodPriorities && !g.Whole {
		return core.Group{}, false
	}
	var placed []*corev1.Pod
	if g.Priority == nil || g.StartTime.IsZero() {
		placed = h.placed(key)
	}
	priority, since := standingPriority(g, placed), g.StartTime
	if since.IsZero() {
		// Nobody says when it was whole, and what protects it must not do so for good.
		since = lastScheduled(placed)
	}
	out := core.Group{
		Namespace: key.Namespace, Name: key.Name, UID: string(g.UID), Priority: priority, Whole: g.Whole,
		Start: nanos(g.StartTime), Since: nanos(since), Toleration: h.tolerations.ofGroup(g, priority, since),
	}
	t := core.Tenure{Queue: h.queueOfGroup(g)}
	if !g.Whole {
		t.MinCount = int32(g.MinCount)
	}
	if t != (core.Tenure{}) {
		out.Tenure = &t
	}
	return out, true
}

func ownPriority(pod *corev1.Pod) int32 { return corev1helpers.PodPriority(pod) }
