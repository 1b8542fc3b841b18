package controller

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// setSealed sets a condition if the settings of the group have changed since its members were
// placed. The settings from the time of the placement stay in force for these members.
func (s *Status) setSealed(pg *v1alpha1.PodGroup, g *gang.Group, m *gang.Members, sealed *engine.Sealed) {
	st := &pg.Status
	differences := s.sealedDifferences(g, sealed)
	if len(m.Assigned) == 0 || len(differences) == 0 {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionCountsAsPlaced)
		return
	}
	meta.SetStatusCondition(&st.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionCountsAsPlaced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonChangedSincePlaced, ObservedGeneration: pg.Generation,
		Message: "members that have a node count as when they got it: " + strings.Join(differences, "; "),
	})
}

// sealedDifferences lists the settings that were recorded when the members were placed and that
// differ from the group's present settings.
func (s *Status) sealedDifferences(g *gang.Group, sealed *engine.Sealed) (out []string) {
	if !sealed.Known {
		return nil
	}
	if sealed.Queue != "" {
		switch now := s.queues.QueueNamedByGroup(g); now {
		case sealed.Queue:
		case "":
			out = append(out, fmt.Sprintf("in Queue %q, and the PodGroup names none", sealed.Queue))
		default:
			out = append(out, fmt.Sprintf("in Queue %q, not %q", sealed.Queue, now))
		}
	}
	if g.Priority != nil && *g.Priority > sealed.Priority {
		out = append(out, fmt.Sprintf("with priority %d, not %d", sealed.Priority, *g.Priority))
	}
	if g.MinCount > sealed.MinCount {
		out = append(out, fmt.Sprintf("with minCount %d, not %d", sealed.MinCount, g.MinCount))
	}
	if g.Whole && sealed.Split {
		out = append(out, "evicted one by one, not as a whole")
	}
	return out
}
