package scheduler

import (
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// never returns the verdict on the disruption mode Never of a PodGroup. It is zero for other modes,
// and for a group whose priority is not resolved. Any goroutine may call it.
func (s *sources) never(g *gang.Group) gang.Verdict {
	if !g.Never || s.tolerations == nil {
		return gang.Verdict{}
	}
	workload, ok := s.WorkloadOf(g.Key)
	if !ok {
		workload = g
	}
	if g.Priority == nil || workload.Priority == nil {
		return gang.Verdict{}
	}
	class := workload.PriorityClassName
	return g.ReportNever(s.index.Trees.FlawOfNever(g), class, s.tolerations.BoundOf(class), snapshot.PlacedWithNever(s.Placed(g.Key)))
}

// NeverOf returns the verdict on the disruption mode Never of a PodGroup. It is zero for other
// modes.
func (h *Scheduler) NeverOf(g *gang.Group) gang.Verdict { return h.sources.never(g) }
