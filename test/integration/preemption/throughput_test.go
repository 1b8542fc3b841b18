package preemption

import (
	"context"
	"fmt"
	"testing"

	"github.com/reprieve-dev/reprieve/test/integration/preemption/turnstile"
)

// TestUnrelatedPodsBindDuringAPreemption checks that a preemption does not delay pods that fit
// without one. A proxy holds the deletion of the victims until these pods are bound.
func TestUnrelatedPodsBindDuringAPreemption(t *testing.T) {
	t.Parallel()
	const unrelated = 20
	cases := map[string]struct {
		victims int
		size    int64
		gang    int
	}{
		"one victim of a pod":                          {victims: 1, size: 20},
		"more victims than are deleted at a time":      {victims: 20, size: 1},
		"more victims of a gang than at a time":        {victims: 20, size: 1, gang: 2},
		"one victim, which is a gang, for another one": {victims: 1, size: 20, gang: 1},
	}
	for name, c := range cases {
		each(t, name, c.gang > 0, func(e *env) {
			e.addNodes("a", 1, 20)
			e.addNodes("b", 1, unrelated)
			for i := range c.victims {
				e.create(unitSpec{name: fmt.Sprintf("victim-%d", i), cpus: c.size, priority: "low", zone: "a", gang: min(c.gang, 1)})
			}
			for i := range c.victims {
				e.waitRunning(unitSpec{name: fmt.Sprintf("victim-%d", i)})
			}
			hold := e.proxy.Hold(e.deletes(""))
			e.Cleanup(hold.End)
			urgent := unitSpec{name: "urgent", cpus: 20 / int64(max(c.gang, 1)), priority: "mid", zone: "a", gang: c.gang}
			e.create(urgent)
			e.Eventually("the preemption is under way", func(context.Context) string {
				if len(e.deleted()) == 0 {
					return "nobody is to be deleted"
				}
				return ""
			})
			for i := range unrelated {
				e.create(unitSpec{name: fmt.Sprintf("unrelated-%d", i), cpus: 1, priority: "low", zone: "b"})
			}
			bindings := turnstile.Request{Verb: "create", Resource: "pods", Subresource: "binding", Namespace: e.Namespace}
			e.Eventually("all unrelated pods are bound", func(ctx context.Context) string {
				bound := 0
				for _, pod := range e.AllPods(ctx) {
					if e.zoneOf(pod.Spec.NodeName) == "b" {
						bound++
					}
				}
				if bound != unrelated {
					return fmt.Sprintf("%d of %d are", bound, unrelated)
				}
				return ""
			})
			hold.End()
			e.waitRunning(urgent)

			firstDelete := 0
			for _, d := range e.proxy.Calls(e.deletes("")) {
				if firstDelete == 0 || d.Answered < firstDelete {
					firstDelete = d.Answered
				}
			}
			before := 0
			for _, b := range e.proxy.Calls(bindings) {
				if b.Answered < firstDelete {
					before++
				}
			}
			if want := unrelated + c.victims; before != want {
				e.Errorf("%d bindings were over when the first delete was, want %d", before, want)
			}
			if got := len(e.deleted()); got != c.victims {
				e.Errorf("%v were deleted, want all %d victims", e.deleted(), c.victims)
			}
		})
	}
}

// TestManyPreemptorsAtOnce creates many preemptors at the same time. The number of evicted pods
// must be exactly the number that the preemptors need.
func TestManyPreemptorsAtOnce(t *testing.T) {
	t.Parallel()
	const nodes = 6
	for kind, gang := range map[string]int{"pods": 0, "gangs": 2} {
		each(t, kind, gang > 0, func(e *env) {
			e.addNodes("a", nodes, 4)
			var preemptors []unitSpec
			for i := range nodes {
				e.create(unitSpec{name: fmt.Sprintf("victim-%d", i), cpus: 2, priority: "low"},
					unitSpec{name: fmt.Sprintf("other-%d", i), cpus: 2, priority: "low"})
			}
			for i := range nodes {
				e.waitRunning(unitSpec{name: fmt.Sprintf("victim-%d", i)})
				e.waitRunning(unitSpec{name: fmt.Sprintf("other-%d", i)})
			}
			hold := e.proxy.Hold(e.deletes(""))
			e.Cleanup(hold.End)
			for i := range nodes / max(gang, 1) {
				u := unitSpec{name: fmt.Sprintf("urgent-%d", i), cpus: 2, priority: []string{"below", "mid", "above"}[i%3], gang: gang}
				e.create(u)
				preemptors = append(preemptors, u)
			}
			for _, u := range preemptors {
				e.waitRefused(u)
			}
			hold.End()
			for _, u := range preemptors {
				e.waitRunning(u)
			}
			exact := func(context.Context) string {
				if got := e.deleted(); len(got) != nodes {
					return fmt.Sprintf("%d were taken for %d: %v", len(got), nodes, got)
				}
				return ""
			}
			e.Never("a victim for each", exact)
		})
	}
}
