package scheduling

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

func TestMembersWaitForTheirPodGroup(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testMembersWaitForTheirPodGroup)
}

func testMembersWaitForTheirPodGroup(e *env) {
	e.AddNodes(4, "a")
	e.create(podSpec{name: "m", group: "late", cpus: 1}.times(2)...)
	e.WaitEvent("m-0", "FailedScheduling", "PodGroup "+e.Namespace+"/late does not exist")
	e.WaitEvent("m-1", "FailedScheduling", "PodGroup "+e.Namespace+"/late does not exist")
	e.staysUnbound("late")
	e.CreateGroup(stage.Group{Name: "late", MinCount: 2})
	e.waitBound("late", 2)
}

func TestTooFewMembers(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testTooFewMembers)
}

func testTooFewMembers(e *env) {
	e.AddNodes(8, "a")
	e.gang(stage.Group{Name: "g", MinCount: 3}, 2, podSpec{cpus: 1})
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse,
		v1alpha1.ReasonNotEnoughMembers, "needs 3 members and has 2")
	// The event may report that the group has one member, because the scheduler may have sent it
	// before the second member existed.
	e.WaitEvent("g-0", "FailedScheduling", v1alpha1.ReasonNotEnoughMembers, "needs 3 members and has ")
	e.staysUnbound("g")
	e.create(podSpec{name: "g-2", group: "g", cpus: 1})
	e.waitBound("g", 3)
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
}

func TestMixedSchedulerNames(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"another scheduler":                     "somebody-else",
		"another profile of the same scheduler": secondProfile,
	}
	each(t, cases, func(e *env, other string) {
		e.AddNodes(8, "a")
		e.CreateGroup(stage.Group{Name: "g", MinCount: 2})
		e.create(
			podSpec{name: "one", group: "g", cpus: 1},
			podSpec{name: "two", group: "g", cpus: 1, scheduler: other},
			podSpec{name: "three", group: "g", cpus: 1},
		)
		phrases := []string{stage.Profile, "pod one", other, "pod two"}
		e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse,
			v1alpha1.ReasonMixedSchedulerNames, phrases...)
		e.WaitEvent("one", "FailedScheduling", phrases...)
		e.WaitEvent("two", "FailedScheduling", phrases...)
		e.staysUnbound("g")
		e.remove("two")
		e.waitBound("g", 2)
	})
}

func TestGangUnderTheSecondProfile(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testGangUnderTheSecondProfile)
}

func testGangUnderTheSecondProfile(e *env) {
	e.AddNodes(4, "a")
	e.gang(stage.Group{Name: "g", MinCount: 3}, 3, podSpec{cpus: 1, scheduler: secondProfile})
	e.waitBound("g", 3)
}

// TestPriorityClassThatComesLate uses only PodGroups of reprieve.dev. The API server rejects
// PodGroups of scheduling.k8s.io with a missing class.
func TestPriorityClassThatComesLate(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.ReprieveGroups())
	e.AddNodes(4, "a")
	class := "late-" + e.Namespace
	e.CreateGroup(stage.Group{Name: "g", MinCount: 2, Priority: class})
	e.create(podSpec{name: "m", group: "g", cpus: 1}.times(2)...)
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse,
		v1alpha1.ReasonPriorityClassNotFound, class)
	e.WaitEvent("m-0", "FailedScheduling", class)
	e.staysUnbound("g")
	classes := e.Kube.SchedulingV1().PriorityClasses()
	_, err := classes.Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Value: 42,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := classes.Delete(context.WithoutCancel(t.Context()), class, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	e.waitBound("g", 2)
	e.WaitCondition("g", v1alpha1.ConditionPodsNotMatchingPriority, metav1.ConditionTrue,
		v1alpha1.ReasonPodsNotMatchingPriority, "m-0", "42")
}

