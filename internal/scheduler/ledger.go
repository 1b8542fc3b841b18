package scheduler

import (
	"sync"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// ledger holds the queue of each pod, the usage and limits of the queues, and the reservations. It
// follows the pods, retries no workload and writes nothing to the API. It is safe for concurrent
// use.
type ledger struct {
	*placements
	// quotas is the quota ledger. The lock charging is held while a pod is charged to it.
	// groupStates is held while the state of a group is written to it.
	quotas                *queue.Ledger
	charging, groupStates sync.Mutex
	// reserved holds the reservations of planned or nominated pods.
	reserved *engine.Reservations
	// backsOff reports whether a workload may not preempt yet, because it could not be bound after
	// earlier preemptions, or crashed.
	backsOff func(workload.Key) bool
	// dips has the nodes that may offer less for a short time only.
	dips *dips
}
