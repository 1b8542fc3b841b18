package scheduling

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestNominatedRoomIsKept checks that room reserved for a gang is not available to pods of lower or
// equal priority.
func TestNominatedRoomIsKept(t *testing.T) {
	t.Parallel()
	type testCase struct{ group, pods, thief string }
	cases := map[string]testCase{
		"from a lower priority":                     {"high", "high", "mid"},
		"from an equal priority":                    {"high", "high", "high"},
		"by the group's priority, not the pods'":    {"high", "low", "mid"},
		"by the group's priority, from an equal":    {"high", "low", "high"},
		"from one that is below the gang's pods":    {"mid", "higher", "low"},
		"from a pod of the priority of its members": {"high", "mid", "mid"},
	}
	each(t, cases, func(e *env, c testCase) {
		e.AddNodes(4, "a")
		e.createRunning(podSpec{name: "victim", cpus: 2, priority: "unrelated", change: stage.Hold}.times(2)...)
		e.gang(stage.Group{Name: "urgent", MinCount: 2, Priority: c.group}, 2, podSpec{cpus: 2, priority: c.pods})
		e.WaitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonPreempting)
		e.Eventually("both victims are leaving", func(ctx context.Context) string {
			for _, name := range []string{"victim-0", "victim-1"} {
				if pod := e.Find(ctx, name); pod == nil || pod.DeletionTimestamp == nil {
					return name + " is not"
				}
			}
			return ""
		})
		// One victim is gone. Its room is too small for the gang, but large enough for the pod
		// "thief".
		e.LetGo("victim-0")
		e.create(podSpec{name: "thief", cpus: 2, priority: c.thief})
		e.Never("the thief gets nothing", func(ctx context.Context) string {
			if pod := e.Find(ctx, "thief"); pod != nil && pod.Spec.NodeName != "" {
				return "it is on " + pod.Spec.NodeName
			}
			return ""
		})
		e.LetGo("victim-1")
		e.waitBound("urgent", 2)
		// After a member of the gang is deleted, the pod "thief" may use the room.
		e.remove("urgent-0")
		e.waitRunning("thief")
	})
}

// TestHigherPriorityTakesNominatedRoom checks that room reserved for a gang is available to pods of
// higher priority.
func TestHigherPriorityTakesNominatedRoom(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testHigherPriorityTakesNominatedRoom)
}

func testHigherPriorityTakesNominatedRoom(e *env) {
	e.AddNodes(4, "a")
	e.createRunning(podSpec{name: "victim", cpus: 2, priority: "low", change: stage.Hold}.times(2)...)
	// The pods have a higher priority than the group, but only the priority of the group matters.
	e.gang(stage.Group{Name: "urgent", MinCount: 2, Priority: "mid"}, 2, podSpec{cpus: 2, priority: "higher"})
	e.WaitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonPreempting)
	e.create(podSpec{name: "above", cpus: 2, priority: "high"})
	e.LetGo("victim-0")
	e.waitRunning("above")
	e.LetGo("victim-1")
	e.staysUnbound("urgent")
	e.remove("above")
	e.waitBound("urgent", 2)
}
