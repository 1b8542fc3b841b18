package preemption

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/test/integration/preemption/turnstile"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// unitSpec describes a preemption unit of the tests: a single pod, or a gang of equal pods.
type unitSpec struct {
	name     string
	cpus     int64
	priority string
	// zone is the zone that the pods must run in, or "" for any zone. If pinned is true, pod number
	// n must run on node number n of the zone.
	zone   string
	pinned bool
	// gang is the number of members, or 0 for a single pod.
	gang int
	// surplus is the number of members past minCount. So minCount is gang minus surplus.
	surplus int
	// If held is true, the pods have a finalizer. They stay terminating until the test removes it.
	held   bool
	grace  int64
	change func(*corev1.Pod)
}

// names returns the names of the pods in the unit.
func (u unitSpec) names() []string {
	if u.gang == 0 {
		return []string{u.name}
	}
	out := make([]string, u.gang)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", u.name, i)
	}
	return out
}

// namesOf returns the sorted names of the pods in units.
func namesOf(units ...unitSpec) []string {
	var out []string
	for _, u := range units {
		out = append(out, u.names()...)
	}
	slices.Sort(out)
	return out
}

func (e *env) build(u unitSpec, i int) *corev1.Pod {
	pod := stage.NewPod(e.Namespace, u.names()[i], u.priority, u.cpus)
	pod.Labels["unit"] = u.name
	pod.Spec.TerminationGracePeriodSeconds = &u.grace
	if u.zone != "" {
		pod.Spec.NodeSelector[zoneLabel] = u.zone
	}
	if u.pinned {
		pod.Spec.NodeSelector[corev1.LabelHostname] = e.nodeName(u.zone, i)
	}
	if u.gang > 0 {
		e.Groups.Join(pod, u.name)
	}
	if u.held {
		stage.Hold(pod)
	}
	if u.change != nil {
		u.change(pod)
	}
	return pod
}

// create creates units. A gang is evicted as a whole.
func (e *env) create(units ...unitSpec) {
	e.Helper()
	for _, u := range units {
		if u.gang > 0 {
			e.CreateGroup(stage.Group{Name: u.name, MinCount: int32(u.gang - u.surplus), Whole: true, Priority: u.priority})
		}
		for i := range u.names() {
			e.Create(e.build(u, i))
		}
	}
}

func (e *env) createRunning(units ...unitSpec) {
	e.Helper()
	e.create(units...)
	for _, u := range units {
		e.waitRunning(u)
	}
}

func (e *env) waitRunning(u unitSpec) {
	e.Helper()
	e.Eventually(u.name+" runs", func(ctx context.Context) string {
		running := 0
		for _, pod := range e.unit(ctx, u.name) {
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				running++
			}
		}
		if want := len(u.names()); running != want {
			return fmt.Sprintf("%d of %d do", running, want)
		}
		return ""
	})
}

// standing returns the zone of a unit whose pods all run in one zone, or "" if no pod has a node.
// In other cases it returns a description.
func (e *env) standing(ctx context.Context, name string) string {
	var zones []string
	for _, pod := range e.unit(ctx, name) {
		zones = append(zones, e.zoneOf(pod.Spec.NodeName))
	}
	slices.Sort(zones)
	if zones = slices.Compact(zones); len(zones) != 1 {
		return "in several places: " + strings.Join(zones, ", ")
	}
	return zones[0]
}

// deleted returns the sorted names of the pods that the scheduler has sent delete requests for.
func (e *env) deleted() []string {
	var out []string
	for _, c := range e.proxy.Calls(e.deletes("")) {
		out = append(out, c.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// deletes matches the scheduler's requests that delete a pod. An empty name matches all pods.
func (e *env) deletes(pod string) turnstile.Request {
	return turnstile.Request{Verb: "delete", Resource: "pods", Namespace: e.Namespace, Name: pod}
}

// waitDeletes waits until the scheduler has sent delete requests for exactly the named pods.
func (e *env) waitDeletes(want ...string) {
	e.Helper()
	slices.Sort(want)
	e.Eventually(fmt.Sprintf("%v are to be deleted", want), func(context.Context) string {
		if got := e.deleted(); !slices.Equal(got, want) {
			return fmt.Sprintf("%v are", got)
		}
		return ""
	})
}

// waitRefused waits until the scheduler has reported that a pod of the unit has no room.
func (e *env) waitRefused(u unitSpec) {
	e.Helper()
	e.Eventually(u.name+" has been tried", func(ctx context.Context) string {
		for _, pod := range e.unit(ctx, u.name) {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
					return ""
				}
			}
		}
		return "no condition says so"
	})
}

// remove deletes the pods of a unit without a grace period.
func (e *env) remove(u unitSpec) {
	e.Helper()
	for _, name := range u.names() {
		now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
		if err := e.Kube.CoreV1().Pods(e.Namespace).Delete(e.Context(), name, now); err != nil {
			e.Fatalf("delete pod %s: %v", name, err)
		}
	}
}
