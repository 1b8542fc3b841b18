package scheduling

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

func TestGangIsPlacedWhole(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		nodes, members int
		minCount       int32
		wantBound      int
	}{
		"one member a node":              {nodes: 3, members: 3, minCount: 3, wantBound: 3},
		"two members a node":             {nodes: 2, members: 4, minCount: 4, wantBound: 4},
		"a gang of one":                  {nodes: 1, members: 1, minCount: 1, wantBound: 1},
		"surplus where it fits":          {nodes: 2, members: 4, minCount: 2, wantBound: 4},
		"surplus that does not fit":      {nodes: 1, members: 3, minCount: 1, wantBound: 2},
		"more members than minCount fit": {nodes: 2, members: 9, minCount: 3, wantBound: 4},
	}
	each(t, cases, func(e *env, c struct {
		nodes, members int
		minCount       int32
		wantBound      int
	}) {
		for i := range c.nodes {
			e.AddNodes(4, fmt.Sprint(i))
		}
		e.gang(stage.Group{Name: "g", MinCount: c.minCount}, c.members, podSpec{cpus: 2})
		e.waitBound("g", c.wantBound)
		e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
		e.Never("no more than that are bound", func(ctx context.Context) string {
			if n := e.bound(ctx, "g"); n != c.wantBound {
				return fmt.Sprintf("%d are", n)
			}
			return ""
		})
	})
}

func TestGangThatDoesNotFitWaitsWhole(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testGangThatDoesNotFitWaitsWhole)
}

func testGangThatDoesNotFitWaitsWhole(e *env) {
	e.AddNodes(4, "a", "b")
	e.gang(stage.Group{Name: "g", MinCount: 3}, 3, podSpec{cpus: 3})
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
	for i := range 3 {
		e.WaitEvent(fmt.Sprintf("g-%d", i), "FailedScheduling", "3 cpu")
	}
	e.staysUnbound("g")
	e.AddNodes(4, "c")
	e.waitBound("g", 3)
}
