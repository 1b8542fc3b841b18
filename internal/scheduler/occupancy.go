package scheduler

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// occupancy says how the members of groups stand with their places: which have one, may still be turned back, or are on their way
// out, though the API server does not know yet. Any goroutine may ask it.
type occupancy struct {
	*roster
	registry *gang.Registry
	// leaving are the pods that are going to go, though they do not say so themselves.
	leaving leavingPods
	// assumed are the pods that may still be turned back.
	assumed assumedPods
	// returning are the members that have been turned back a moment ago.
	returning returning

	rejecting sync.Mutex
	// rejected are the members that were turned away at Permit and have not released their place yet.
	rejected sets.Set[types.UID]
}
