package scheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// onBothSides runs a test that PodGroups of the two APIs have different parts in, with the parts either way.
func onBothSides(t *testing.T, test func(one, other *env)) {
	t.Helper()
	onBothAPIs(t, func(one *env) {
		api := reprieveAPI()
		if one.api.name == api.name {
			api = nativeAPI()
		}
		test(one, one.with(api))
	})
}

// TestOneAPITakesFromTheOther: it makes no difference which API the PodGroups on the two sides are of.
func TestOneAPITakesFromTheOther(t *testing.T) {
	t.Parallel()
	onBothSides(t, testOneAPITakesFromTheOther)
}

func testOneAPITakesFromTheOther(taker, victim *env) {
	taker.addNodes(4, "a", "b")
	victim.runningGang(groupSpec{name: "victims", minCount: 4, whole: true, priority: "low"}, 4, podSpec{cpus: 2})
	taker.gang(groupSpec{name: "urgent", minCount: 2, priority: "high"}, 2, podSpec{cpus: 2})
	taker.waitBound("urgent", 2)
	victim.waitBound("victims", 0)
	taker.waitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
	taker.waitEvent("urgent", "Preempting", taker.ns+"/victims")
	victim.waitCondition("victims", v1alpha1.ConditionDisruptionTarget, metav1.ConditionFalse, v1alpha1.ReasonPreemptionByScheduler)
	victim.waitEvent("victims", "Preempted", "PodGroup "+taker.ns+"/urgent")
}

// TestNameOfTwoPodGroups: a name that PodGroups of both APIs have stands for neither, until one has gone.
func TestNameOfTwoPodGroups(t *testing.T) {
	t.Parallel()
	onBothSides(t, testNameOfTwoPodGroups)
}

func testNameOfTwoPodGroups(stays, goes *env) {
	stays.addNodes(4, "a")
	goes.createGroup(groupSpec{name: "g", minCount: 1})
	stays.gang(groupSpec{name: "g", minCount: 2}, 2, podSpec{cpus: 1})
	// The one of reprieve.dev says so for both.
	stays.with(reprieveAPI()).waitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse,
		v1alpha1.ReasonAmbiguousName, "delete one of the two")
	stays.waitEvent("g-0", "FailedScheduling", "delete one of the two")
	stays.staysUnbound("g")
	goes.removeGroup("g")
	goes.letGroupGo("g")
	stays.waitBound("g", 2)
	stays.waitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
}

// TestEitherWayToJoin: pods join a group by label or in their spec, whichever API it is of.
func TestEitherWayToJoin(t *testing.T) {
	t.Parallel()
	onBothSides(t, testEitherWayToJoin)
}

func testEitherWayToJoin(one, other *env) {
	one.addNodes(4, "a")
	one.createGroup(groupSpec{name: "g", minCount: 2})
	one.create(podSpec{name: "one", group: "g", cpus: 1})
	one.staysUnbound("g")
	other.create(podSpec{name: "other", group: "g", cpus: 1})
	one.waitRunning("one", "other")
	one.waitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled, "2 members")
}

// TestPodOfTwoPodGroups: a pod that names one group by label and another in its spec belongs to neither.
func TestPodOfTwoPodGroups(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testPodOfTwoPodGroups)
}

func testPodOfTwoPodGroups(e *env) {
	e.addNodes(4, "a")
	byLabel, bySpec := reprieveAPI(), nativeAPI()
	e.createGroup(groupSpec{name: "x", minCount: 1})
	e.createGroup(groupSpec{name: "y", minCount: 1})
	e.create(podSpec{name: "torn", cpus: 1, change: func(pod *corev1.Pod) {
		byLabel.join(pod, "x")
		bySpec.join(pod, "y")
	}})
	e.waitEvent("torn", "FailedScheduling", `"x"`, `"y"`)
	e.with(byLabel).staysUnbound("x")
	// The groups themselves are as any.
	e.create(podSpec{name: "x", group: "x", cpus: 1}, podSpec{name: "y", group: "y", cpus: 1})
	e.waitRunning("x", "y")
	if got := e.nodeOf("torn"); got != "" {
		e.t.Errorf("The pod of two PodGroups is on %s\n%s", got, e.dump())
	}
}
