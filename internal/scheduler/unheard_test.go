package scheduler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// TestLeaderThatIsRefusedForGood checks a gang whose leader another plugin rejects. The framework
// then calls none of Reprieve's extension points. Another member must plan, and preempt for the
// members that can be scheduled.
func TestLeaderThatIsRefusedForGood(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "1")...)
	r.create(on(pod("v-0", "", "1", 0), "node-0"), on(pod("v-1", "", "1", 0), "node-1"))
	r.gangOf("g", 2, 10)
	all := members("g", 3, "1", 10)
	// The label puts the rejected pod into a class of its own for planning. A real pod would differ
	// by a ResourceClaim.
	refused := all[0]
	refused.Annotations, refused.Labels["kind"] = map[string]string{refusedBy: "for good"}, "other"
	r.snapshot()
	r.create(all[1])
	r.eventually("the first is known", func() bool { return r.sched.index.Exists(all[1]) })
	// The rejected pod arrives last, completes the gang and becomes its leader.
	r.create(refused)
	r.eventually("it comes", func() bool { return len(r.active()) > 0 })
	r.cycles()
	r.create(all[2])
	r.eventually("room is made", func() bool { r.cycles(); return len(r.evictor.orders) == 1 })
	if leader := r.sched.gangs.Leader(gangKey(key("g"))); leader == string(refused.UID) {
		t.Error("the member that cannot come leads")
	}
}

// TestAllAreRefusedForGood checks a gang whose members are all rejected by another plugin. Each
// member must lead once. Then no member may be retried until an event.
func TestAllAreRefusedForGood(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "1")...)
	r.gangOf("g", 2, 10)
	all := members("g", 3, "1", 10)
	for _, p := range all {
		p.Annotations = map[string]string{refusedBy: "for good"}
	}
	tried := 0
	r.meanwhile = func(*corev1.Pod) { tried++ }
	r.create(all...)
	r.never("they come again and again", time.Second, func() bool {
		for range len(r.active()) {
			r.cycle()
		}
		return tried > 4*len(all)
	})
	if tried == 0 {
		t.Error("none is tried")
	}
}

// TestPodThatIsRefusedForGood checks a single pod of a queue that another plugin rejects. The
// framework calls none of Reprieve's extension points, but the pod's turn must end, so that other
// work need not wait.
func TestPodThatIsRefusedForGood(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.sched.QueueSet(limitedQueue("a", "8"))
	refused := ofQueue("a", pod("p", "", "1", 10))
	refused.Annotations = map[string]string{refusedBy: "for good"}
	// The quota ledger cannot count a pod with a host port, so the pod needs a turn.
	refused.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	r.create(refused)
	r.eventually("its turn comes", func() bool { return len(r.active()) == 1 })
	if !r.sched.turns.IsUnderway(podKey(refused)) {
		t.Fatal("It has no turn")
	}
	r.cycle()
	if r.sched.turns.IsUnderway(podKey(refused)) {
		t.Error("its turn goes on")
	}
}

// TestBasicGroupMadeAGang checks a basic group whose members wait for turns one by one. When the
// PodGroup is replaced by a gang, these waits must end. No other event would end them.
func TestBasicGroupMadeAGang(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.sched.QueueSet(limitedQueue("a", "8"))
	r.sched.retries.leads.Store(false)
	basic := r.gangOf("g", 0, 0)
	basic.Queue = "a"
	r.groups.set(basic)
	all := members("g", 2, "1", 0)
	r.create(all...)
	r.eventually("they stand in line", func() bool { return r.sched.turns.Holds(podKey(all[0])) && r.sched.turns.Holds(podKey(all[1])) })
	r.groups.drop(key("g"))
	r.sched.GroupChanged(key("g"))
	r.queuedGang("g", "a", 2)
	r.sched.GroupChanged(key("g"))
	for _, pod := range all {
		if r.sched.turns.Holds(podKey(pod)) {
			t.Errorf("%s stands in line by itself", pod.Name)
		}
	}
	// This member enters the queue as a single pod, as if its PreEnqueue still saw the basic group.
	// The next check must end its turn.
	r.sched.turns.Enter(r.sched.placements.Waiter(podKey(all[0]), all[0], "a"), r.sched.clock.Now())
	r.sched.retries.leads.Store(true)
	r.eventually("it leaves", func() bool {
		return !r.sched.turns.Holds(podKey(all[0])) && !r.sched.turns.IsUnderway(podKey(all[0]))
	})
	r.eventually("the gang has its turn", func() bool { return len(r.active()) > 0 })
	r.cycles()
	r.waitBound("g-0", "g-1")
}

