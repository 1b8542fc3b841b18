package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// protectionEnded retries workloads that wait for the end of a protection. It is called when a
// protection ends earlier than expected.
func (t *retries) protectionEnded() { t.ended(engine.Protection) }

// runsDelay is the time until the framework usually knows that a started member runs.
const runsDelay = 200 * time.Millisecond

// runsOn retries workloads that wait for the end of a protection, when a member of a group has
// started. It does so only if more members run than the group needs, because the surplus has no
// min-runtime.
func (h *Scheduler) runsOn(key types.NamespacedName) {
	if !h.waits.Awaits(engine.Protection) {
		return
	}
	if g, ok := h.index.groups.Group(key); !ok || !g.IsGang() || h.goesWhole(g) || h.placements.running(key) <= h.countsBy(g) {
		return
	}
	// The framework's cache may learn of the member later than this handler. A decision before that
	// would not count the member as running, so retry the workloads again after a delay.
	soon := h.clock.Now().Add(runsDelay)
	for _, key := range retriedBy(h.steps.step(engine.CauseEnds{Cause: engine.Protection})) {
		h.waits.Gather(key, soon)
	}
}

// countsBy returns the number of running members that a group needs: its minCount, or the minCount
// in the members' seals if that is lower. All further members are surplus.
func (h *Scheduler) countsBy(g *gang.Group) int {
	if sealed := h.runs.Current(g, h.clock.Now()).Sealed; sealed.Known {
		return min(g.MinCount, sealed.MinCount)
	}
	return g.MinCount
}

// running returns the number of running members of a group, without terminating members.
func (o *placements) running(key types.NamespacedName) int {
	running := 0
	for _, pod := range o.members(key).Assigned {
		if pod.Status.Phase == corev1.PodRunning {
			running++
		}
	}
	return running
}
