package priority

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestPriorities runs the tests of this package on one cluster. Each test has its own namespace,
// nodes and PriorityClasses.
func TestPriorities(t *testing.T) {
	e := &env{stage.New(t, playground.Options{})}
	e.Create(stage.NewClass("low", 10), stage.NewClass("mid", 50), stage.NewClass("high", 100), stage.NewClass("patient", 100, stage.Never))
	t.Run("side by side", func(t *testing.T) {
		for name, test := range map[string]func(*env){
			"named-class":     testNamedClass,
			"late-class":      testClassThatComesLate,
			"class-that-goes": testClassThatGoes,
			"never":           testNever,
			"mismatch":        testMismatch,
			"templates":       testTemplates,
			"late-template":   testTemplateThatComesLate,
			"clash":           testTemplateThatClashes,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(e.in(t))
			})
		}
	})
	// This test cannot run in parallel with others, because it changes the priority of all
	// PodGroups without a class.
	t.Run("global default", func(t *testing.T) { testGlobalDefault(e.in(t)) })

	// This test cannot run in parallel with others, because it kills the scheduler.
	t.Run("queue order", func(t *testing.T) { testQueueOrder(e.in(t)) })
}

func testNamedClass(e *env) {
	e.Create(
		e.group("of-a-class", gangOf(1, "high")),
		e.group("patient", basic("patient")),
		e.group("node-critical", gangOf(1, "system-node-critical")),
		e.group("cluster-critical", gangOf(1, "system-cluster-critical")),
		e.group("none", gangOf(1, "")),
		e.workload(map[string]v1alpha1.PodGroupPolicy{"a": gangOf(2, "patient"), "b": basic("")}),
	)
	e.waitResolved("of-a-class", 100, corev1.PreemptLowerPriority)
	e.waitResolved("patient", 100, corev1.PreemptNever)
	e.waitResolved("node-critical", 2000001000, corev1.PreemptLowerPriority)
	e.waitResolved("cluster-critical", 2000000000, corev1.PreemptLowerPriority)
	e.waitResolved("none", 0, corev1.PreemptLowerPriority)
	e.waitTemplate("a", 100, corev1.PreemptNever)
	e.waitTemplate("b", 0, corev1.PreemptLowerPriority)
}

func testClassThatComesLate(e *env) {
	e.AddNodes(4, "late-class")
	e.Create(
		e.group("g", gangOf(2, "late")), e.pod("g-0", "g", "low", "late-class"), e.pod("g-1", "g", "low", "late-class"),
		e.workload(map[string]v1alpha1.PodGroupPolicy{"here": basic("low"), "late": gangOf(1, "late")}),
		e.made("m", "late", v1alpha1.PodGroupPolicy{}), e.pod("m-0", "m", "low", "late-class"),
	)
	for _, name := range []string{"g", "m"} {
		e.WaitCondition(name, v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonPriorityClassNotFound, `PriorityClass "late"`)
		e.WaitEvent("PodGroup/"+name, v1alpha1.ReasonPriorityClassNotFound, `PriorityClass "late"`)
		e.WaitEvent("Pod/"+name+"-0", "FailedScheduling", v1alpha1.ReasonPriorityClassNotFound, `PriorityClass "late"`)
	}
	e.WaitEvent("Workload/w", v1alpha1.ReasonPriorityClassNotFound, "template late", `PriorityClass "late"`)
	// The template "here" gets its priority, although the class of another template is missing.
	e.waitTemplate("here", 10, corev1.PreemptLowerPriority)
	e.stayUnbound("g-0", "g-1", "m-0")
	e.Create(stage.NewClass("late", 42))
	e.waitBound("g-0", "g-1", "m-0")
	e.waitResolved("g", 42, corev1.PreemptLowerPriority)
	e.waitResolved("m", 42, corev1.PreemptLowerPriority)
	e.waitTemplate("late", 42, corev1.PreemptLowerPriority)
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
}

// testClassThatGoes deletes a PriorityClass and creates another one with the same name. The value
// of a class is immutable, so a user can change it only in this way.
func testClassThatGoes(e *env) {
	e.AddNodes(2, "class-that-goes")
	was := stage.NewClass("passing", 60, stage.Never)
	e.Create(was,
		e.group("g", gangOf(2, "passing")),
		e.workload(map[string]v1alpha1.PodGroupPolicy{"t": gangOf(2, "passing")}),
		e.pod("victim-0", "", "mid", "class-that-goes"), e.pod("victim-1", "", "mid", "class-that-goes"),
	)
	e.waitBound("victim-0", "victim-1")
	e.waitResolved("g", 60, corev1.PreemptNever)
	e.waitTemplate("t", 60, corev1.PreemptNever)
	check := func(what string) {
		e.Never(what, func(ctx context.Context) string {
			var pg v1alpha1.PodGroup
			if err := e.Objects.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: "g"}, &pg); err != nil {
				return err.Error()
			}
			return resolved(&pg.Spec.PodGroupPolicy, 60, corev1.PreemptNever)
		})
	}
	e.remove(was)
	// After its class is deleted, a PodGroup must keep its preemption policy Never.
	e.Create(e.pod("g-0", "g", "high", "class-that-goes"), e.pod("g-1", "g", "high", "class-that-goes"))
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable, "Never")
	check("a deleted class changes nothing")
	// A PodGroup that is created from the template afterwards must have the same policy.
	e.Create(e.made("late", "t", v1alpha1.PodGroupPolicy{}))
	e.waitResolved("late", 60, corev1.PreemptNever)
	e.Create(stage.NewClass("passing", 1000))
	check("nor does another class of its name")
	e.Create(e.made("later", "t", v1alpha1.PodGroupPolicy{}))
	e.waitResolved("later", 60, corev1.PreemptNever)
	e.waitTemplate("t", 60, corev1.PreemptNever)
	e.waitBound("victim-0", "victim-1")
	// A new PodGroup with the class must get the value of the new class.
	e.Create(e.group("new", gangOf(2, "passing")))
	e.waitResolved("new", 1000, corev1.PreemptLowerPriority)
}