// TestOutcomeIsAwaited checks a member that has succeeded. The informer of pods reports the
// deletion, and the informer of finished pods reports the result. Between the two reports, the gang
// must keep its reservations. If the result is never reported, the member must count as lost.
func TestOutcomeIsAwaited(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// phase is the result of the member; "" if it is never reported.
		phase corev1.PodPhase
		// first is true if the result is reported before the deletion.
		first bool
		want  bool
	}{
		"it has succeeded":              {phase: corev1.PodSucceeded, want: true},
		"it has succeeded, heard first": {phase: corev1.PodSucceeded, first: true, want: true},
		"it has failed, heard first":    {phase: corev1.PodFailed, first: true},
		"it has gone":                   {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(2, "1")...)
			r.gangOf("g", 2, 10)
			all := members("g", 2, "1", 10)
			ended := on(all[0], "node-0")
			r.create(ended, on(pod("v", "", "1", 0), "node-1"), all[1])
			r.cycle()
			if !r.sched.reserved.Has(string(all[1].UID)) {
				t.Fatal("Nothing is promised")
			}
			hear := func() {
				if c.phase == "" {
					return
				}
				done := ended.DeepCopy()
				done.Status.Phase = c.phase
				if err := r.sched.finished.GetIndexer().Add(done); err != nil {
					t.Fatal(err)
				}
				r.sched.podWatch.memberFinished(done)
			}
			if c.first {
				hear()
			}
			removed := time.Now()
			r.remove(ended)
			if !c.first {
				// The informer's store changes before its handlers run, so wait for the handler.
				r.eventually("the hub has heard of it", func() bool {
					return len(r.sched.gangs.Ended(gangKey(key("g")), r.sched.clock.Now())) > 0
				})
			}
			kept := r.wants(0) && r.sched.reserved.Has(string(all[1].UID))
			if !c.first && time.Since(removed) > engine.ShortTime/2 {
				t.Log("The machine is too busy to tell: it has been awaited for long already")
				return
			}
			if kept != (c.want || !c.first) {
				t.Errorf("what was promised is kept: %t", kept)
			}
			if !c.first {
				hear()
			}
			if c.want {
				r.never("it is taken back", 2*engine.ShortTime, func() bool { return !r.wants(0) || !r.sched.reserved.Has(string(all[1].UID)) })
				return
			}
			r.eventually("its order is given up", func() bool { return !r.wants(0) })
		})
	}
}

// TestPromisedWorkWaitsForNoTurn checks a workload with a reservation that was recalled to its
// queue. The workload must use the room when the victims are gone, although other work is queued
// before it. Otherwise, the room would stay unused.
func TestPromisedWorkWaitsForNoTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "1")...)
	r.sched.QueueSet(limitedQueue("a", "8"))
	v, p := on(pod("v", "", "1", 0), "node-0"), ofQueue("a", pod("p", "", "1", 10))
	r.create(v, p)
	r.eventually("its turn has come", func() bool { return len(r.active()) == 1 })
	r.cycle()
	if !r.sched.reserved.Has(string(p.UID)) {
		t.Fatal("Nothing is promised")
	}
	r.sched.turns.Forget(podKey(p))
	r.sched.engine.Step(time.Time{}, engine.PodArrives{Pod: "uid-first", Key: workload.Key{Namespace: "ns", Name: "first", UID: "uid-first"}, Group: workload.Key{}})
	for i, name := range []string{"first", "p"} {
		waiter := admission.Waiter{Key: workload.Key{Namespace: "ns", Name: name, UID: "uid-" + name}, Queue: "a", Priority: int32(99 - i)}
		r.sched.turns.Enter(waiter, r.sched.clock.Now())
	}
	if !r.sched.turns.Holds(podKey(p)) {
		t.Fatal("It does not stand in the line")
	}
	r.succeed(0)
	r.remove(v)
	r.eventually("it comes for its room", func() bool { return len(r.active()) == 1 })
	if r.sched.turns.IsUnderway(podKey(p)) {
		t.Error("it has waited for a turn")
	}
}
