package departures

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestOverdue tests a victim that does not terminate. Until the termination timeout, the scheduler
// must wait for it and evict no other pod. After that, a message must name the victim, and the
// scheduler must evict another pod.
func TestOverdue(t *testing.T) {
	t.Parallel()
	for kind, isGang := range map[string]bool{"a gang": true, "a pod": false} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.AddNodes(4, "a", "b")
			e.running("stuck", "low", "a", stage.Hold)
			e.running("other", "mid", "b", stage.Hold)
			e.Cleanup(e.letGo)
			e.urgent(1, isGang)
			e.Eventually("the one goes", func(ctx context.Context) string {
				if going := e.Terminating(ctx); !slices.Equal(going, []string{"stuck"}) {
					return fmt.Sprintf("%v go", going)
				}
				return ""
			})
			e.NeverFor(terminationTimeout/2, 250*time.Millisecond, "no other one goes", func(ctx context.Context) string {
				if going := e.Terminating(ctx); len(going) != 1 {
					return fmt.Sprintf("%v go", going)
				}
				return ""
			})
			named := []string{"not waited for", e.Namespace + "/stuck on " + e.NodeName("a")}
			e.WaitEvent("Pod/stuck", "TerminationOverdue", e.NodeName("a"), "urgent")
			if isGang {
				e.WaitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonPreempting, named...)
			} else {
				e.WaitsSaying("urgent-0", named...)
			}
			e.Eventually("the other one goes as well", func(ctx context.Context) string {
				if going := e.Terminating(ctx); len(going) != 2 {
					return fmt.Sprintf("%v go", going)
				}
				return ""
			})
			e.LetGo("other")
			e.Runs("urgent", 1)
			if got := e.short(e.Pod("urgent-0").Spec.NodeName); got != "b" {
				e.Errorf("It is on %s", got)
			}
		})
	}
}

// TestOverdueWithoutOtherRoom tests an overdue victim if no other room exists. The scheduler must
// release the reservation, and the preemptor's status must name the victim.
func TestOverdueWithoutOtherRoom(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.AddNodes(4, "a")
	e.running("stuck", "low", "a", stage.Hold)
	e.Cleanup(e.letGo)
	e.urgent(1, true)
	named := []string{"not waited for", e.Namespace + "/stuck on " + e.NodeName("a")}
	e.WaitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonPreempting)
	e.WaitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable, named...)
	e.Eventually("nothing is promised", func(ctx context.Context) string {
		if now := e.nominated(ctx); len(now) > 0 {
			return fmt.Sprintf("nominated are %v", now)
		}
		return ""
	})
	// The victim terminates late.
	e.LetGo("stuck")
	e.Runs("urgent", 1)
}
