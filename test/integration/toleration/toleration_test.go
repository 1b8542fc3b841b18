package toleration

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// twoNodes starts a playground with two nodes of 8 GPUs each.
func twoNodes(t *testing.T) *stage.Stage {
	t.Helper()
	return stage.New(t, playground.Options{
		NodeGroups: []playground.NodeGroup{{Count: 2, Resources: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("64"),
			corev1.ResourceMemory: resource.MustParse("512Gi"),
			"nvidia.com/gpu":      resource.MustParse("8"),
		}}},
	})
}

// TestMalformedToleration tests a PriorityClass with invalid annotations, without the admission
// policy that rejects them. The scheduler must report them in an event, and ignore them.
func TestMalformedToleration(t *testing.T) {
	t.Parallel()
	s := twoNodes(t)
	malformed := stage.NewClass("malformed", 10, func(class *schedulingv1.PriorityClass) {
		class.Annotations = map[string]string{preemptiontoleration.AnnotationMinimumPreemptablePriority: "very high"}
	})
	s.Create(malformed)
	s.CreateClasses(map[string]int32{"above": 20})
	s.WaitEvent("PriorityClass/malformed", "MalformedPreemptionToleration", "very high", "no preemption toleration")
	s.Eventually("the metric counts it", func(context.Context) string {
		if n := s.Metrics(s.Run.Component(playground.Scheduler)).Sum("reprieve_malformed_preemption_tolerations"); n != 1 {
			return fmt.Sprintf("it is %v", n)
		}
		return ""
	})
	s.AddNodes(64, "only")
	s.WaitReady("only")
	for _, name := range []string{"low-0", "low-1"} {
		s.Create(stage.NewPod(s.Namespace, name, "malformed", 30))
	}
	s.Runs("low", 2)
	s.Create(stage.NewPod(s.Namespace, "high", "above", 30))
	s.Runs("high", 1)
	s.Runs("low", 1)
}

// TestClassDeletedUnderItsPods deletes the PriorityClass of running pods. Until a class with the
// name exists, only preemptors with a system-critical priority may evict the pods. The message of
// another preemptor must report that the classes of these pods do not exist.
func TestClassDeletedUnderItsPods(t *testing.T) {
	t.Parallel()
	s := twoNodes(t)
	s.CreateClasses(map[string]int32{"deleted": 10, "above": 20})
	s.AddNodes(64, "only")
	s.WaitReady("only")
	for _, name := range []string{"low-0", "low-1"} {
		s.Create(stage.NewPod(s.Namespace, name, "deleted", 30))
	}
	s.Runs("low", 2)
	class := stage.NewClass("deleted", 10)
	if err := s.Objects.Delete(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	s.WaitEvent("PriorityClass/deleted", "PriorityClassNotFound", "does not exist", "create the class again")
	s.Eventually("the metric counts it", func(context.Context) string {
		if n := s.Metrics(s.Run.Component(playground.Scheduler)).Sum("reprieve_malformed_preemption_tolerations"); n != 1 {
			return fmt.Sprintf("it is %v", n)
		}
		return ""
	})
	s.Create(stage.NewPod(s.Namespace, "high", "above", 30))
	s.WaitsSaying("high", "2 units of PriorityClasses that do not exist are protected (PriorityClassNotFound)")
	s.Create(stage.NewPod(s.Namespace, "critical", "system-cluster-critical", 30))
	s.Runs("critical", 1)
	s.Runs("low", 1)
	s.Create(stage.NewClass("deleted", 10))
	s.Runs("high", 1)
	s.Gone("low")
}