// TestTemplateThatComesLate uses only PodGroups of reprieve.dev. PodGroups of scheduling.k8s.io
// always contain their own policy, and the API server rejects them if their template is missing.
func TestTemplateThatComesLate(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.ReprieveGroups())
	e.AddNodes(4, "a")
	ref := &v1alpha1.PodGroupTemplateReference{WorkloadName: "w", PodGroupTemplateName: "workers"}
	e.gang(stage.Group{Name: "g", Template: ref}, 2, podSpec{cpus: 1})
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonTemplateNotFound, "template workers of Workload w")
	e.staysUnbound("g")
	w := &v1alpha1.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "w"}}
	w.Spec.PodGroupTemplates = []v1alpha1.PodGroupTemplate{{Name: "workers", PodGroupPolicy: v1alpha1.PodGroupPolicy{
		SchedulingPolicy: &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 2}},
	}}}
	if err := e.Objects.Create(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	e.waitBound("g", 2)
}

func TestSchedulingGatesHoldTheGang(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testSchedulingGatesHoldTheGang)
}

func testSchedulingGatesHoldTheGang(e *env) {
	e.AddNodes(4, "a")
	e.CreateGroup(stage.Group{Name: "g", MinCount: 3})
	gated := func(pod *corev1.Pod) {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test.reprieve.dev/wait"}}
	}
	e.create(podSpec{name: "gated", group: "g", cpus: 1, change: gated})
	e.create(podSpec{name: "m", group: "g", cpus: 1}.times(2)...)
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse,
		v1alpha1.ReasonNotEnoughMembers, "has 2", "1 more wait for a scheduling gate")
	e.staysUnbound("g")
	patch := []byte(`{"spec":{"schedulingGates":null}}`)
	_, err := e.Kube.CoreV1().Pods(e.Namespace).Patch(e.Context(), "gated", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.waitBound("g", 3)
}

func TestBasicGroupIsPlacedOneByOne(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testBasicGroupIsPlacedOneByOne)
}

func testBasicGroupIsPlacedOneByOne(e *env) {
	e.AddNodes(4, "a")
	e.gang(stage.Group{Name: "g"}, 3, podSpec{cpus: 2})
	e.waitBound("g", 2)
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
	e.Never("the third stays pending", func(ctx context.Context) string {
		if n := e.bound(ctx, "g"); n != 2 {
			return fmt.Sprintf("%d are bound", n)
		}
		return ""
	})
}

func TestPodGroupThatGoesWhileItsMembersWait(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testPodGroupThatGoesWhileItsMembersWait)
}

func testPodGroupThatGoesWhileItsMembersWait(e *env) {
	e.AddNodes(4, "a")
	e.gang(stage.Group{Name: "g", MinCount: 2}, 2, podSpec{cpus: 3})
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
	e.RemoveGroup("g")
	// The PodGroups of scheduling.k8s.io have a finalizer while they have members. LetGroupGo
	// removes it.
	e.LetGroupGo("g")
	e.WaitEvent("g-0", "FailedScheduling", "does not exist")
	e.WaitEvent("g-1", "FailedScheduling", "does not exist")
	e.AddNodes(4, "b")
	e.staysUnbound("g")
	e.CreateGroup(stage.Group{Name: "g", MinCount: 2})
	e.waitBound("g", 2)
}

// TestPodGroupThatIsHeldStillCounts deletes a PodGroup that continues to exist because of a
// finalizer. The members must still wait for each other, and be placed as a gang when they have
// room.
func TestPodGroupThatIsHeldStillCounts(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testPodGroupThatIsHeldStillCounts)
}

func testPodGroupThatIsHeldStillCounts(e *env) {
	e.AddNodes(4, "a")
	e.CreateGroup(stage.Group{Name: "g", MinCount: 2, Finalizers: []string{stage.Finalizer}})
	e.Cleanup(func() { e.LetGroupGo("g") })
	e.create(podSpec{name: "g", group: "g", cpus: 3}.times(2)...)
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
	e.RemoveGroup("g")
	e.staysUnbound("g")
	e.AddNodes(4, "b")
	e.waitBound("g", 2)
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
}
