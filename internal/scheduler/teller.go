package scheduler

import (
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// teller has pods that wait say why: members of gangs that have no cycle of their own, pods that may not be in their queue, and work
// that waits for its turn. [Hub.run] calls it; what there is to tell, any goroutine may add.
type teller struct {
	*books
	waits *admission.List
	// telling has what members of gangs say of themselves, and statuses writes it.
	telling
	statuses Statuses
	// keptOff has the single pods that may not be in their queue, and what they say of that.
	keptOff keptOff
	metrics *metrics.Metrics
	clock   clock.PassiveClock
}
