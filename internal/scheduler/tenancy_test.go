package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/engine"
)

// teamQueue returns a Queue for the namespaces with the label of a team.
func teamQueue(name, team string) *v1alpha1.Queue {
	return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}},
	}}
}

// ofTeam sets the label of a team on the namespace of the test's pods.
func (r *rig) ofTeam(team string) {
	r.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"team": team}}}
	if _, err := r.client.CoreV1().Namespaces().Update(r.t.Context(), ns, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// TestBlockedByQueue checks a pod and a gang that may not use their queue. Both must not be
// planned, must get no turn and must count for no queue. All of this must change when their
// namespace gets access to the queue.
func TestBlockedByQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.ofTeam("blue")
	r.sched.QueueSet(teamQueue("a", "red"))
	r.queuedGang("g", "a", 2)
	r.create(append(members("g", 2, "1", 0), ofQueue("a", pod("p", "", "1", 0)))...)
	r.eventually("the gang hears why", func() bool {
		return r.sched.gangs.Verdict(gangKey(key("g"))).Reason == v1alpha1.ReasonQueueNotAllowed
	})
	r.never("they are tried", admission.Interval/2, func() bool { return len(r.active()) > 0 })
	if asked := r.sched.quotas.Snapshot([]string{"cpu"}).Requested[0][0]; asked != 0 {
		t.Errorf("the queue asks for %d", asked)
	}
	r.ofTeam("red")
	r.eventually("they have their turns, and are placed", func() bool {
		r.cycles()
		return r.nodeOf("p") != "" && r.nodeOf("g-0") != "" && r.nodeOf("g-1") != ""
	})
	if asked := r.sched.quotas.Snapshot([]string{"cpu"}).Requested[0][0]; asked != 3000 {
		t.Errorf("the queue asks for %d, want what the three have", asked)
	}
}

// TestBlockedGivesRoomBack checks a pod that loses access to its queue. The pod must lose its
// reservation. Its victims, which run in that queue, must not be evicted.
func TestBlockedGivesRoomBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "2")...)
	r.ofTeam("red")
	r.sched.QueueSet(teamQueue("a", "red"))
	victim := ofQueue("a", on(pod("victim", "", "2", 0), "node-0"))
	taker := ofQueue("a", pod("taker", "", "2", 10))
	r.create(victim, taker)
	r.eventually("it has its turn", func() bool { return len(r.active()) > 0 })
	r.cycle()
	if len(r.evictor.orders) != 1 {
		t.Fatalf("%d orders, want one", len(r.evictor.orders))
	}
	r.succeed(0)
	if len(r.sched.reserved.Of(podKey(taker))) != 1 {
		t.Fatal("it has been promised nothing")
	}
	r.sched.QueueSet(teamQueue("a", "blue"))
	if len(r.sched.reserved.Of(podKey(taker))) > 0 {
		t.Error("it keeps what it was promised")
	}
	if q := r.sched.ledger.QueueOf(victim); q != "a" {
		t.Errorf("what runs counts for %q", q)
	}
	if q := r.sched.ledger.QueueOf(taker); q != "" {
		t.Errorf("what waits counts for %q", q)
	}
}

// TestRequiredWithoutQueues checks that a profile that requires a queue accepts no work in a
// cluster without queues.
func TestRequiredWithoutQueues(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, "{queues: {required: true}}", nodes(1, "8")...)
	r.create(ofQueue("a", pod("p", "", "1", 0)))
	r.never("it is tried", admission.Interval/2, func() bool { return len(r.active()) > 0 })
	r.sched.QueueSet(limitedQueue("a", "8"))
	r.eventually("it is placed", func() bool {
		r.cycles()
		return r.nodeOf("p") != ""
	})
}