// testNever tests two PodGroups with the same priority. The one with the policy Never must wait,
// and the other one must preempt. Their pods have the opposite policies, which must have no effect.
func testNever(e *env) {
	e.AddNodes(1, "never-a")
	e.AddNodes(1, "never-b")
	e.Create(e.pod("victim-a", "", "low", "never-a"), e.pod("victim-b", "", "low", "never-b"))
	e.waitBound("victim-a", "victim-b")
	e.Create(
		e.group("patient", gangOf(1, "patient")), e.pod("patient-0", "patient", "high", "never-a"),
		e.group("eager", gangOf(1, "high")), e.pod("eager-0", "eager", "patient", "never-b"),
	)
	e.waitBound("eager-0")
	e.WaitCondition("patient", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable, "Never")
	e.stayUnbound("patient-0")
	if e.nodeOf(e.Context(), "victim-a") == "" {
		e.Error("The victim of the patient group is gone")
	}
}

func testMismatch(e *env) {
	e.AddNodes(4, "mismatch")
	e.Create(e.group("g", gangOf(1, "high")), e.pod("alike", "g", "high", "mismatch"), e.pod("odd", "g", "low", "mismatch"), e.pod("other", "g", "mid", "mismatch"))
	e.waitBound("alike", "odd", "other")
	e.WaitCondition("g", v1alpha1.ConditionPodsNotMatchingPriority, metav1.ConditionTrue, v1alpha1.ReasonPodsNotMatchingPriority, "pod odd", "100")
	e.remove(e.pod("odd", "", "", ""))
	e.WaitCondition("g", v1alpha1.ConditionPodsNotMatchingPriority, metav1.ConditionTrue, v1alpha1.ReasonPodsNotMatchingPriority, "pod other", "100")
	e.remove(e.pod("other", "", "", ""))
	e.WaitCondition("g", v1alpha1.ConditionPodsNotMatchingPriority, metav1.ConditionFalse, v1alpha1.ReasonPodsMatchingPriority)
}

func testGlobalDefault(e *env) {
	e.AddNodes(1, "global-default")
	e.Create(e.group("before", gangOf(1, "")))
	e.waitResolved("before", 0, corev1.PreemptLowerPriority)
	e.Create(stage.NewClass("default", 33, byDefault, stage.Never))
	// Wait until the scheduler has received the new default class through a watch.
	e.Eventually("the default is known", func(context.Context) string {
		pg := e.group("", gangOf(1, ""))
		pg.GenerateName = "probe-"
		e.Create(pg)
		e.Eventually("the probe is filled in", func(ctx context.Context) string {
			if err := e.Objects.Get(ctx, client.ObjectKeyFromObject(pg), pg); err != nil {
				return err.Error()
			}
			if pg.Spec.Priority == nil {
				return "it is not"
			}
			return ""
		})
		return resolved(&pg.Spec.PodGroupPolicy, 33, corev1.PreemptNever)
	})
	e.Create(e.workload(map[string]v1alpha1.PodGroupPolicy{"t": gangOf(1, "")}), e.made("made", "t", v1alpha1.PodGroupPolicy{}))
	e.waitTemplate("t", 33, corev1.PreemptNever)
	e.waitResolved("made", 33, corev1.PreemptNever)
	e.waitResolved("before", 0, corev1.PreemptLowerPriority)
	e.waitClass("made", "default")
	e.waitClass("before", "")
	testDefaultMoves(e)
}

// testDefaultMoves changes the default PriorityClass. An existing PodGroup must keep the toleration
// of the old default class.
func testDefaultMoves(e *env) {
	var old schedulingv1.PriorityClass
	if err := e.Objects.Get(e.Context(), client.ObjectKey{Name: "default"}, &old); err != nil {
		e.Fatal(err)
	}
	patch := client.MergeFrom(old.DeepCopy())
	old.Annotations = map[string]string{
		preemptiontoleration.AnnotationMinimumPreemptablePriority: "1000", preemptiontoleration.AnnotationTolerationSeconds: "-1",
	}
	if err := e.Objects.Patch(e.Context(), &old, patch); err != nil {
		e.Fatal(err)
	}
	e.Create(e.pod("tolerant", "made", "", "global-default"))
	e.waitBound("tolerant")
	patch = client.MergeFrom(old.DeepCopy())
	old.GlobalDefault = false
	if err := e.Objects.Patch(e.Context(), &old, patch); err != nil {
		e.Fatal(err)
	}
	e.Eventually("another class is the default", func(ctx context.Context) string {
		// Try again for some time: the admission plugin receives the change of the old class
		// through a watch.
		if err := e.Objects.Create(ctx, stage.NewClass("default-now", 33, byDefault)); err != nil {
			return err.Error()
		}
		return ""
	})
	e.Create(e.pod("urgent", "", "high", "global-default"))
	e.stayUnbound("urgent")
}

// waitClass waits until a PodGroup has the PriorityClass. An empty name waits for a PodGroup
// without a class.
func (e *env) waitClass(name, want string) {
	e.Helper()
	e.Eventually("PodGroup "+name+" has its class", func(ctx context.Context) string {
		var pg v1alpha1.PodGroup
		if err := e.Objects.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, &pg); err != nil {
			return err.Error()
		}
		if got := ptr.Deref(pg.Spec.PriorityClassName, ""); got != want {
			return fmt.Sprintf("it is %q, want %q", got, want)
		}
		return ""
	})
}
