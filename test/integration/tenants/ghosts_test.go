package tenants

import (
	"context"
	"fmt"
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestGhostsAndHugeRequests tests pods that name a node that does not exist, and pods whose
// requests add up to more than an int64 can hold. These pods must not count as usage of their
// queue, and must take no quota from other work.
func TestGhostsAndHugeRequests(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.AddNodes(4, "a")
	four := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	team := e.queue("team", v1alpha1.QueueSpec{Limit: four})
	other := e.queue("other", v1alpha1.QueueSpec{Quota: four})
	tenants := func(name string, change func(*corev1.Pod)) {
		pod := stage.NewPod(e.Namespace, name, "low", 4)
		pod.Labels[v1alpha1.LabelQueue] = team
		change(pod)
		if _, err := e.tenant.CoreV1().Pods(e.Namespace).Create(e.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		tenants(fmt.Sprintf("ghost-%d", i), func(pod *corev1.Pod) { pod.Spec.NodeName = fmt.Sprintf("no-node-%d-%s", i, e.Namespace) })
		tenants(fmt.Sprintf("huge-%d", i), func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
			pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
		})
	}
	e.WaitsSaying("huge-0")
	tenants("real", func(*corev1.Pod) {})
	e.Runs("real", 1)
	e.Eventually("only the pod on a node is in the usage", func(ctx context.Context) string {
		var now v1alpha1.Queue
		if err := e.Objects.Get(ctx, types.NamespacedName{Name: team}, &now); err != nil {
			return err.Error()
		}
		if used := now.Status.Allocated[corev1.ResourceCPU]; used.Cmp(resource.MustParse("4")) != 0 {
			return fmt.Sprintf("%s CPUs are in use", used.String())
		}
		return ""
	})
	owed := stage.NewPod(e.Namespace, "owed", "low", 4)
	owed.Labels[v1alpha1.LabelQueue] = other
	e.Create(owed)
	e.Gone("real")
	e.Runs("owed", 1)
}
