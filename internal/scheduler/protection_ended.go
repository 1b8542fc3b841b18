package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// protectionEnded retries workloads that wait for the end of a protection, after a protection has
// ended before its time.
func (h *Scheduler) protectionEnded() { h.ended(engine.Protection) }

// runsDelay is the time after the start of a member until the framework usually knows that the
// member runs.
const runsDelay = 200 * time.Millisecond

// runsOn retries workloads that wait for the end of a protection after a member of a group has
// started. It does so if more members run than the group needs: surplus has no min-runtime.
func (h *Scheduler) runsOn(key types.NamespacedName) {
	if !h.waits.Awaits(engine.Protection) {
		return
	}
	if g, ok := h.groups.Group(key); !ok || !g.IsGang() || h.goesWhole(g) || h.running(key) <= h.countsBy(g) {
		return
	}
	// The framework learns of the member from the same informer, possibly later. A decision before
	// that does not count the member as running, and no other event would cause a retry.
	soon := h.clock.Now().Add(runsDelay)
	for _, key := range retriedBy(h.step(engine.CauseEnds{Cause: engine.Protection})) {
		h.waits.Gather(key, soon)
	}
}

// countsBy returns the number of running members that a group needs: the current minCount, or the
// minCount in the members' seals if that is lower. Further members are surplus.
func (h *Scheduler) countsBy(g *gang.Group) int {
	if sealed := h.runs.Current(g, h.clock.Now()).Sealed; sealed.Known {
		return min(g.MinCount, sealed.MinCount)
	}
	return g.MinCount
}

// running counts the running members of a group that do not terminate.
func (o *placements) running(key types.NamespacedName) int {
	running := 0
	for _, pod := range o.members(key).Assigned {
		if pod.Status.Phase == corev1.PodRunning {
			running++
		}
	}
	return running
}
