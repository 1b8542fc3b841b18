package controller

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TestNeverCondition checks the condition about the disruption mode Never. The PriorityClass "high"
// sets a time, and other classes do not exist.
func TestNeverCondition(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode       v1alpha1.DisruptionMode
		class      string
		wantStatus metav1.ConditionStatus
		wantReason string
		wantSaid   string
	}{
		"another mode":  {mode: v1alpha1.DisruptionModePod, class: "high"},
		"a time":        {mode: v1alpha1.DisruptionModeNever, class: "high", wantStatus: metav1.ConditionTrue, wantReason: v1alpha1.ReasonNeverBounded, wantSaid: "60 seconds"},
		"no class":      {mode: v1alpha1.DisruptionModeNever, wantStatus: metav1.ConditionFalse, wantReason: v1alpha1.ReasonNoBound, wantSaid: "never-seconds"},
		"no such class": {mode: v1alpha1.DisruptionModeNever, class: "none", wantStatus: metav1.ConditionFalse, wantReason: v1alpha1.ReasonPriorityClassNotFound, wantSaid: "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := &v1alpha1.PodGroup{}
			pg.Spec.DisruptionMode, pg.Spec.Priority = &c.mode, ptr.To[int32](10)
			if c.class != "" {
				pg.Spec.PriorityClassName = &c.class
			}
			meta.SetStatusCondition(&pg.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionDisruptionModeNever, Status: metav1.ConditionUnknown, Reason: "Before"})
			newBench(t).status.setNever(pg, gang.FromPodGroup(pg))
			got := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionDisruptionModeNever)
			switch {
			case c.wantReason == "" && got != nil:
				t.Errorf("it says %+v", got)
			case c.wantReason == "":
			case got == nil || got.Status != c.wantStatus || got.Reason != c.wantReason || !strings.Contains(got.Message, c.wantSaid):
				t.Errorf("it says %+v, want %s, %s: %s", got, c.wantStatus, c.wantReason, c.wantSaid)
			}
		})
	}
}
