package scheduler

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOrderNamesClasses checks the PriorityClasses in an order. Members must have the class of
// their group, and a deleted class must count as no class.
func TestOrderNamesClasses(t *testing.T) {
	t.Parallel()
	class := func(name string) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	objects := append(nodes(1, "2"), class("low"), class("high"), class("own"))
	r := newRig(t, objects...)
	g := r.gangOf("g", 1, 0)
	g.PriorityClassName = "low"
	r.groups.set(g)
	running := func(p *corev1.Pod, class string) {
		p.Spec.PriorityClassName, p.Status.Phase = class, corev1.PodRunning
		r.create(on(p, "node-0"))
	}
	running(members("g", 1, "1", 0)[0], "own")
	running(pod("single", "", "1", 0), "own")
	preemptor := pod("p", "", "2", 10)
	preemptor.Spec.PriorityClassName = "high"
	r.create(preemptor)
	r.eventually("it preempts", func() bool { r.cycles(); return len(r.evictor.orders) == 1 })
	order := r.evictor.orders[0]
	names := map[string]string{}
	for i := range order.Decision.Victims {
		names[order.Decision.Victims[i].Name] = order.VictimClasses[order.Decision.Victims[i].UID]
	}
	if want := map[string]string{"g-0": "low", "single": "own"}; order.PreemptorClass != "high" || !maps.Equal(names, want) {
		t.Errorf("The classes are %q and %v, want high and %v", order.PreemptorClass, names, want)
	}
	deleted := pod("deleted", "", "1", 0)
	deleted.Spec.PriorityClassName = "deleted"
	if got := r.plugin.classOf(deleted); got != "" {
		t.Errorf("The class of a pod whose class does not exist is %q", got)
	}
}
