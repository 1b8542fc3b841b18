package scheduling

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestNominatedRoomIsKept: others of lower or equal priority cannot take what is being freed for a gang.
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
		e.addNodes(4, "a")
		held := func(pod *corev1.Pod) { pod.Finalizers = []string{finalizer} }
		e.createRunning(podSpec{name: "victim", cpus: 2, priority: "unrelated", change: held}.times(2)...)
		e.t.Cleanup(func() { e.dropFinalizers("victim-0", "victim-1") })
		e.gang(groupSpec{name: "urgent", minCount: 2, priority: c.group}, 2, podSpec{cpus: 2, priority: c.pods})
		e.waitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonPreempting)
		e.eventually("both victims are leaving", func(ctx context.Context) string {
			for _, name := range []string{"victim-0", "victim-1"} {
				if pod := e.pod(ctx, name); pod == nil || pod.DeletionTimestamp == nil {
					return name + " is not"
				}
			}
			return ""
		})
		// Half of the room is free now: too little for the gang, enough for the thief.
		e.dropFinalizers("victim-0")
		e.create(podSpec{name: "thief", cpus: 2, priority: c.thief})
		e.never("the thief gets nothing", func(ctx context.Context) string {
			if pod := e.pod(ctx, "thief"); pod != nil && pod.Spec.NodeName != "" {
				return "it is on " + pod.Spec.NodeName
			}
			return ""
		})
		e.dropFinalizers("victim-1")
		e.waitBound("urgent", 2)
		// The room that the gang leaves is the thief's.
		e.remove("urgent-0")
		e.waitRunning("thief")
	})
}

// TestHigherPriorityTakesNominatedRoom: what is kept for a gang is not kept from those above it.
func TestHigherPriorityTakesNominatedRoom(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testHigherPriorityTakesNominatedRoom)
}

func testHigherPriorityTakesNominatedRoom(e *env) {
	t := e.t
	e.addNodes(4, "a")
	held := func(pod *corev1.Pod) { pod.Finalizers = []string{finalizer} }
	e.createRunning(podSpec{name: "victim", cpus: 2, priority: "low", change: held}.times(2)...)
	t.Cleanup(func() { e.dropFinalizers("victim-0", "victim-1") })
	// The pods' own priority is above everyone's; the group's is what counts.
	e.gang(groupSpec{name: "urgent", minCount: 2, priority: "mid"}, 2, podSpec{cpus: 2, priority: "higher"})
	e.waitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonPreempting)
	e.create(podSpec{name: "above", cpus: 2, priority: "high"})
	e.dropFinalizers("victim-0")
	e.waitRunning("above")
	e.dropFinalizers("victim-1")
	e.staysUnbound("urgent")
	e.remove("above")
	e.waitBound("urgent", 2)
}
