package scheduling

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestStartTime checks that the start time of a PodGroup is the time since which minCount members
// have run together. While fewer members run, the PodGroup must have no start time.
func TestStartTime(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testStartTime)
}

func testStartTime(e *env) {
	start := func(ctx context.Context) *metav1.Time { return startOf(e.PodGroup(ctx, "g")) }
	e.AddNodes(4, "a")
	e.CreateGroup(stage.Group{Name: "g", MinCount: 2})
	e.create(podSpec{name: "g-0", group: "g", cpus: 2})
	e.waitNoStart("g")
	e.create(podSpec{name: "g-1", group: "g", cpus: 2})
	e.waitRunning("g-0", "g-1")
	e.Eventually("the group has started", func(ctx context.Context) string {
		if start(ctx) == nil {
			return "it has not"
		}
		return ""
	})
	first := start(e.Context())
	e.remove("g-0")
	e.waitNoStart("g")
	e.create(podSpec{name: "g-2", group: "g", cpus: 2})
	e.Eventually("the group has started anew", func(ctx context.Context) string {
		if at := start(ctx); at == nil || at.Before(first) {
			return fmt.Sprintf("it started at %v, and at %v before", at, first)
		}
		return ""
	})
	e.remove("g-1")
	e.remove("g-2")
	e.waitNoStart("g")
}

// waitNoStart waits until a PodGroup has conditions and no start time.
func (e *env) waitNoStart(group string) {
	e.Helper()
	e.Eventually("PodGroup "+group+" has not started", func(ctx context.Context) string {
		pg := e.PodGroup(ctx, group)
		if len(stage.ConditionsOf(pg)) == 0 {
			return "it has no status"
		}
		if at := startOf(pg); at != nil {
			return "it has, at " + at.String()
		}
		return ""
	})
}

func TestPodsOfAnotherPriority(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testPodsOfAnotherPriority)
}

func testPodsOfAnotherPriority(e *env) {
	e.AddNodes(4, "a")
	e.CreateGroup(stage.Group{Name: "g", MinCount: 1, Priority: "mid"})
	e.createRunning(
		podSpec{name: "same", group: "g", cpus: 1, priority: "mid"},
		podSpec{name: "odd", group: "g", cpus: 1, priority: "low"},
	)
	e.WaitCondition("g", v1alpha1.ConditionPodsNotMatchingPriority, metav1.ConditionTrue,
		v1alpha1.ReasonPodsNotMatchingPriority, "odd", "500")
	e.remove("odd")
	e.WaitCondition("g", v1alpha1.ConditionPodsNotMatchingPriority, metav1.ConditionFalse, v1alpha1.ReasonPodsMatchingPriority)
}
