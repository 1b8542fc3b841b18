package preemption

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// exits maps a description to a function that ends a gang's need for its reserved room.
var exits = map[string]func(e *env, urgent unitSpec){
	"its PodGroup is deleted": func(e *env, urgent unitSpec) {
		e.RemoveGroup(urgent.name)
		// The PodGroups of scheduling.k8s.io have a finalizer while they have members. LetGroupGo
		// removes it.
		e.LetGroupGo(urgent.name)
	},
	"a member is deleted": func(e *env, urgent unitSpec) {
		if err := e.Kube.CoreV1().Pods(e.Namespace).Delete(e.Context(), urgent.names()[1], metav1.DeleteOptions{}); err != nil {
			e.Fatal(err)
		}
	},
	"all members are deleted": (*env).remove,
}

// byLabel changes the label with which a member names its PodGroup. It does not apply to PodGroups
// of scheduling.k8s.io, because pods name them in their spec.
func byLabel(e *env, urgent unitSpec) {
	const other = `{"metadata":{"labels":{"reprieve.dev/pod-group":"other"}}}`
	_, err := e.Kube.CoreV1().Pods(e.Namespace).Patch(e.Context(), urgent.names()[1], types.MergePatchType, []byte(other), metav1.PatchOptions{})
	if err != nil {
		e.Fatal(err)
	}
}

// promised creates a gang with two victims. One victim is gone, and the gang waits for the other
// victim. It also creates the pod next, with a lower priority, which must not get the reserved
// room.
func (e *env) promised() (urgent, next unitSpec) {
	e.Helper()
	const cpus = 4
	e.addNodes("a", 2, cpus)
	victims := []unitSpec{
		{name: "goes", cpus: cpus, priority: "low", zone: "a", held: true}, {name: "stays", cpus: cpus, priority: "low", zone: "a", held: true},
	}
	e.createRunning(victims...)
	urgent = unitSpec{name: "urgent", cpus: cpus, priority: "mid", zone: "a", gang: 2}
	e.create(urgent)
	e.Eventually("the victims leave, and both members are nominated", func(ctx context.Context) string {
		for _, v := range victims {
			if pod := e.Find(ctx, v.name); pod == nil || pod.DeletionTimestamp == nil {
				return v.name + " does not leave"
			}
		}
		for _, pod := range e.unit(ctx, urgent.name) {
			if pod.Status.NominatedNodeName == "" {
				return pod.Name + " is not nominated"
			}
		}
		return ""
	})
	e.LetGo("goes")
	e.Gone("goes")
	next = unitSpec{name: "next", cpus: cpus, priority: "below", zone: "a"}
	e.create(next)
	e.Never("the room is kept for the gang", func(ctx context.Context) string {
		if pod := e.Find(ctx, next.name); pod != nil && pod.Spec.NodeName != "" {
			return "the pod of a lower priority is on " + pod.Spec.NodeName
		}
		return ""
	})
	return urgent, next
}

// goesOn checks that the gang's reservation has ended: the pod next gets the room, and no member is
// nominated.
func (e *env) goesOn(urgent, next unitSpec) {
	e.Helper()
	e.waitRunning(next)
	e.Eventually("no member is nominated any more", func(ctx context.Context) string {
		for _, pod := range e.unit(ctx, urgent.name) {
			if pod.Status.NominatedNodeName != "" {
				return fmt.Sprintf("%s is nominated for %s", pod.Name, pod.Status.NominatedNodeName)
			}
		}
		return ""
	})
	e.LetGo("stays")
	e.Gone("stays")
	// The remaining room must not be reserved, so that another pod finds room.
	last := next
	last.name = "last"
	e.create(last)
	e.waitRunning(last)
	for _, pod := range e.unit(e.Context(), urgent.name) {
		if pod.Spec.NodeName != "" {
			e.Errorf("%s runs", pod.Name)
		}
	}
}

// TestPromisesEndWithTheirReason checks that the scheduler releases reserved room when the gang no
// longer needs it. Other pods must get the room even while the victims are terminating.
func TestPromisesEndWithTheirReason(t *testing.T) {
	t.Parallel()
	run := func(e *env, exit func(*env, unitSpec)) {
		urgent, next := e.promised()
		exit(e, urgent)
		e.goesOn(urgent, next)
	}
	for name, exit := range exits {
		each(t, name, true, func(e *env) { run(e, exit) })
	}
	each(t, "a member joins another PodGroup", false, func(e *env) { run(e, byLabel) })
}

// TestPromisesEndOverARestart kills the scheduler and ends the gang's need for its reserved room.
// The new scheduler must not restore the reservation. The test does not run in parallel with
// others, because they share the scheduler.
func TestPromisesEndOverARestart(t *testing.T) {
	run := func(name string, api stage.GroupAPI, exit func(*env, unitSpec)) {
		t.Run(name+"/"+api.Name, func(t *testing.T) {
			e := newEnv(t, api)
			urgent, next := e.promised()
			e.restart(func() { exit(e, urgent) })
			e.goesOn(urgent, next)
		})
	}
	for name, exit := range exits {
		run(name, stage.ReprieveGroups(), exit)
	}
	run("its PodGroup is deleted", stage.NativeGroups(t), exits["its PodGroup is deleted"])
	run("a member joins another PodGroup", stage.ReprieveGroups(), byLabel)
	t.Run("nothing happens meanwhile", func(t *testing.T) {
		e := newEnv(t, stage.ReprieveGroups())
		urgent, _ := e.promised()
		e.restart(func() {})
		e.Never("the room is kept", func(ctx context.Context) string {
			if pod := e.Find(ctx, "next"); pod != nil && pod.Spec.NodeName != "" {
				return "the pod of a lower priority is on " + pod.Spec.NodeName
			}
			return ""
		})
		e.LetGo("stays")
		e.waitRunning(urgent)
		if got := e.deleted(); len(got) != 2 {
			e.Errorf("%v were deleted, want the two victims", got)
		}
	})
}

// restart kills the scheduler, calls the function meanwhile, and starts the scheduler again.
func (e *env) restart(meanwhile func()) {
	e.Helper()
	scheduler := e.Run.Component(playground.Scheduler)
	if err := scheduler.Kill(syscall.SIGKILL); err != nil {
		e.Fatal(err)
	}
	meanwhile()
	if err := scheduler.Start(e.Context()); err != nil {
		e.Fatal(err)
	}
}
