package toleration

import (
	"context"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// forever has the annotations of a PriorityClass whose toleration has no end. It protects from
// priorities below 1000.
var forever = map[string]string{
	preemptiontoleration.AnnotationMinimumPreemptablePriority: "1000",
	preemptiontoleration.AnnotationTolerationSeconds:          "-1",
}

// protectedByClass is a part of the preemptor's message. The test does not check the text before
// it, which has a number that depends on other tests.
const protectedByClass = "protected (PreemptionToleration)"

// TestClassesThatChange changes PriorityClasses, and replaces them by new ones, while their pods
// run.
func TestClassesThatChange(t *testing.T) {
	t.Parallel()
	cluster := twoNodes(t)
	cluster.CreateClasses(map[string]int32{"above": 500})
	for name, change := range map[string]func(s *stage.Stage, class string, urgent func()){
		"a toleration that is taken off": func(s *stage.Stage, class string, urgent func()) {
			annotate(s, class, forever)
			classIsKnown(s)
			urgent()
			s.WaitsSaying("urgent", protectedByClass)
			annotate(s, class, map[string]string{
				preemptiontoleration.AnnotationMinimumPreemptablePriority: "", preemptiontoleration.AnnotationTolerationSeconds: "",
			})
			s.Gone("running")
			s.Runs("urgent", 1)
		},
		"a minimum that is lowered": func(s *stage.Stage, class string, urgent func()) {
			annotate(s, class, forever)
			classIsKnown(s)
			urgent()
			s.WaitsSaying("urgent", protectedByClass)
			annotate(s, class, map[string]string{preemptiontoleration.AnnotationMinimumPreemptablePriority: "500"})
			s.Gone("running")
			s.Runs("urgent", 1)
		},
		"a toleration that comes while its pods run": func(s *stage.Stage, class string, urgent func()) {
			annotate(s, class, forever)
			classIsKnown(s)
			urgent()
			s.WaitsSaying("urgent", protectedByClass)
			s.Never("the running pod goes", func(ctx context.Context) string {
				if pod := s.Find(ctx, "running"); pod == nil || pod.DeletionTimestamp != nil {
					return "it does"
				}
				return ""
			})
		},
		"made anew with a higher value": func(s *stage.Stage, class string, urgent func()) {
			remove(s, class)
			s.Create(stage.NewClass(class, 900))
			urgent()
			// A new value of the class must not change the priority of an existing pod, so the
			// preemptor must still evict the pod.
			s.Gone("running")
			s.Runs("urgent", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cluster.In(t)
			class := "of-" + s.Namespace
			s.Create(stage.NewClass(class, 10))
			s.AddNodes(4, "only")
			s.Create(stage.NewPod(s.Namespace, "running", class, 4))
			s.Runs("running", 1)
			change(s, class, func() { s.Create(stage.NewPod(s.Namespace, "urgent", "above", 4)) })
		})
	}
}

// annotate sets annotations of a PriorityClass. An annotation with an empty value is removed.
func annotate(s *stage.Stage, class string, annotations map[string]string) {
	s.Helper()
	var current schedulingv1.PriorityClass
	if err := s.Objects.Get(s.Context(), types.NamespacedName{Name: class}, &current); err != nil {
		s.Fatal(err)
	}
	for key, value := range annotations {
		if value == "" {
			delete(current.Annotations, key)
			continue
		}
		metav1.SetMetaDataAnnotation(&current.ObjectMeta, key, value)
	}
	if err := s.Objects.Update(s.Context(), &current); err != nil {
		s.Fatal(err)
	}
}

func remove(s *stage.Stage, class string) {
	s.Helper()
	if err := s.Kube.SchedulingV1().PriorityClasses().Delete(s.Context(), class, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

// classIsKnown waits for some time, so that the scheduler can cache a new PriorityClass. No API
// shows whether the class is cached, and a new pod may reach the scheduler before the class.
func classIsKnown(s *stage.Stage) {
	s.Never("the running pod goes", func(ctx context.Context) string {
		if pod := s.Find(ctx, "running"); pod == nil || pod.DeletionTimestamp != nil {
			return "it does"
		}
		return ""
	})
}
