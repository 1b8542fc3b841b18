package scheduling

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestGangTakesTheLeastImportant tests a gang that needs three of five nodes. The running groups
// have three different priorities. The groups of the lowest priority must be evicted, and of the
// middle priority the youngest group. The names of the groups must not matter.
func TestGangTakesTheLeastImportant(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		"names in the order of their start":      {"b", "c", "d"},
		"names against the order of their start": {"d", "c", "b"},
	}
	each(t, cases, func(e *env, order []string) {
		e.AddNodes(4, "a", "b", "c", "d", "e")
		run := func(node, priority string) {
			e.runningGang(stage.Group{Name: node, MinCount: 2, Whole: true, Priority: priority}, 2, podSpec{cpus: 2, on: node})
		}
		run("e", "high")
		for _, node := range order {
			run(node, "mid")
			e.Eventually("it has started, a second ago", func(ctx context.Context) string {
				started := startOf(e.PodGroup(ctx, node))
				// Times in the API are rounded to seconds, so wait for the next second.
				if now := time.Now(); started == nil || now.Unix() <= started.Unix() {
					return fmt.Sprintf("it is %s, and started %s", now, started)
				}
				return ""
			})
		}
		run("a", "low")
		e.gang(stage.Group{Name: "urgent", MinCount: 3, Priority: "higher"}, 3, podSpec{cpus: 4})
		e.waitBound("urgent", 3)
		e.leftAre("e", order[0])
	})
}

// leftAre checks that exactly the groups in want remain, with all members. The name of a group is
// the name of its node.
func (e *env) leftAre(want ...string) {
	e.Helper()
	slices.Sort(want)
	e.Never("no more than the others are taken", func(ctx context.Context) string {
		var left []string
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			switch n := e.bound(ctx, name); n {
			case 0:
			case 2:
				left = append(left, name)
			default:
				return fmt.Sprintf("%d of %s are left", n, name)
			}
		}
		if !slices.Equal(left, want) {
			return fmt.Sprintf("%v are left, want %v", left, want)
		}
		return ""
	})
}

// TestWholeGroupsUnderABudget checks that a PodDisruptionBudget counts all members of a group that
// is evicted as a whole.
func TestWholeGroupsUnderABudget(t *testing.T) {
	t.Parallel()
	type budget struct {
		guarded      []string
		minAvailable int32
		want         string
	}
	cases := map[string]budget{
		"one of two groups":                    {guarded: []string{"a"}, minAvailable: 2, want: "a"},
		"the other one":                        {guarded: []string{"b"}, minAvailable: 2, want: "b"},
		"a budget that one member would leave": {guarded: []string{"a"}, minAvailable: 1, want: "a"},
		"both, where there is no choice":       {guarded: []string{"a", "b"}, minAvailable: 4},
	}
	each(t, cases, func(e *env, c budget) {
		e.AddNodes(4, "a", "b")
		for _, node := range []string{"a", "b"} {
			pod := podSpec{cpus: 2, on: node, labels: map[string]string{}}
			if slices.Contains(c.guarded, node) {
				pod.labels["guarded"] = "yes"
			}
			e.runningGang(stage.Group{Name: node, MinCount: 2, Whole: true, Priority: "low"}, 2, pod)
		}
		e.guard(c.minAvailable, int32(2*len(c.guarded)))
		e.gang(stage.Group{Name: "urgent", MinCount: 2, Priority: "high"}, 2, podSpec{cpus: 1})
		e.waitBound("urgent", 2)
		if c.want == "" {
			e.WaitEvent("PodGroup/urgent", "Preempting", "2 evictions break a disruption budget")
			if left := e.bound(e.Context(), "a") + e.bound(e.Context(), "b"); left != 2 {
				e.Errorf("%d members are left, want one group of two", left)
			}
			return
		}
		e.leftAre(c.want)
		e.WaitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
	})
}

// guard creates a PodDisruptionBudget for the pods with the label "guarded". It waits until the
// budget's status counts "healthy" pods, and until the scheduler has cached the budget.
func (e *env) guard(minAvailable, healthy int32) {
	e.Helper()
	e.Create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "guard"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(minAvailable)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"guarded": "yes"}},
		},
	})
	e.KnowsBudget("guard", healthy)
}
