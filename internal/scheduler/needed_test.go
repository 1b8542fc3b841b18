package scheduler

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/internal/engine"
)

// TestGroupThatGoes checks a preemptor whose victims are all members of a group on one node. The
// room of one victim is enough, so the preemptor must be placed as soon as any of the victims is
// gone.
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
		// From here on, only the departure of the pod may retry the preemptor.
		r.sched.waits.Resolve(r.sched.index.KeyOf(p), engine.Going)
		r.remove(group[2])
		r.eventually("it is placed", func() bool { r.cycles(); return r.nodeOf(p.Name) == "node-0" })
	})
}

// TestHeardByTheQueueFirst checks that a preemptor does not back off if the scheduler's queue is
// the first component to learn that the last victim is gone.
func TestHeardByTheQueueFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "1"))
	victim, p := on(pod("v", "", "1", 0), "node-0"), pod("p", "", "1", 5)
	r.create(victim)
	r.create(p)
	r.cycle()
	r.succeed(0)
	r.sched.waits.Resolve(podKey(p), engine.Going)
	if got := r.active(); len(got) > 0 {
		t.Fatalf("%v is to be tried with its victim there", got)
	}
	if _, err := r.plugin.hintPodDeleted(klog.Background(), p, victim, nil); err != nil {
		t.Fatal(err)
	}
	r.eventually("it is tried", func() bool { return slices.Contains(r.active(), "p") })
}
