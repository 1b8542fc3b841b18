package scheduler

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// State returns the current inputs of decisions. nodes is a snapshot of the scheduler's cache that
// the caller took for this call. State builds a separate core snapshot, which takes about as long
// as the first decision of a scheduler. It blocks scheduling cycles only briefly, while it holds
// locks. Any goroutine may call it.
func (h *Scheduler) State(nodes []fwk.NodeInfo) (snapshot.State, error) {
	budgets, err := h.handle.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return snapshot.State{}, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	fresh := snapshot.NewCache(h.sources.all())
	if err := fresh.Level(nodes, budgets); err != nil {
		return snapshot.State{}, err
	}
	state := fresh.State(h.nominations.allReservations())
	state.Time = h.clock.Now().UTC()
	return state, nil
}

// allReservations returns the reservations of all workloads, and the framework's nominations of
// pods without a reservation.
func (nm *nominations) allReservations() []snapshot.RankedRoom {
	var out []snapshot.RankedRoom
	seen := sets.New[types.UID]()
	for node, reserved := range nm.reserved.Nodes() {
		for _, r := range reserved {
			if seen.Has(types.UID(r.UID)) {
				// The reservation has moved to this node during the loop, and is in the result
				// already.
				continue
			}
			seen.Insert(types.UID(r.UID))
			out = append(out, snapshot.RankedRoom{ReservedRoom: snapshot.ReservedRoom{Pod: cluster.PodInfoIn(r), Node: node, Queue: r.Queue}, Priority: r.Priority, Reserved: true})
		}
	}
	for node := range nm.ledger.NominatedNodes() {
		for _, nominated := range nm.nominatedOn(node) {
			pod := nominated.GetPod()
			if seen.Has(pod.UID) {
				continue
			}
			seen.Insert(pod.UID)
			standing := nm.ledger.StandingOf(pod)
			out = append(out, snapshot.RankedRoom{ReservedRoom: snapshot.ReservedRoom{Pod: nominated, Node: node, Queue: standing.Queue}, Priority: standing.Priority})
		}
	}
	return out
}
