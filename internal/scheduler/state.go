package scheduler

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// State describes what decisions go by as it is now, with the nodes of a snapshot of the scheduler's own cache, which the
// caller has taken for it. It reads as a decision does, by a picture of its own: cycles go on meanwhile, and neither waits for
// the other but for the locks of what both ask. Any goroutine may call it; it costs about as much as the first decision of a
// scheduler.
func (h *Hub) State(nodes []fwk.NodeInfo) (snapshot.State, error) {
	budgets, err := h.handle.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return snapshot.State{}, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	cluster := snapshot.NewCache(h.sources())
	if err := cluster.Level(nodes, budgets); err != nil {
		return snapshot.State{}, err
	}
	state := cluster.State(h.allPromised())
	state.Time = h.clock.Now().UTC()
	return state, nil
}

// allPromised is all room that is promised, to whatever workload: reservations, and the framework's nominations of pods that
// have none.
func (h *Hub) allPromised() []snapshot.Promised {
	var out []snapshot.Promised
	seen := sets.New[types.UID]()
	for node, reserved := range h.reserved.Nodes() {
		for _, r := range reserved {
			if seen.Has(r.UID) {
				// It has been moved to this node meanwhile.
				continue
			}
			seen.Insert(r.UID)
			out = append(out, snapshot.Promised{Promise: snapshot.Promise{Pod: r.Pod, Node: node, Queue: r.Queue}, Priority: r.Priority, Reserved: true})
		}
	}
	for node := range h.nominees.Nodes(h.reserved) {
		for _, nominated := range h.handle.NominatedPodsForNode(node) {
			pod := nominated.GetPod()
			if seen.Has(pod.UID) || h.reserved.Has(pod.UID) {
				continue
			}
			seen.Insert(pod.UID)
			standing := h.standingOf(pod)
			out = append(out, snapshot.Promised{Promise: snapshot.Promise{Pod: nominated, Node: node, Queue: standing.Queue}, Priority: standing.Priority})
		}
	}
	return out
}
