package scheduling

import (
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

// TestRestart is not parallel: the scheduler that it kills is everyone's.
func TestRestart(t *testing.T) {
	oneByOne(t, testRestart)
}

func testRestart(e *env) {
	t := e.t
	e.addNodes(4, "a", "b", "c", "d")
	held := func(pod *corev1.Pod) { pod.Finalizers = []string{finalizer} }

	// Waits for its last member, for a victim, and for room.
	e.createRunning(podSpec{name: "victim", cpus: 4, priority: "low", on: "c", change: held})
	t.Cleanup(func() { e.dropFinalizers("victim") })
	e.gang(groupSpec{name: "short", minCount: 2}, 1, podSpec{cpus: 1, on: "a"})
	e.gang(groupSpec{name: "taker", minCount: 2, priority: "high"}, 2, podSpec{cpus: 2, on: "c"})
	e.waitCondition("short", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonNotEnoughMembers)
	e.waitCondition("taker", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonPreempting)
	e.gang(groupSpec{name: "blocked", minCount: 3, priority: "low"}, 3, podSpec{cpus: 2, on: "d"})
	e.waitCondition("blocked", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)

	scheduler := e.run.Component(playground.Scheduler)
	if err := scheduler.Kill(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// What a scheduler leaves that dies between two bindings, and what happens while there is none.
	e.createGroup(groupSpec{name: "half", minCount: 4})
	bound := func(pod *corev1.Pod) { pod.Spec.NodeName = e.nodeName("b") }
	e.create(podSpec{name: "half-bound", group: "half", cpus: 1, change: bound}.times(2)...)
	e.create(podSpec{name: "half", group: "half", cpus: 1}.times(2)...)
	e.create(podSpec{name: "short-1", group: "short", cpus: 1, on: "a"})
	if err := scheduler.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.waitBound("half", 4)
	e.waitBound("short", 2)
	e.staysUnbound("taker")
	e.staysUnbound("blocked")
	e.dropFinalizers("victim")
	e.waitBound("taker", 2)
	e.remove("blocked-0")
	e.create(podSpec{name: "blocked-small", group: "blocked", cpus: 0, on: "d", priority: "low"})
	e.waitBound("blocked", 3)
}

// TestKilledWhilePlacing kills the scheduler at some point while gangs are being placed.
func TestKilledWhilePlacing(t *testing.T) {
	oneByOne(t, testKilledWhilePlacing)
}

func testKilledWhilePlacing(e *env) {
	t := e.t
	e.addNodes(8, "a", "b")
	scheduler := e.run.Component(playground.Scheduler)
	for _, g := range []string{"x", "y"} {
		e.gang(groupSpec{name: g, minCount: 8}, 8, podSpec{cpus: 1})
		if err := scheduler.Kill(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := scheduler.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	e.waitBound("x", 8)
	e.waitBound("y", 8)
}
