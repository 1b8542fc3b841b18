package scheduler

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/admission"
)

// TestStandbyGivesNoTurns checks that a standby admits no work. Otherwise, all queued work would be
// admitted by the time it leads.
func TestStandbyGivesNoTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "1"))
	r.sched.retries.leads.Store(false)
	r.sched.QueueSet(limitedQueue("a", "8"))
	r.create(on(pod("low", "", "1", 0), "node-0"))
	waiting := []*corev1.Pod{ofQueue("a", pod("p", "", "1", 10)), ofQueue("a", pod("q", "", "1", 10))}
	r.create(waiting...)
	r.eventually("they wait", func() bool { return r.sched.turns.Holds(podKey(waiting[0])) && r.sched.turns.Holds(podKey(waiting[1])) })
	r.never("one has its turn", 2*admission.Interval, func() bool { return len(r.active()) > 0 })
	before := time.Now()
	r.sched.Lead()
	r.eventually("one has its turn", func() bool { return len(r.active()) > 0 })
	if took := time.Since(before); took > admission.Interval/2 {
		t.Errorf("the first turn came with a tick of the loop, %v after it began to lead", took)
	}
}

// TestPlanWhoseNextIsBoundElsewhere checks a planned member that another scheduler binds before its
// cycle. The plan must continue with the members after it.
func TestPlanWhoseNextIsBoundElsewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(3, "1")...)
	g := r.gangOf("g", 3, 10)
	all := members("g", 3, "1", 10)
	r.create(all...)
	r.cycle()
	next := r.sched.gangs.Next(gangKey(g.Key))
	if r.sched.gangs.Planned(gangKey(g.Key)) != 2 || next == "" {
		t.Fatalf("%d members are planned after the first one's cycle", r.sched.gangs.Planned(gangKey(g.Key)))
	}
	last := ""
	for _, p := range all {
		if _, planned := r.sched.gangs.PlannedNode(gangKey(g.Key), string(p.UID)); planned && string(p.UID) != next {
			last = p.Name
		}
		if string(p.UID) != next {
			continue
		}
		node, _ := r.sched.gangs.PlannedNode(gangKey(g.Key), string(p.UID))
		if err := r.client.CoreV1().Pods(p.Namespace).Bind(t.Context(), &corev1.Binding{
			ObjectMeta: p.ObjectMeta, Target: corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r.eventually("the one after it is tried", func() bool { return slices.Equal(r.active(), []string{last}) })
	r.cycles()
	r.waitBound("g-0", "g-1", "g-2")
}

// TestPromiseOfOneThatIsPartOfAGangSince checks a single pod with a reservation whose group becomes
// a gang. The pod loses the reservation, because the gang needs other room, and no pod is evicted
// for it.
func TestPromiseOfOneThatIsPartOfAGangSince(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "1"))
	r.gangOf("g", 0, 10)
	r.create(on(pod("low", "", "1", 0), "node-0"))
	p := members("g", 1, "1", 10)[0]
	r.create(p)
	r.cycle()
	if !r.wants(0) || len(r.sched.reserved.Of(podKey(p))) == 0 {
		t.Fatal("no room is made for the pod")
	}
	g := r.gangOf("g", 3, 10)
	r.sched.GroupChanged(g.Key)
	if r.wants(0) {
		t.Error("its victims still go")
	}
	if len(r.sched.reserved.Of(podKey(p))) > 0 {
		t.Error("room is still kept for the pod by itself")
	}
}
