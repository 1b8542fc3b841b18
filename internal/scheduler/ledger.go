package scheduler

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

// ledger knows the queue of each pod, the usage and limits of the queues, and the reservations. It
// follows the pods, but retries no workload and writes nothing to the API. It is safe for
// concurrent use.
type ledger struct {
	index      *clusterIndex
	placements *placements
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
	// dips holds the nodes that offer less for a short time.
	dips   *dips
	engine *engine.Engine
	clock  clock.PassiveClock
}

// backsOff reports whether a workload must not preempt yet. The reason is that it could not be
// bound after earlier preemptions, or that it crashed.
func (b *ledger) backsOff(key workload.Key) bool {
	_, paused := b.engine.Pause(key, b.clock.Now())
	return paused
}

// nominatedNodes returns the nodes that pods without a reservation are nominated to. Asking the
// framework instead would copy all nominated pods of each node.
func (b *ledger) nominatedNodes() sets.Set[string] {
	out := sets.New[string]()
	for uid, node := range b.records.Nominated() {
		if !b.reserved.Has(uid) {
			out.Insert(node)
		}
	}
	return out
}

// podInfoIn returns the PodInfo of a reservation's pod.
func podInfoIn(r *engine.Reservation) fwk.PodInfo {
	info, _ := r.Pod.(fwk.PodInfo)
	return info
}

// podIn returns the pod of a reservation. The informer may have a newer version of the pod.
func podIn(r *engine.Reservation) *corev1.Pod { return podInfoIn(r).GetPod() }
