package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/runs"
)

// surplus counts the running members that a group has beyond its need. No min-runtime protects
// them, so surplus retries the workloads that may preempt them. [podWatch] calls it when a member
// starts. An eviction asks it for the number of members that the group needs. It is safe for
// concurrent use.
type surplus struct {
	index      *cluster.Index
	placements *cluster.Placements
	waits      *engine.Waits
	runs       *runs.Reader
	clock      clock.WithTicker
	steps      *stepper
}

// runsDelay is the time until the framework usually knows that a started member runs.
const runsDelay = 200 * time.Millisecond

// runsOn retries workloads that wait for the end of a protection, when a member of a group has
// started. It does so only if more members run than the group needs, because the surplus has no
// min-runtime.
func (sp *surplus) runsOn(key types.NamespacedName) {
	if !sp.waits.Awaits(engine.Protection) {
		return
	}
	if g, ok := sp.index.Groups.Group(key); !ok || !g.IsGang() || sp.goesWhole(g) || sp.placements.Running(key) <= sp.countsBy(g) {
		return
	}
	// The framework's cache may learn of the member later than this handler. A decision before that
	// moment would not count the member as running. So retry the workloads a second time, after a
	// delay.
	soon := sp.clock.Now().Add(runsDelay)
	for _, key := range retriedBy(sp.steps.step(engine.CauseEnds{Cause: engine.Protection})) {
		sp.waits.Gather(key, soon)
	}
}

// countsBy returns the number of running members that a group needs: its minCount, or the minCount
// in the members' seals if that is lower. All further members are surplus.
func (sp *surplus) countsBy(g *gang.Group) int {
	if sealed := sp.runs.Current(g, sp.clock.Now()).Sealed; sealed.Known {
		return min(g.MinCount, sealed.MinCount)
	}
	return g.MinCount
}
