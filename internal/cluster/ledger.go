package cluster

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/leaving"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Ledger knows the queue of each pod, the usage and limits of the queues, and the reservations. It
// follows the pods, but retries no workload and writes nothing to the API. It is safe for
// concurrent use.
type Ledger struct {
	index      *Index
	placements *Placements
	gangs      *engine.Gangs
	leaving    *leaving.Pods
	records    *engine.Pods
	// quotas is the quota ledger.
	quotas *queue.Ledger
	// charging is held while a pod is charged to quotas.
	charging sync.Mutex
	// groupStates is held while the state of a group is written to quotas.
	groupStates sync.Mutex
	// reserved holds the reservations of all pods.
	reserved *engine.Reservations
	// engine has the pauses of preemptors.
	engine *engine.Engine
	clock  clock.PassiveClock
	dips   Dips
}

// Dips remembers nodes that offer less for a short time.
type Dips interface {
	// Without returns a node with the resources and taints from before its dips.
	Without(node *corev1.Node) *corev1.Node
}

// NewLedger returns the Ledger for placements. e has the reservations, and the pauses of
// preemptors.
func NewLedger(placements *Placements, e *engine.Engine, quotas *queue.Ledger, dips Dips) *Ledger {
	return &Ledger{
		index: placements.index, placements: placements, gangs: e.Gangs, leaving: placements.leaving, records: e.Pods,
		quotas: quotas, reserved: e.Reservations, engine: e, clock: placements.clock, dips: dips,
	}
}

// BacksOff reports whether a workload must not preempt yet. The reason is that it could not be
// bound after earlier preemptions, or that it crashed.
func (b *Ledger) BacksOff(key workload.Key) bool {
	_, paused := b.engine.Pause(key, b.clock.Now())
	return paused
}

// NominatedNodes returns the nodes that pods without a reservation are nominated to. Asking the
// framework instead would copy all nominated pods of each node.
func (b *Ledger) NominatedNodes() sets.Set[string] {
	out := sets.New[string]()
	for uid, node := range b.records.Nominated() {
		if !b.reserved.Has(uid) {
			out.Insert(node)
		}
	}
	return out
}

// PodInfoIn returns the PodInfo of a reservation's pod.
func PodInfoIn(r *engine.Reservation) fwk.PodInfo {
	info, _ := r.Pod.(fwk.PodInfo)
	return info
}

// PodIn returns the pod of a reservation. The informer may have a newer version of the pod.
func PodIn(r *engine.Reservation) *corev1.Pod { return PodInfoIn(r).GetPod() }
