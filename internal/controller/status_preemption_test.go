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

// TestPreemptionPriorityCondition checks the condition about preemptionPriorityClassName. The only
// PriorityClass is "high", with value 100.
func TestPreemptionPriorityCondition(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		class      string
		priority   int32
		wantStatus metav1.ConditionStatus
		wantReason string
		wantSaid   string
	}{
		"no class":          {},
		"a higher class":    {class: "high", priority: 10, wantStatus: metav1.ConditionTrue, wantReason: v1alpha1.ReasonPreemptionPriorityCounts, wantSaid: "counts as priority 100"},
		"a lower class":     {class: "high", priority: 200, wantStatus: metav1.ConditionFalse, wantReason: v1alpha1.ReasonBelowPriority, wantSaid: "priority 200 counts"},
		"no such class":     {class: "none", wantStatus: metav1.ConditionFalse, wantReason: v1alpha1.ReasonPriorityClassNotFound, wantSaid: "does not exist"},
		"one of the system": {class: "system-node-critical", wantStatus: metav1.ConditionFalse, wantReason: v1alpha1.ReasonSystemClass, wantSaid: "work of the system"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := &v1alpha1.PodGroup{}
			pg.Spec.Priority = ptr.To(c.priority)
			meta.SetStatusCondition(&pg.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionPreemptionPriority, Status: metav1.ConditionUnknown, Reason: "Before"})
			if c.class != "" {
				pg.Spec.PreemptionPriorityClassName = &c.class
			}
			newBench(t).status.setPreemptionPriority(pg, gang.FromPodGroup(pg))
			got := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionPreemptionPriority)
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
