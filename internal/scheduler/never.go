package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// never returns the verdict on the disruption mode Never of a PodGroup. It is zero for other modes,
// and for a group whose priority is not resolved. Any goroutine may call it.
func (s *sources) never(g *gang.Group) gang.Verdict {
	if !g.Never || s.tolerations == nil {
		return gang.Verdict{}
	}
	flaw := s.index.Trees.FlawOfNever(g)
	workload, ok := s.WorkloadOf(g.Key)
	switch {
	case !ok:
		workload = g
	case flaw == (gang.Verdict{}) && workload.Flaw.Reason == v1alpha1.ReasonParentNotFound:
		return g.NeverWithoutParent(workload.Flaw)
	}
	if g.Priority == nil || workload.Priority == nil {
		return gang.Verdict{}
	}
	placed := s.Placed(g.Key)
	return g.ReportNever(flaw, s.boundsOf(workload.PriorityClassName, placed), snapshot.PlacedWithNever(placed))
}

// boundsOf returns the effects of PriorityClasses on the disruption mode Never. The given class
// comes first. The other classes that pods were placed with follow, by name.
func (s *sources) boundsOf(class string, placed []*corev1.Pod) []gang.Bound {
	others := sets.New[string]()
	for _, pod := range placed {
		if seal, ok := gang.SealOf(pod); ok && seal.Class != class {
			others.Insert(seal.Class)
		}
	}
	out := []gang.Bound{s.tolerations.BoundOf(class)}
	for _, other := range sets.List(others) {
		out = append(out, s.tolerations.BoundOf(other))
	}
	return out
}

// NeverOf returns the verdict on the disruption mode Never of a PodGroup. It is zero for other
// modes.
func (h *Scheduler) NeverOf(g *gang.Group) gang.Verdict { return h.sources.never(g) }
