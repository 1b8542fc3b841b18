package scheduler

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// view is the cluster as one decision sees it.
type view struct {
	*snapshot.View
	// mark is the moment when the view was taken, for what is waited for because of it.
	mark admission.Mark
	// seen marks how groups ran at that moment.
	seen uint64
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
	p.hub.witness.Looks()
	mark := p.hub.waits.Mark()
	seen := p.hub.runs.Settle(p.hub.groups, p.hub.clock.Now())
	if err := p.hub.cluster.Level(infos, budgets); err != nil {
		return nil, err
	}
	return &view{View: p.hub.cluster.View(p.promises(pre)), mark: mark, seen: seen}, nil
}

// promises are what pods have been promised that are not on a node yet: those with a reservation, and those that the
// framework has nominated. A reservation is the last word on where a pod goes. What a preemptor need not leave counts for
// the queues all the same.
func (p *Plugin) promises(pre *preemptor) []snapshot.Promise {
	var out []snapshot.Promise
	for node, reserved := range p.hub.reserved.Nodes() {
		for _, r := range reserved {
			switch {
			case p.hub.owns(pre, r.Pod.GetPod()):
			case r.KeepsFrom(pre.standing()):
				out = append(out, snapshot.Promise{Pod: r.Pod, Node: node, Queue: p.hub.queueOf(r.Pod.GetPod()), Respected: true})
			case r.Queue != "":
				out = append(out, snapshot.Promise{Pod: r.Pod, Node: node, Queue: r.Queue})
			}
		}
	}
	for node := range p.hub.nominees.Nodes(p.hub.reserved) {
		for _, nominated := range p.handle.NominatedPodsForNode(node) {
			pod := nominated.GetPod()
			if !p.hub.reserved.Has(pod.UID) && !p.hub.owns(pre, pod) && p.hub.standingOf(pod).KeepsFrom(pre.standing()) {
				out = append(out, snapshot.Promise{Pod: nominated, Node: node, Queue: p.hub.queueOf(pod), Respected: true})
			}
		}
	}
	return out
}
