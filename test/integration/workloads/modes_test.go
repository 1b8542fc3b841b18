package workloads

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// heldVictims creates running pods with two CPUs. They have a finalizer, so they exist after their
// deletion.
func (e *env) heldVictims(count int) (names []string) {
	e.Helper()
	for i := range count {
		pod := stage.NewPod(e.Namespace, fmt.Sprintf("victim-%d", i), "low", 2)
		stage.Hold(pod)
		e.Create(pod)
		names = append(names, pod.Name)
	}
	e.Runs("victim-", count)
	return names
}

// leave waits until the named pods are terminating.
func (e *env) leave(names ...string) {
	e.Helper()
	e.Eventually(fmt.Sprintf("%v are to leave", names), func(ctx context.Context) string {
		for _, name := range names {
			if pod := e.Find(ctx, name); pod == nil || pod.DeletionTimestamp == nil {
				return name + " is not"
			}
		}
		return ""
	})
}

func (e *env) remove(names ...string) {
	e.Helper()
	for _, name := range names {
		if err := e.Kube.CoreV1().Pods(e.Namespace).Delete(e.Context(), name, metav1.DeleteOptions{}); err != nil {
			e.Fatalf("delete pod %s: %v", name, err)
		}
		e.Gone(name)
	}
}

// testModeOfUnion tests disruption modes in the form of an object. With "all", the members must be
// evicted together, including surplus members. With "single" or without a mode, only as many
// members as necessary must be evicted.
func testModeOfUnion(e *env) {
	all, single := map[string]any{"all": map[string]any{}}, map[string]any{"single": map[string]any{}}
	cases := map[string]struct {
		mode     map[string]any
		byGang   int64
		wantLeft int
	}{
		"all, by a pod":         {mode: all},
		"all, by a gang":        {mode: all, byGang: 2},
		"single, by a pod":      {mode: single, wantLeft: 3},
		"single, by a gang":     {mode: single, byGang: 2, wantLeft: 2},
		"none given, by a pod":  {wantLeft: 3},
		"none given, by a gang": {byGang: 2, wantLeft: 2},
	}
	for name, c := range cases {
		e.T.Run(name, func(t *testing.T) {
			t.Parallel()
			e := e.in(t)
			e.AddNodes(4, "a", "b")
			spec := map[string]any{"priorityClassName": "low"}
			if c.mode != nil {
				spec["disruptionMode"] = c.mode
			}
			e.podGroup("victims", 3, spec)
			for i := range 4 {
				e.member(fmt.Sprintf("victims-%d", i), "victims", "", "low", 2, stage.Hold)
			}
			e.Runs("victims-", 4)
			e.preempt(c.byGang)
			e.taken("victims", 4, c.wantLeft)
		})
	}
}

// preempt creates a preemptor: a single pod, or a gang of pods. Each pod requests two CPUs.
func (e *env) preempt(gang int64) {
	e.Helper()
	if gang == 0 {
		e.Create(stage.NewPod(e.Namespace, "urgent", "high", 2))
		return
	}
	e.group("urgent", gang, "high")
	e.members("urgent", "high", 0, int(gang))
}

// taken waits until only wantLeft members of a group are not terminating. It removes the finalizers
// of the others, and checks the status of the group.
func (e *env) taken(group string, members, wantLeft int) {
	e.Helper()
	e.Eventually(fmt.Sprintf("%d of %d members stay", wantLeft, members), func(ctx context.Context) string {
		if left := len(e.Pods(ctx, group+"-")); left != wantLeft {
			return fmt.Sprintf("%d do", left)
		}
		return ""
	})
	told := []string{e.Namespace + "/urgent", "priority 1000", "LowerPriority"}
	if wantLeft == 0 {
		e.WaitCondition(group, v1alpha1.ConditionDisruptionTarget, metav1.ConditionTrue, v1alpha1.ReasonPreemptionByScheduler, told...)
	}
	for i := range members {
		e.LetGo(fmt.Sprintf("%s-%d", group, i))
	}
	e.Eventually("the preemptor runs", func(ctx context.Context) string {
		for _, pod := range e.Pods(ctx, "urgent") {
			if pod.Status.Phase != corev1.PodRunning {
				return pod.Name + " does not"
			}
		}
		return ""
	})
	e.Never("no more are taken", func(ctx context.Context) string {
		if left := len(e.placed(ctx, group+"-")); left != wantLeft {
			return fmt.Sprintf("%d of %d are left", left, wantLeft)
		}
		return ""
	})
	if wantLeft == 0 {
		e.WaitCondition(group, v1alpha1.ConditionDisruptionTarget, metav1.ConditionFalse, v1alpha1.ReasonPreemptionByScheduler)
	} else if c := e.Condition(e.Context(), group, v1alpha1.ConditionDisruptionTarget); c != nil {
		e.Errorf("the group is not taken, and has the condition %v", c)
	}
}
