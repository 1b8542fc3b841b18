package departures

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// guarded adds the label that the PodDisruptionBudget selects to a pod.
func guarded(pod *corev1.Pod) { pod.Labels["guarded"] = "yes" }

// TestBudgetThatLags checks two preemptions while the disruption controller does not run, so the
// status of a PodDisruptionBudget is outdated. The budget allows one disruption. The two
// preemptions together must not cause more. When the controller runs again, it updates the status.
func TestBudgetThatLags(t *testing.T) {
	t.Parallel()
	e := alone(t)
	e.AddNodes(4, "a", "b", "c")
	e.running("guarded-a", "low", "a", guarded)
	e.running("guarded-b", "low", "b", guarded)
	e.running("free", "mid", "c")
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"guarded": "yes"}},
		},
	}
	if _, err := e.Kube.PolicyV1().PodDisruptionBudgets(e.Namespace).Create(t.Context(), pdb, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	allows := func(healthy, allowed int32) {
		e.Helper()
		e.Eventually(fmt.Sprintf("the budget counts %d pods and allows %d disruptions", healthy, allowed), func(ctx context.Context) string {
			got, err := e.Kube.PolicyV1().PodDisruptionBudgets(e.Namespace).Get(ctx, "guard", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if got.Status.CurrentHealthy != healthy || got.Status.DisruptionsAllowed != allowed {
				return fmt.Sprintf("it counts %d and allows %d", got.Status.CurrentHealthy, got.Status.DisruptionsAllowed)
			}
			return ""
		})
	}
	allows(2, 1)
	controllers := e.Run.Component(playground.ControllerManager)
	if err := controllers.Kill(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e.urgent(2, false)
	e.Runs("urgent", 2)
	var left []string
	for _, pod := range e.AllPods(t.Context()) {
		left = append(left, pod.Name)
	}
	if slices.Contains(left, "free") || !slices.Contains(left, "guarded-a") && !slices.Contains(left, "guarded-b") {
		e.Errorf("Left are %v, want one of the two that the budget guards, and not the one that it does not", left)
	}
	allows(2, 1)
	if err := controllers.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	allows(1, 0)
}
