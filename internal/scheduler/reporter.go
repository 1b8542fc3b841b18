package scheduler

import (
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// reporter reports to users why pods wait, in conditions and events. It reports on three kinds of
// pods: gang members without a cycle, pods that may not use their queue, and pods that wait for a
// turn. Any goroutine may add reports. The main loop writes them.
type reporter struct {
	index      *cluster.Index
	placements *cluster.Placements
	ledger     *cluster.Ledger
	gangs      *engine.Gangs
	records    *engine.Pods
	reserved   *engine.Reservations
	waits      *engine.Waits
	turns      *admission.List
	// statuses writes the conditions.
	statuses Statuses
	metrics  *metrics.Metrics
	clock    clock.PassiveClock
}
