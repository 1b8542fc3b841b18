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
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestLongGraceOfATenant tests a running pod that its owner deletes with a grace period of 31
// years, so it continues to run. A preemptor must wait for it only for a bounded time, and then
// evict another pod. The deleted pod must still count as usage of its queue.
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
			deleted := time.Now()
			deleteForYears(e.Stage, e.tenant, "stuck")
			e.terminating("stuck")
			e.urgent(isGang)
			// On a slow machine, the pod may soon be overdue.
			if left := maxGracePeriod + terminationTimeout - 2*time.Second - time.Since(deleted); left > 0 {
				e.NeverFor(min(left, maxGracePeriod/2), 250*time.Millisecond, "another pod is evicted", func(ctx context.Context) string {
					if got := e.Terminating(ctx); !slices.Equal(got, []string{"stuck"}) {
						return fmt.Sprintf("%v terminate", got)
					}
					return ""
				})
			}
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

// deleteForYears deletes a pod with a grace period of 31 years.
func deleteForYears(s *stage.Stage, tenant kubernetes.Interface, name string) {
	s.Helper()
	if err := tenant.CoreV1().Pods(s.Namespace).Delete(s.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](years)}); err != nil {
		s.Fatal(err)
	}
}

// TestLongGraceKeepsNoNode tests a node whose only pod is deleted by its owner with a grace period
// of 31 years. A preemptor needs the whole node. When the pod is overdue, the preemptor must use
// another node. Work of low priority must then be placed beside the pod.
func TestLongGraceKeepsNoNode(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.AddNodes(8, "a", "b")
	eight := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("8")
	}
	e.running("stuck", "low", "a", 1)
	e.running("other", "mid", "b", 1, eight)
	deleteForYears(e.Stage, e.tenant, "stuck")
	e.terminating("stuck")
	e.urgent(false, eight)
	e.Eventually("the preemptor waits for node a", func(context.Context) string {
		if got := e.Pod("urgent").Status.NominatedNodeName; got != e.NodeName("a") {
			return fmt.Sprintf("it is nominated to %q", got)
		}
		return ""
	})
	e.Create(stage.NewPod(e.Namespace, "late", "low", 4))
	e.Runs("urgent", 1)
	e.Runs("late", 1)
	for name, node := range map[string]string{"urgent": "b", "late": "a"} {
		if got := e.Pod(name).Spec.NodeName; got != e.NodeName(node) {
			e.Errorf("%s is on %s", name, got)
		}
	}
	if pod := e.Pod("stuck"); pod.Status.Phase != corev1.PodRunning {
		e.Errorf("The pod is %s; the test needs one that runs on", pod.Status.Phase)
	}
}

// TestLongGraceTakesNoQuota tests a queue that uses twice its quota. Its owner deletes half of its
// work with a grace period of 31 years, and creates new work. The deleted work must still count as
// usage of the queue. So another queue must get its quota by evicting the other half, and must keep
// it.
func TestLongGraceTakesNoQuota(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.AddNodes(4, "a", "b")
	four := v1alpha1.QueueSpec{Quota: cpus(4)}
	team, other := e.queue("team", four), e.queue("other", four)
	e.running("stuck", "low", "a", 1, inQueue(team))
	e.running("borrows", "low", "b", 1, inQueue(team))
	deleteForYears(e.Stage, e.tenant, "stuck")
	e.terminating("stuck")
	e.pod("owed", "low", "b", inQueue(other))
	e.Gone("borrows")
	e.Runs("owed", 1)
	e.pod("more", "low", "b", inQueue(team))
	e.WaitsSaying("more")
	e.Runs("owed", 1)
	if pod := e.Pod("stuck"); pod.Status.Phase != corev1.PodRunning {
		e.Errorf("The pod is %s; the test needs one that runs on", pod.Status.Phase)
	}
}

// TestLongGraceOfAVictim tests a victim with a grace period of 31 years. The scheduler must evict
// it with the maximum grace period, and must not evict another pod.
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
