package tenants

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// forbidHigh creates a ResourceQuota that forbids pods of class high.
func (e *env) forbidHigh() {
	e.Helper()
	e.Create(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "no-high"},
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")},
			ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
				ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"high"},
			}}},
		},
	})
}

// TestClassesWithoutPolicies tests PodGroups with a priority that their pods may not have, without
// admission policies. A ResourceQuota forbids pods of class high, but the scheduler reads no
// ResourceQuota. The maxPriorityClass of the queue must still gate each of these gangs, and it must
// evict no work.
func TestClassesWithoutPolicies(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		// create creates the PodGroup greedy in a queue, or a tree with that part.
		create   func(e *env, queue string)
		priority int
	}{
		"a class that a quota forbids": {func(e *env, queue string) {
			e.do(e.edit.Create(e.Context(), e.group("greedy", "high", queue, 1)))
		}, 1000},
		"a class of the system": {func(e *env, queue string) {
			e.do(e.edit.Create(e.Context(), e.group("greedy", "system-node-critical", queue, 1)))
		}, 2_000_001_000},
		"a class of the system in a tree": {func(e *env, queue string) {
			tree := e.tree("tree", "system-node-critical")
			e.do(e.edit.Create(e.Context(), tree))
			part := e.group("greedy", "system-node-critical", queue, 1)
			part.Spec.ParentCompositePodGroupName = &tree.Name
			e.do(e.edit.Create(e.Context(), part))
		}, 2_000_001_000},
		"a priority without a class": {func(e *env, queue string) {
			pg := e.group("greedy", "low", queue, 1)
			pg.Spec.Priority = ptr.To[int32](1_000_000)
			e.do(e.edit.Create(e.Context(), pg))
		}, 1_000_000},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := newUnguarded(t)
			e.AddNodes(4, "a")
			e.forbidHigh()
			e.running("work", "low", "a", 1)
			e.Eventually("a pod of class high is refused", func(ctx context.Context) string {
				err := e.created(newPodOn(e, "high", "high", "a"))(ctx)
				if err == nil || !strings.Contains(err.Error(), "exceeded quota: no-high") {
					return fmt.Sprintf("the answer is %v", err)
				}
				return ""
			})
			tc.create(e, e.queue("team", v1alpha1.QueueSpec{MaxPriorityClass: ptr.To("mid")}))
			e.pod("greedy-0", "low", "a", inGroup("greedy"))
			e.WaitCondition("greedy", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonPriorityAboveQueue,
				fmt.Sprintf("priority %d is above 500", tc.priority))
			e.Never("work is evicted", func(ctx context.Context) string {
				if got := e.Terminating(ctx); len(got) > 0 || e.Find(ctx, "work") == nil {
					return fmt.Sprintf("%v terminate", got)
				}
				return ""
			})
		})
	}
}
