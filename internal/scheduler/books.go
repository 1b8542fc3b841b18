package scheduler

import (
	"sync"

	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/reservation"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// books says which queue work counts for, what the queues have and may have, and what is promised beside that. It keeps them level
// with the pods; it wakes no workload and writes nothing. Any goroutine may ask it.
type books struct {
	*occupancy
	// board has the books of the queues; charging is held while they are told of a pod, and groupStates of how a group stands.
	board                 *queue.Board
	charging, groupStates sync.Mutex
	// reserved is the room that is promised to pods which have been planned or nominated.
	reserved *reservation.Book
	// backsOff reports whether a workload may preempt nothing yet, because it could not be bound after earlier preemptions.
	backsOff func(workload.Key) bool
	// dips are the nodes that may offer less for a moment only.
	dips *dips
}
