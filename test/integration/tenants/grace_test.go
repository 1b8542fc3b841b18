package tenants

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestLongGraceOfATenant checks a running pod that its owner deletes with a grace period of 31
// years. The pod runs on. A preemptor waits for it for a bounded time, and then takes other room.
// The pod stays in the usage of its queue.
func TestLongGraceOfATenant(t *testing.T) {
	t.Parallel()
	for kind, isGang := range map[string]bool{"a gang": true, "a pod": false} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.AddNodes(4, "a", "b")
			team := e.queue("team", v1alpha1.QueueSpec{})
			e.running("stuck", "low", "a", 1, func(pod *corev1.Pod) { pod.Labels[v1alpha1.LabelQueue] = team })
			e.running("other", "mid", "b", 1)
			if err := e.tenant.CoreV1().Pods(e.Namespace).Delete(e.Context(), "stuck", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](years)}); err != nil {
				t.Fatal(err)
			}
			e.terminating("stuck")
			e.urgent(isGang)
			e.NeverFor(maxGracePeriod/2, 250*time.Millisecond, "another pod is evicted", func(ctx context.Context) string {
				if got := e.Terminating(ctx); !slices.Equal(got, []string{"stuck"}) {
					return fmt.Sprintf("%v terminate", got)
				}
				return ""
			})
			e.WaitEvent("Pod/stuck", "TerminationOverdue", "longer than maxGracePeriod (15s)", "urgent")
			e.Runs("urgent", 1)
			if got := e.Pod("urgent").Spec.NodeName; got != e.NodeName("b") {
				e.Errorf("The preemptor is on %s", got)
			}
			if pod := e.Pod("stuck"); pod.Status.Phase != corev1.PodRunning {
				e.Errorf("The pod is %s; the test needs one that runs on", pod.Status.Phase)
			}
			e.Eventually("the pod is in the usage and the demand of its queue", func(ctx context.Context) string {
				var now v1alpha1.Queue
				if err := e.Objects.Get(ctx, types.NamespacedName{Name: team}, &now); err != nil {
					return err.Error()
				}
				used, asked := now.Status.Allocated[corev1.ResourceCPU], now.Status.Requested[corev1.ResourceCPU]
				if four := resource.MustParse("4"); used.Cmp(four) != 0 || asked.Cmp(four) != 0 {
					return fmt.Sprintf("it uses %s and requests %s CPUs", used.String(), asked.String())
				}
				return ""
			})
		})
	}
}

// TestLongGraceOfAVictim checks that the scheduler evicts a pod with a grace period of 31 years
// within the longest grace period. It evicts nothing else for the preemptor.
func TestLongGraceOfAVictim(t *testing.T) {
	t.Parallel()
	for kind, victim := range map[string]func(e *env){
		"a pod": func(e *env) { e.running("victim", "low", "a", years) },
		"a whole gang": func(e *env) {
			e.CreateGroup(stage.Group{Name: "victims", MinCount: 1, Priority: "low", Whole: true})
			e.running("victim", "low", "a", years, func(pod *corev1.Pod) { e.Groups.Join(pod, "victims") })
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.AddNodes(4, "a", "b")
			victim(e)
			e.running("other", "mid", "b", 1)
			e.urgent(false)
			e.terminating("victim")
			if got := ptr.Deref(e.Pod("victim").DeletionGracePeriodSeconds, -1); got != int64(maxGracePeriod.Seconds()) {
				e.Errorf("The victim has a grace period of %d s, want %v", got, maxGracePeriod)
			}
			e.Gone("victim")
			e.Runs("urgent", 1)
			e.Runs("other", 1)
		})
	}
}
