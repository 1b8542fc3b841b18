package scheduling

import (
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestRestart does not run in parallel with other tests, because it kills the scheduler that they
// share.
func TestRestart(t *testing.T) {
	oneByOne(t, testRestart)
}

func testRestart(e *env) {
	e.AddNodes(4, "a", "b", "c", "d")

	// Three gangs wait when the scheduler is killed. "short" waits for a member, "taker" for a
	// victim, and "blocked" for room.
	e.createRunning(podSpec{name: "victim", cpus: 4, priority: "low", on: "c", change: stage.Hold})
	e.gang(stage.Group{Name: "short", MinCount: 2}, 1, podSpec{cpus: 1, on: "a"})
	e.gang(stage.Group{Name: "taker", MinCount: 2, Priority: "high"}, 2, podSpec{cpus: 2, on: "c"})
	e.WaitCondition("short", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonNotEnoughMembers)
	e.WaitCondition("taker", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonPreempting)
	e.gang(stage.Group{Name: "blocked", MinCount: 3, Priority: "low"}, 3, podSpec{cpus: 2, on: "d"})
	e.WaitCondition("blocked", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)

	scheduler := e.Run.Component(playground.Scheduler)
	if err := scheduler.Kill(syscall.SIGKILL); err != nil {
		e.Fatal(err)
	}
	// Create the state that a scheduler leaves if it is killed between two bindings.
	e.CreateGroup(stage.Group{Name: "half", MinCount: 4})
	bound := func(pod *corev1.Pod) { pod.Spec.NodeName = e.NodeName("b") }
	e.create(podSpec{name: "half-bound", group: "half", cpus: 1, change: bound}.times(2)...)
	e.create(podSpec{name: "half", group: "half", cpus: 1}.times(2)...)
	e.create(podSpec{name: "short-1", group: "short", cpus: 1, on: "a"})
	if err := scheduler.Start(e.Context()); err != nil {
		e.Fatal(err)
	}
	e.waitBound("half", 4)
	e.waitBound("short", 2)
	e.staysUnbound("taker")
	e.staysUnbound("blocked")
	e.LetGo("victim")
	e.waitBound("taker", 2)
	e.remove("blocked-0")
	e.create(podSpec{name: "blocked-small", group: "blocked", cpus: 0, on: "d", priority: "low"})
	e.waitBound("blocked", 3)
}

// TestKilledWhilePlacing kills the scheduler at a random time while it places gangs.
func TestKilledWhilePlacing(t *testing.T) {
	oneByOne(t, testKilledWhilePlacing)
}

func testKilledWhilePlacing(e *env) {
	e.AddNodes(8, "a", "b")
	scheduler := e.Run.Component(playground.Scheduler)
	for _, g := range []string{"x", "y"} {
		e.gang(stage.Group{Name: g, MinCount: 8}, 8, podSpec{cpus: 1})
		if err := scheduler.Kill(syscall.SIGKILL); err != nil {
			e.Fatal(err)
		}
		if err := scheduler.Start(e.Context()); err != nil {
			e.Fatal(err)
		}
	}
	e.waitBound("x", 8)
	e.waitBound("y", 8)
}
