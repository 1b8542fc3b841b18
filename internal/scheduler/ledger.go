package scheduler

import (
	"sync"

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
	// backsOff reports whether a workload must not preempt yet. The reason is that it could not be
	// bound after earlier preemptions, or that it crashed.
	backsOff func(workload.Key) bool
	// dips holds the nodes that offer less for a short time.
	dips *dips
}
