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

// unitSpec is a pod, or a gang of equal pods.
type unitSpec struct {
	name     string
	cpus     int64
	priority string
	// zone is the only permitted zone, or "". In a pinned unit, the n-th pod is bound to the n-th
	// node of the zone.
	zone   string
	pinned bool
	// gang is the number of members; 0 for a pod without a group.
	gang int
	// surplus is the number of members past minCount.
	surplus int
	// held pods have a finalizer, so they terminate until the test removes it.
	held   bool
	grace  int64
	change func(*corev1.Pod)
}

// names returns the names of the unit's pods.
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

// namesOf returns the names of the pods of units, sorted.
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

// create creates units. Groups have the disruption mode PodGroup.
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

// createRunning creates units and waits until they run.
func (e *env) createRunning(units ...unitSpec) {
	e.Helper()
	e.create(units...)
	for _, u := range units {
		e.waitRunning(u)
	}
}

// waitRunning waits until all pods of a unit run.
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

// standing returns the zone of all pods of a unit, "" if none of them has a node, or a description
// of any other state.
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

// deleted returns the names of the pods that the scheduler has asked to delete so far, each once,
// sorted.
func (e *env) deleted() []string {
	var out []string
	for _, c := range e.proxy.Calls(e.deletes("")) {
		out = append(out, c.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// deletes selects the scheduler's requests to delete a pod; "" for all pods.
func (e *env) deletes(pod string) turnstile.Request {
	return turnstile.Request{Verb: "delete", Resource: "pods", Namespace: e.Namespace, Name: pod}
}

// waitDeletes waits until the scheduler has asked to delete exactly the named pods.
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

// waitRefused waits until the scheduler has reported that a pod of the unit finds no node.
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

// remove deletes the pods of a unit at once.
func (e *env) remove(u unitSpec) {
	e.Helper()
	for _, name := range u.names() {
		now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
		if err := e.Kube.CoreV1().Pods(e.Namespace).Delete(e.Context(), name, now); err != nil {
			e.Fatalf("delete pod %s: %v", name, err)
		}
	}
}
