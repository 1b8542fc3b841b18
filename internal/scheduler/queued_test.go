package scheduler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// limitedQueue is one that may use so many CPUs.
func limitedQueue(name, cpus string) *v1alpha1.Queue {
	return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{
		Limit: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)},
	}}
}

// queuedGang makes a gang in a queue.
func (r *rig) queuedGang(name, queue string, minCount int) {
	g := r.gangOf(name, minCount, 0)
	g.Queue = queue
	r.groups.set(g)
}

// TestGangAtTheLimitIsTriedOnce: what its queue does not let one member plan, it lets none.
func TestGangAtTheLimitIsTriedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.hub.QueueSet(limitedQueue("a", "2"))
	r.queuedGang("g", "a", 3)
	r.create(members("g", 3, "1", 0)...)
	r.eventually("the gang has its turn", func() bool { return len(r.active()) > 0 })
	r.cycle()
	if got := r.hub.registry.Verdict(key("g")).Reason; got != v1alpha1.ReasonQueueLimit {
		t.Fatalf("the gang waits for %q, want the limit", got)
	}
	// Long enough for another turn, which takes milliseconds.
	deadline := time.Now().Add(firstRest / 2)
	for time.Now().Before(deadline) {
		if names := r.active(); len(names) > 0 {
			t.Fatalf("%v are to be tried, and nothing has changed", names)
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.hub.QueueSet(limitedQueue("a", "3"))
	r.eventually("the gang has another turn", func() bool { return len(r.active()) > 0 })
	r.cycles()
	r.waitBound("g-0", "g-1", "g-2")
}

// TestReplacementOfAMember: a gang that has members on nodes, and not enough, does not wait for other work of its queue.
func TestReplacementOfAMember(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "2")...)
	r.hub.QueueSet(limitedQueue("a", "8"))
	r.queuedGang("g", "a", 2)
	r.create(members("g", 2, "1", 0)...)
	r.eventually("the gang has its turn", func() bool { return len(r.active()) > 0 })
	r.cycles()
	r.waitBound("g-0", "g-1")
	again := pod("g-2", "g", "1", 0)
	if !r.hub.waitsForTurn(again) {
		t.Error("what a whole gang has more does not wait")
	}
	r.hub.turns.forget(r.hub.ownerOf(again))
	r.remove(members("g", 2, "1", 0)[0])
	if r.hub.waitsForTurn(again) {
		t.Error("the replacement waits behind others")
	}
}

// TestChargedAsItIsNow: what has been listed may have changed, or gone, before it counts.
func TestChargedAsItIsNow(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.hub.QueueSet(limitedQueue("a", "8"))
	listed := ofQueue("a", on(pod("p", "", "1", 0), "node-0"))
	r.hub.chargeAgain(listed)
	if r.hub.board.Knows(listed.UID) {
		t.Error("one that has gone counts")
	}
	r.create(ofQueue("a", pod("p", "", "1", 0)))
	r.hub.chargeAgain(listed)
	s := r.hub.board.Standing([]string{"cpu"})
	if s.Allocated[0][0] != 0 || s.Requested[0][0] != 1000 {
		t.Errorf("allocated %v and requested %v, want what it is now", s.Allocated, s.Requested)
	}
}
