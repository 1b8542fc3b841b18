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

// exits are the ways in which a gang stops needing the room that is being made for it.
var exits = map[string]func(e *env, urgent unitSpec){
	"its PodGroup is deleted": func(e *env, urgent unitSpec) {
		e.RemoveGroup(urgent.name)
		// The API server keeps a PodGroup of scheduling.k8s.io while it has members. LetGroupGo
		// removes the finalizer.
		e.LetGroupGo(urgent.name)
	},
	"a member is deleted": func(e *env, urgent unitSpec) {
		if err := e.Kube.CoreV1().Pods(e.Namespace).Delete(e.Context(), urgent.names()[1], metav1.DeleteOptions{}); err != nil {
			e.Fatal(err)
		}
	},
	"all members are deleted": (*env).remove,
}

// byLabel moves a member to another group by its label. Only members that name their PodGroup by a
// label can do that.
func byLabel(e *env, urgent unitSpec) {
	const other = `{"metadata":{"labels":{"reprieve.dev/pod-group":"other"}}}`
	_, err := e.Kube.CoreV1().Pods(e.Namespace).Patch(e.Context(), urgent.names()[1], types.MergePatchType, []byte(other), metav1.PatchOptions{})
	if err != nil {
		e.Fatal(err)
	}
}

// promised creates a gang that waits for the second of two victims, and a pod of a lower priority
// that gets no room meanwhile.
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

// goesOn waits until the next workload has the room, and no status reports it as reserved any more.
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
	// If a workload had a reservation for that room, the next pod would find no room.
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

// TestPromisesEndWithTheirReason checks that room reserved for a gang that no longer needs it is
// free for others at once, while the victims are still terminating.
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

// TestPromisesEndOverARestart kills the scheduler. Before the next one starts, a reservation that
// the API shows loses its reason. The test is not parallel, because other tests share the
// scheduler.
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

// restart kills the scheduler, calls meanwhile, and starts the scheduler again.
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
