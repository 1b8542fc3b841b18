package scheduler

import (
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// reporter reports why pods wait, in their conditions and events. It reports on gang members
// without a cycle, pods that may not use their queue, and work that waits for its turn. Any
// goroutine may add reports. The main loop writes them.
type reporter struct {
	*ledger
	waits *engine.Waits
	turns *admission.List
	// statuses writes the reports.
	statuses Statuses
	metrics  *metrics.Metrics
	clock    clock.PassiveClock
}
