package cluster

import (
	"sync"

	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/leaving"
)

// Placements holds the state of pods that the API server does not show yet. For example, a member
// may be assumed on a node, returning to the queue, or about to terminate. placements also knows
// why a group or its member is blocked, apart from queues and drivers. It is safe for concurrent
// use.
type Placements struct {
	index *Index
	// gangs holds the engine's records of groups.
	gangs *engine.Gangs
	// leaving holds the pods that will terminate although their objects do not show it yet.
	leaving *leaving.Pods
	// records holds the scheduling attempts of pods, and the assumed pods.
	records *engine.Pods
	clock   clock.PassiveClock
	// Rejecting is held while pods at Permit are rejected, so that no pod is rejected twice.
	Rejecting sync.Mutex
}

// NewPlacements returns the Placements of the pods in an Index. e has the records of their
// scheduling, and leaving the pods that will terminate.
func NewPlacements(index *Index, e *engine.Engine, leaving *leaving.Pods, clk clock.PassiveClock) *Placements {
	return &Placements{index: index, gangs: e.Gangs, records: e.Pods, leaving: leaving, clock: clk}
}
