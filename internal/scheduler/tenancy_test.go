package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/admission"
)

// teamQueue is a queue for namespaces of a team.
func teamQueue(name, team string) *v1alpha1.Queue {
	return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}},
	}}
}

// ofTeam has the namespace of all pods be a team's.
func (r *rig) ofTeam(team string) {
	r.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"team": team}}}
	if _, err := r.client.CoreV1().Namespaces().Update(r.t.Context(), ns, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// TestKeptOffQueues: a pod and a gang that may not be in their queue are not tried, keep no turn, and count for no queue;
// they are as soon as their namespace may use it.
func TestKeptOffQueues(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.ofTeam("blue")
	r.hub.QueueSet(teamQueue("a", "red"))
	r.queuedGang("g", "a", 2)
	r.create(append(members("g", 2, "1", 0), ofQueue("a", pod("p", "", "1", 0)))...)
	r.eventually("the gang hears why", func() bool {
		return r.hub.registry.Verdict(key("g")).Reason == v1alpha1.ReasonQueueNotAllowed
	})
	r.never("they are tried", admission.Interval/2, func() bool { return len(r.active()) > 0 })
	if asked := r.hub.board.Standing([]string{"cpu"}).Requested[0][0]; asked != 0 {
		t.Errorf("the queue asks for %d", asked)
	}
	r.ofTeam("red")
	r.eventually("they have their turns, and are placed", func() bool {
		r.cycles()
		return r.nodeOf("p") != "" && r.nodeOf("g-0") != "" && r.nodeOf("g-1") != ""
	})
	if asked := r.hub.board.Standing([]string{"cpu"}).Requested[0][0]; asked != 3000 {
		t.Errorf("the queue asks for %d, want what the three have", asked)
	}
}

// TestKeptOffGivesRoomBack: what a pod was promised goes to others when its queue is not for it any more, and its victims, which
// run in that queue, stay there.
func TestKeptOffGivesRoomBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "2")...)
	r.ofTeam("red")
	r.hub.QueueSet(teamQueue("a", "red"))
	victim := ofQueue("a", on(pod("victim", "", "2", 0), "node-0"))
	taker := ofQueue("a", pod("taker", "", "2", 10))
	r.create(victim, taker)
	r.eventually("it has its turn", func() bool { return len(r.active()) > 0 })
	r.cycle()
	if len(r.evictor.orders) != 1 {
		t.Fatalf("%d orders, want one", len(r.evictor.orders))
	}
	r.succeed(0)
	if len(r.hub.reserved.Of(podKey(taker))) != 1 {
		t.Fatal("it has been promised nothing")
	}
	r.hub.QueueSet(teamQueue("a", "blue"))
	if len(r.hub.reserved.Of(podKey(taker))) > 0 {
		t.Error("it keeps what it was promised")
	}
	if q := r.hub.queueOf(victim); q != "a" {
		t.Errorf("what runs counts for %q", q)
	}
	if q := r.hub.queueOf(taker); q != "" {
		t.Errorf("what waits counts for %q", q)
	}
}

// TestRequiredWithoutQueues: where no queue exists, a profile that requires one takes nothing.
func TestRequiredWithoutQueues(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, "{queues: {required: true}}", nodes(1, "8")...)
	r.create(ofQueue("a", pod("p", "", "1", 0)))
	r.never("it is tried", admission.Interval/2, func() bool { return len(r.active()) > 0 })
	r.hub.QueueSet(limitedQueue("a", "8"))
	r.eventually("it is placed", func() bool {
		r.cycles()
		return r.nodeOf("p") != ""
	})
}
