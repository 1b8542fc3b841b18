package toleration

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// twoNodes is a playground of two nodes with 8 GPUs each.
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

func TestNotPreempted(t *testing.T) {
	t.Parallel()
	s := twoNodes(t)
	s.ApplyExample("not-preempted/01-priorities.yaml")
	s.ApplyExample("not-preempted/02-running.yaml")
	s.Runs("resumable", 1)
	s.Runs("not-resumable", 1)
	s.ApplyExample("not-preempted/03-urgent.yaml")
	s.Gone("resumable")
	s.Runs("urgent", 1)
	s.ApplyExample("not-preempted/04-urgent-too.yaml")
	s.WaitsSaying("urgent-too", "preemption: ", "1 unit of lower priority is protected")
	if n := len(s.Pods(t.Context(), "not-resumable")); n != 1 {
		t.Errorf("not-resumable was preempted by a priority that it tolerates")
	}
	s.ApplyExample("not-preempted/05-critical.yaml")
	s.Gone("not-resumable")
	s.Runs("critical", 1)
	if n := len(s.Pods(t.Context(), "urgent")); n != 2 {
		t.Errorf("%d of urgent and urgent-too are left, want both", n)
	}
}

func TestGuaranteedMinutes(t *testing.T) {
	t.Parallel()
	s := twoNodes(t)
	const guaranteed = 20 * time.Second
	s.ApplyExample("guaranteed-minutes/01-priorities.yaml", `"600"`, `"20"`)
	s.ApplyExample("guaranteed-minutes/02-training.yaml")
	s.Runs("training", 2)
	s.ApplyExample("guaranteed-minutes/03-urgent.yaml")
	s.WaitsSaying("urgent", "waits until", "default/training (PreemptionToleration)")
	var began time.Time
	s.Eventually("training says when it began", func(ctx context.Context) string {
		pg, ok := s.PodGroup(ctx, "training").(*v1alpha1.PodGroup)
		if !ok || pg.Status.StartTime == nil {
			return "it does not"
		}
		began = pg.Status.StartTime.Time
		return ""
	})
	var latest time.Time
	for _, pod := range s.Pods(t.Context(), "training") {
		if pod.Status.StartTime != nil && pod.Status.StartTime.After(latest) {
			latest = pod.Status.StartTime.Time
		}
	}
	if n := len(s.Pods(t.Context(), "training")); n != 2 {
		t.Fatalf("%d members of training are left within their time, want 2", n)
	}
	s.Runs("urgent", 1)
	for _, c := range s.Pod("urgent").Status.Conditions {
		if c.Type != corev1.PodScheduled {
			continue
		}
		if ran := c.LastTransitionTime.Sub(latest); ran < guaranteed-time.Second {
			t.Errorf("training had %v, want %v", ran, guaranteed)
		}
	}
	s.WaitEvent("urgent", "Preempting")
	for _, ev := range s.EventsOf(t.Context(), "urgent", "Preempting") {
		// Nothing else happens in the cluster that would have it tried again.
		if late := ev.EventTime.Sub(began.Add(guaranteed)); late > 20*time.Second {
			t.Errorf("it preempts %v after the end of the guarantee", late)
		}
	}
}

// TestMalformedToleration has a class that no policy has refused: it is told of, and tolerates nothing.
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
