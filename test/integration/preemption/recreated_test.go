package preemption

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/test/integration/preemption/turnstile"
)

// TestRecreatedUnderTheSameName replaces a victim by a new pod with the same name, while a call
// about the victim is in progress. The call must not affect the new pod.
func TestRecreatedUnderTheSameName(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		gang int
		held turnstile.Request
	}{
		"a pod, at the delete":               {held: turnstile.Request{Verb: "delete", Resource: "pods"}},
		"a pod, at the condition":            {held: turnstile.Request{Verb: "patch", Resource: "pods", Subresource: "status", Name: "victim"}},
		"a member of a group, at the delete": {gang: 1, held: turnstile.Request{Verb: "delete", Resource: "pods"}},
	}
	for name, c := range cases {
		each(t, name, c.gang > 0, func(e *env) {
			e.addNodes("a", 1, 4)
			e.addNodes("b", 1, 4)
			victim := unitSpec{name: "victim", cpus: 4, priority: "low", zone: "a", gang: c.gang}
			podName := victim.names()[0]
			e.createRunning(victim)
			before := e.Find(e.Context(), podName)
			held := c.held
			held.Namespace = e.Namespace
			known := len(e.proxy.Calls(held))
			hold := e.proxy.Hold(held)
			e.Cleanup(hold.End)
			urgent := unitSpec{name: "urgent", cpus: 4, priority: "mid", zone: "a"}
			e.create(urgent)
			e.Eventually("the call is on its way", func(context.Context) string {
				if len(e.proxy.Calls(held)) == known {
					return "it has not come"
				}
				return ""
			})
			e.remove(victim)
			// The new pod runs in another zone, so both it and the preemptor have room.
			again := victim
			again.zone, again.gang = "b", 0
			again.name = podName
			if c.gang > 0 {
				again.change = func(pod *corev1.Pod) { e.Groups.Join(pod, victim.name) }
			}
			e.createRunning(again)
			after := e.Find(e.Context(), podName)
			if before.UID == after.UID {
				e.Fatal("It is the same pod")
			}
			hold.End()
			e.waitRunning(urgent)
			e.Never("the other one is left alone", func(ctx context.Context) string {
				now := e.Find(ctx, podName)
				switch {
				case now == nil || now.UID != after.UID || now.DeletionTimestamp != nil:
					return "it has been deleted"
				case slices.ContainsFunc(now.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget }):
					return "it is a disruption target"
				case len(e.EventsOf(ctx, "urgent", "PreemptionFailed")) > 0:
					return "the preemptor is told of a failure"
				}
				return ""
			})
		})
	}
}