// TestQueueOfTheNamespaceChanges checks that blocked work is retried at once when the default queue
// of its namespace changes.
func TestQueueOfTheNamespaceChanges(t *testing.T) {
	t.Parallel()
	for name, group := range map[string]string{"a pod": "", "a gang": "p"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(1, "2")...)
			quota := func(name, cpus string) *v1alpha1.Queue {
				q := limitedQueue(name, "8")
				q.Spec.Quota = corev1.ResourceList{corev1.ResourceCPU: resourceMustParse(cpus)}
				return q
			}
			r.sched.QueueSet(quota("a", "0"))
			r.sched.QueueSet(quota("b", "2"))
			r.sched.QueueSet(quota("c", "0"))
			r.defaultQueue("a")
			r.create(ofQueue("c", on(pod("v", "", "2", 5), "node-0")))
			if group != "" {
				r.gangOf(group, 1, 0)
			}
			tried := 0
			r.meanwhile = func(*corev1.Pod) { tried++ }
			r.create(pod("p-0", group, "2", 0))
			r.eventually("it has had its turn in vain", func() bool { r.cycles(); return tried > 0 && len(r.active()) == 0 })
			if len(r.evictor.orders) != 0 {
				t.Fatalf("%d orders, want none by the first queue", len(r.evictor.orders))
			}
			r.defaultQueue("b")
			r.eventually("it takes its quota", func() bool { r.cycles(); return len(r.evictor.orders) == 1 })
		})
	}
}

// defaultQueue sets the default queue of the namespace of the test's pods.
func (r *rig) defaultQueue(name string) {
	r.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Annotations: map[string]string{v1alpha1.AnnotationDefaultQueue: name}}}
	if _, err := r.client.CoreV1().Namespaces().Update(r.t.Context(), ns, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// TestLimitThatIsLeft checks that work at the limit of its queue is retried when running work no
// longer counts for the queue.
func TestLimitThatIsLeft(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(r *rig){
		"its group is in another queue": func(r *rig) {
			r.queuedGang("runs", "b", 1)
			r.sched.GroupChanged(key("runs"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(1, "4")...)
			r.sched.QueueSet(limitedQueue("a", "2"))
			r.sched.QueueSet(limitedQueue("b", "2"))
			r.queuedGang("runs", "a", 1)
			r.create(on(pod("runs-0", "runs", "2", 5), "node-0"))
			p := ofQueue("a", pod("p", "", "2", 0))
			r.create(p)
			r.eventually("it is at the limit", func() bool { r.cycles(); return r.sched.waits.WaitsFor(podKey(p), engine.Queue) })
			leave(r)
			r.eventually("it is placed", func() bool { r.cycles(); return r.nodeOf("p") == "node-0" })
		})
	}
}

// TestLimitOfADeletedGroup checks that running work counts for the queue of its group even after
// the group is deleted. Otherwise, a user could exceed the limit of the queue.
func TestLimitOfADeletedGroup(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "4")...)
	r.sched.QueueSet(limitedQueue("a", "2"))
	r.queuedGang("runs", "a", 1)
	runs := on(pod("runs-0", "runs", "2", 5), "node-0")
	r.create(runs)
	p := ofQueue("a", pod("p", "", "2", 0))
	r.create(p)
	atLimit := func() bool { r.cycles(); return r.sched.waits.WaitsFor(podKey(p), engine.Queue) }
	r.eventually("it is at the limit", atLimit)
	r.groups.drop(key("runs"))
	r.sched.GroupChanged(key("runs"))
	if queue := r.sched.quotas.CountsFor("uid-runs-0"); queue != "a" {
		t.Errorf("the member counts for queue %q", queue)
	}
	r.eventually("it is at the limit still", atLimit)
	r.remove(runs)
	r.eventually("it is placed once the member is gone", func() bool { r.cycles(); return r.nodeOf("p") == "node-0" })
}

// TestGroupThatChangesItsQueue checks that a group loses its reservations when it moves to a queue
// that must not evict the group's victims.
func TestGroupThatChangesItsQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "4")...)
	for name, quota := range map[string]string{"a": "4", "b": "0", "c": "0"} {
		q := limitedQueue(name, "8")
		q.Spec.Quota = corev1.ResourceList{corev1.ResourceCPU: resourceMustParse(quota)}
		r.sched.QueueSet(q)
	}
	r.evictor.atOnce = func() error { return nil }
	r.create(ofQueue("c", on(pod("v", "", "4", 5), "node-0")))
	r.queuedGang("g", "a", 1)
	r.create(pod("g-0", "g", "4", 0))
	promised := func() bool {
		return len(r.sched.reserved.Of(gangKey(key("g")))) > 0 && !r.sched.waits.Evicting(gangKey(key("g")))
	}
	r.eventually("room is made for it", func() bool { r.cycles(); return promised() })
	r.queuedGang("g", "b", 1)
	r.sched.GroupChanged(key("g"))
	r.eventually("it gives it up", func() bool { return !promised() })
}
