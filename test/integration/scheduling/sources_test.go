package scheduling

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// onBothSides runs a test with two environments, one for each API of PodGroups. It runs the test
// twice, with the environments in both orders.
func onBothSides(t *testing.T, test func(one, other *env)) {
	t.Helper()
	onBothAPIs(t, func(one *env) {
		api := stage.ReprieveGroups()
		if one.Groups.Name == api.Name {
			api = stage.NativeGroups(t)
		}
		test(one, one.with(api))
	})
}

// TestOneAPITakesFromTheOther tests a preemptor and a victim whose PodGroups belong to different
// APIs. The preemption must work as usual.
func TestOneAPITakesFromTheOther(t *testing.T) {
	t.Parallel()
	onBothSides(t, testOneAPITakesFromTheOther)
}

func testOneAPITakesFromTheOther(taker, victim *env) {
	taker.AddNodes(4, "a", "b")
	victim.runningGang(stage.Group{Name: "victims", MinCount: 4, Whole: true, Priority: "low"}, 4, podSpec{cpus: 2})
	taker.gang(stage.Group{Name: "urgent", MinCount: 2, Priority: "high"}, 2, podSpec{cpus: 2})
	taker.waitBound("urgent", 2)
	victim.waitBound("victims", 0)
	taker.WaitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
	taker.WaitEvent("urgent", "Preempting", taker.Namespace+"/victims")
	victim.WaitCondition("victims", v1alpha1.ConditionDisruptionTarget, metav1.ConditionFalse, v1alpha1.ReasonPreemptionByScheduler)
	victim.WaitEvent("victims", "Preempted", "PodGroup "+taker.Namespace+"/urgent")
}

// TestNameOfTwoPodGroups tests two PodGroups with the same name, one in each API. Pods with this
// name must wait until one of the PodGroups is deleted.
func TestNameOfTwoPodGroups(t *testing.T) {
	t.Parallel()
	onBothSides(t, testNameOfTwoPodGroups)
}

func testNameOfTwoPodGroups(stays, goes *env) {
	stays.AddNodes(4, "a")
	goes.CreateGroup(stage.Group{Name: "g", MinCount: 1})
	stays.CreateGroup(stage.Group{Name: "g", MinCount: 2})
	// A condition of the PodGroup of reprieve.dev reports the problem.
	stays.with(stage.ReprieveGroups()).WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse,
		v1alpha1.ReasonAmbiguousName, "delete one of the two")
	for i := range 2 {
		stays.create(podSpec{name: fmt.Sprintf("g-%d", i), group: "g", cpus: 1})
	}
	stays.WaitEvent("g-0", "FailedScheduling", "delete one of the two")
	stays.staysUnbound("g")
	goes.RemoveGroup("g")
	goes.LetGroupGo("g")
	stays.waitBound("g", 2)
	stays.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
}

// TestSharedNameOfARunningGang creates a PodGroup with the name of a running gang's PodGroup, but
// in the other API. The gang must continue to run.
func TestSharedNameOfARunningGang(t *testing.T) {
	t.Parallel()
	onBothSides(t, testSharedNameOfARunningGang)
}

func testSharedNameOfARunningGang(runs, comes *env) {
	runs.AddNodes(2, "a", "b")
	runs.runningGang(stage.Group{Name: "g", MinCount: 2, Whole: true, Priority: "low"}, 2, podSpec{cpus: 2})
	comes.CreateGroup(stage.Group{Name: "g", MinCount: 1, Priority: "mid"})
	runs.create(podSpec{name: "g-x", group: "g", cpus: 1})
	runs.with(stage.ReprieveGroups()).WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue,
		v1alpha1.ReasonScheduled, "delete one of the two")
	runs.create(podSpec{name: "urgent", cpus: 2, priority: "high"})
	runs.waitRunning("urgent")
	runs.waitBound("g", 0)
}

// TestEitherWayToJoin checks that pods may name a PodGroup of each API by a label or by a field in
// their spec.
func TestEitherWayToJoin(t *testing.T) {
	t.Parallel()
	onBothSides(t, testEitherWayToJoin)
}

func testEitherWayToJoin(one, other *env) {
	one.AddNodes(4, "a")
	one.CreateGroup(stage.Group{Name: "g", MinCount: 2})
	one.create(podSpec{name: "one", group: "g", cpus: 1})
	one.staysUnbound("g")
	other.create(podSpec{name: "other", group: "g", cpus: 1})
	one.waitRunning("one", "other")
	one.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled, "2 members")
}

// TestPodOfTwoPodGroups tests a pod whose label and spec name different PodGroups. The pod must not
// become a member of either PodGroup.
func TestPodOfTwoPodGroups(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testPodOfTwoPodGroups)
}

func testPodOfTwoPodGroups(e *env) {
	e.AddNodes(4, "a")
	byLabel, bySpec := stage.ReprieveGroups(), stage.NativeGroups(e.T)
	e.CreateGroup(stage.Group{Name: "x", MinCount: 1})
	e.CreateGroup(stage.Group{Name: "y", MinCount: 1})
	e.create(podSpec{name: "torn", cpus: 1, change: func(pod *corev1.Pod) {
		byLabel.Join(pod, "x")
		bySpec.Join(pod, "y")
	}})
	e.WaitEvent("torn", "FailedScheduling", `"x"`, `"y"`)
	e.with(byLabel).staysUnbound("x")
	// Other pods of the two groups must run as usual.
	e.create(podSpec{name: "x", group: "x", cpus: 1}, podSpec{name: "y", group: "y", cpus: 1})
	e.waitRunning("x", "y")
	if got := e.nodeOf("torn"); got != "" {
		e.Errorf("The pod of two PodGroups is on %s", got)
	}
}
