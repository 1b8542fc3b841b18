package tenants

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// merge applies a JSON merge patch to an object.
func merge(s *stage.Stage, obj client.Object, name, patch string) {
	s.Helper()
	obj.SetName(name)
	if _, cluster := obj.(*corev1.Namespace); !cluster {
		obj.SetNamespace("default")
	}
	if err := s.Objects.Patch(s.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		s.Fatal(err)
	}
}

// group creates a PodGroup with minCount 1.
func group(s *stage.Stage, name, class, queue string) {
	s.Helper()
	s.ApplyText(fmt.Sprintf(`apiVersion: reprieve.dev/v1alpha1
kind: PodGroup
metadata: {name: %s, namespace: default}
spec: {disruptionMode: PodGroup, priorityClassName: %s, queueName: %s, schedulingPolicy: {gang: {minCount: 1}}}
`, name, class, queue))
}

// TestSealSurvivesARestart changes all objects and labels that decide how running work counts,
// while no scheduler runs and no admission policy is installed. The new scheduler must count the
// work by the state at the time of its placement.
func TestSealSurvivesARestart(t *testing.T) {
	s := newCluster(t, 3)
	s.ApplyText(`apiVersion: reprieve.dev/v1alpha1
kind: Queue
metadata: {name: team}
spec: {quota: {nvidia.com/gpu: 8}, limit: {nvidia.com/gpu: 8}}
---
apiVersion: reprieve.dev/v1alpha1
kind: Queue
metadata: {name: other}
spec: {quota: {nvidia.com/gpu: 16}}
`)
	merge(s, &corev1.Namespace{}, "default", `{"metadata":{"annotations":{"reprieve.dev/queue":"team"}}}`)
	in := func(queue string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			if pod.Labels == nil {
				pod.Labels = make(map[string]string)
			}
			pod.Labels[v1alpha1.LabelQueue] = queue
		}
	}
	forged := func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{v1alpha1.AnnotationPlacedAs: `{"group":"","queue":"other","priority":1000}`}
	}
	group(s, "raised", "low", "other")
	create(s, "raised-0", "raised", "low", 8)
	s.Runs("raised-", 1)
	create(s, "filler-0", "", "high", 8, in("other"))
	s.Runs("filler-", 1)
	group(s, "deleted", "low", "team")
	create(s, "deleted-0", "deleted", "low", 2)
	create(s, "labeled-0", "", "low", 4, in("team"), forged)
	create(s, "defaulted-0", "", "low", 2)
	for _, name := range []string{"deleted-", "labeled-", "defaulted-"} {
		s.Runs(name, 1)
	}
	if got := s.Pod("labeled-0").Annotations[v1alpha1.AnnotationPlacedAs]; !strings.Contains(got, `"queue":"team"`) {
		t.Errorf("The seal of a pod that came with a forged one is %s", got)
	}

	scheduler := s.Run.Component(playground.Scheduler)
	if err := scheduler.Kill(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	merge(s, &corev1.Pod{}, "labeled-0", `{"metadata":{"labels":{"reprieve.dev/queue":null}}}`)
	merge(s, &corev1.Namespace{}, "default", `{"metadata":{"annotations":{"reprieve.dev/queue":"other"}}}`)
	for _, name := range []string{"deleted", "raised"} {
		if err := s.Objects.Delete(s.Context(), &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	group(s, "raised", "high", "team")
	create(s, "late-0", "", "low", 1, in("team"))
	if err := scheduler.Start(s.Context()); err != nil {
		t.Fatal(err)
	}

	s.WaitCondition("raised", v1alpha1.ConditionCountsAsPlaced, metav1.ConditionTrue, v1alpha1.ReasonChangedSincePlaced,
		`in Queue "other", not "team"`, "with priority 10, not 1000")
	s.Eventually("the limit of the queue blocks another pod", func(context.Context) string {
		for _, c := range s.Pod("late-0").Status.Conditions {
			if c.Type == corev1.PodScheduled && strings.Contains(c.Message, "limit") {
				return ""
			}
		}
		return "it has another condition"
	})
	var team v1alpha1.Queue
	if err := s.Objects.Get(s.Context(), types.NamespacedName{Name: "team"}, &team); err != nil {
		t.Fatal(err)
	}
	if got := team.Status.Allocated[gpu]; got.Value() != 8 {
		t.Errorf("The queue uses %s GPUs, want 8", got.String())
	}
	create(s, "urgent-0", "", "mid", 8, in("other"))
	s.Gone("raised-0")
	s.Runs("urgent-", 1)
	s.Runs("filler-", 1)
}
