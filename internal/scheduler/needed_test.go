package scheduler

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/internal/admission"
)

// TestGroupThatGoes: of a whole group on the preemptor's node, all go, and any of them is enough.
func TestGroupThatGoes(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, node("node-0", "4"))
		r.gangOf("g", 4, 0).Whole = true
		var group []*corev1.Pod
		for _, member := range members("g", 4, "1", 0) {
			group = append(group, on(member, "node-0"))
		}
		r.create(group...)
		p := newPreemptor(r)
		r.create(p)
		r.cycle()
		if got := r.taken(0); len(got) != 4 {
			t.Fatalf("%v are taken", got)
		}
		r.succeed(0)
		r.cycles()
		// Nothing but the departure is to wake it.
		r.hub.waits.Resolve(r.hub.keyOf(p), admission.Going)
		r.remove(group[2])
		r.eventually("it is placed", func() bool { r.cycles(); return r.nodeOf(p.Name) == "node-0" })
	})
}

// TestHeardByTheQueueFirst: where the scheduler's queue hears first that the last victim has gone, its preemptor does not back off.
func TestHeardByTheQueueFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "1"))
	victim, p := on(pod("v", "", "1", 0), "node-0"), pod("p", "", "1", 5)
	r.create(victim)
	r.create(p)
	r.cycle()
	r.succeed(0)
	r.hub.waits.Resolve(podKey(p), admission.Going)
	if got := r.active(); len(got) > 0 {
		t.Fatalf("%v is to be tried with its victim there", got)
	}
	if _, err := r.plugin.hintPodDeleted(klog.Background(), p, victim, nil); err != nil {
		t.Fatal(err)
	}
	r.eventually("it is tried", func() bool { return slices.Contains(r.active(), "p") })
}
