package priority

import (
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// testQueueOrder tests the order of the scheduling queue. Pairs of pods wait for the only free
// place on a node, and none of them may preempt. The pod that is first in the queue must get the
// place.
func testQueueOrder(e *env) {
	e.Create(stage.NewClass("order-low", 10, stage.Never), stage.NewClass("order-mid", 50, stage.Never), stage.NewClass("order-high", 100, stage.Never))
	cases := []struct {
		node string
		// first and second compete for the place on the node. first must win, although second is
		// older.
		first, second *corev1.Pod
	}{
		{"group-above-its-pods", e.pod("a-first", "high", "order-low", ""), e.pod("a-second", "", "order-mid", "")},
		{"group-below-its-pods", e.pod("b-first", "", "order-mid", ""), e.pod("b-second", "low", "order-high", "")},
		{"gang-above-its-pods", e.pod("c-first", "high-gang", "order-low", ""), e.pod("c-second", "mid", "order-high", "")},
		{"gang-below-its-pods", e.pod("d-first", "mid", "order-low", ""), e.pod("d-second", "low-gang", "order-high", "")},
		{"pods-alone", e.pod("e-first", "", "order-high", ""), e.pod("e-second", "", "order-mid", "")},
	}
	e.Create(e.group("high", basic("order-high")), e.group("mid", basic("order-mid")), e.group("low", basic("order-low")),
		e.group("high-gang", gangOf(1, "order-high")), e.group("low-gang", gangOf(1, "order-low")))
	e.waitResolved("high", 100, corev1.PreemptNever)
	e.waitResolved("mid", 50, corev1.PreemptNever)
	e.waitResolved("low", 10, corev1.PreemptNever)
	e.waitResolved("high-gang", 100, corev1.PreemptNever)
	e.waitResolved("low-gang", 10, corev1.PreemptNever)
	scheduler := e.Run.Component(playground.Scheduler)
	if err := scheduler.Kill(syscall.SIGTERM); err != nil {
		e.Fatal(err)
	}
	var winners, losers []string
	for _, c := range cases {
		e.AddNodes(1, c.node)
		for _, pod := range []*corev1.Pod{c.second, c.first} {
			pod.Spec.NodeSelector[corev1.LabelHostname] = e.NodeName(c.node)
			e.Create(pod)
		}
		winners, losers = append(winners, c.first.Name), append(losers, c.second.Name)
	}
	// The scheduler fills its queue with all pods before it schedules the first one.
	if err := scheduler.Start(e.Context()); err != nil {
		e.Fatal(err)
	}
	e.waitBound(winners...)
	e.stayUnbound(losers...)
}
