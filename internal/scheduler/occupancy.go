package scheduler

import (
	"sync"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// occupancy says how the members of groups stand with their places: which have one, may still be turned back, or are on their way
// out, though the API server does not know yet. Any goroutine may ask it.
type occupancy struct {
	*roster
	registry *gang.Registry
	// leaving are the pods that are going to go, though they do not say so themselves.
	leaving leavingPods
	// records has the pods in their attempts, and those that are assumed.
	records engine.Pods
	// rejecting is held while pods are rejected at Permit, so that none is rejected by two at a time.
	rejecting sync.Mutex
}
