package queue

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestLayoutReturnsAfterManyClasses creates more than mostClasses different kinds of pending pods
// and removes them. While they exist, all nodes are one pool. Afterwards, the shares must be the
// same as in a ledger that never had these pods.
func TestLayoutReturnsAfterManyClasses(t *testing.T) {
	share := func(crowd bool) (int64, bool) {
		b := NewLedger()
		for _, queue := range []string{"a", "b", "c"} {
			b.SetQueue(queueUnder(queue, ""))
		}
		b.SetNode(zoned("s", "s", 6))
		large := zoned("l", "l", 800)
		for i := range 70 {
			large.Labels[fmt.Sprint("l", i)] = "here"
		}
		b.SetNode(large)
		// Queue a runs on four GPUs of zone s. Pods of b and c wait for GPUs of zone s.
		for i := range 4 {
			b.Charge(inZone("s", pod(fmt.Sprint("a", i), 1, "s")), "a")
			b.Charge(inZone("s", pod(fmt.Sprint("b", i), 1, "")), "b")
			b.Charge(inZone("s", pod(fmt.Sprint("c", i), 1, "")), "c")
		}
		b.AllCharged()
		if crowd {
			for i := range 70 {
				p := pod(fmt.Sprint("x", i), 1, "")
				p.Spec.NodeSelector = map[string]string{fmt.Sprint("l", i): "here"}
				b.Charge(p, "a")
			}
			b.Snapshot(gpus)
			for i := range 70 {
				b.Forget(types.UID(fmt.Sprint("x", i)))
			}
		}
		s := b.Snapshot(gpus)
		return shareOf(s, "a", inZone("s", pod("one", 1, ""))), s.markets != nil
	}
	want, divided := share(false)
	got, dividedAfter := share(true)
	if got != want || divided != dividedAfter {
		t.Errorf("a is entitled to %d (divided: %t) after pods of many kinds came and went, want %d (divided: %t)", got, dividedAfter, want, divided)
	}
}
