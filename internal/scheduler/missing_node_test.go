package scheduler

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPodOnANodeThatDoesNotExist checks that a pod on a node that does not exist is no usage of its
// queue. It counts once the node exists. If the node is deleted, the pod counts until it is gone.
func TestPodOnANodeThatDoesNotExist(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.sched.QueueSet(limitedQueue("a", "8"))
	ghost := on(ofQueue("a", pod("ghost", "", "8", 0)), "later")
	r.create(ghost, on(ofQueue("a", pod("real", "", "1", 0)), "node-0"))
	r.eventually("a pod on a node counts", func() bool { return r.sched.quotas.CountsFor("uid-real") == "a" })
	if got := r.sched.quotas.CountsFor(ghost.UID); got != "" {
		t.Errorf("The pod counts for queue %q, and its node does not exist", got)
	}
	nodes := r.client.CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), node("later", "8"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the pod counts on its node", func() bool { return r.sched.quotas.IsOn(ghost.UID, "later") })
	if err := nodes.Delete(t.Context(), "later", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the node has gone", func() bool { return !r.sched.index.HasNode("later") })
	if r.sched.ledger.Recharge(ghost); !r.sched.quotas.IsOn(ghost.UID, "later") {
		t.Error("The pod may still run, and counts no more")
	}
}
