package queue

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestEasedInOneZone checks a change of demand between two snapshots: the waiting work of queue c
// moves from zone s to zone l. Queue a then has a larger share of zone s and a smaller share of
// zone l, with the same sum. Work of a that waits for zone s may now reclaim. So reclaim must count
// as easier, because no other event retries that work.
func TestEasedInOneZone(t *testing.T) {
	b := NewLedger()
	for _, queue := range []string{"a", "b", "c"} {
		b.SetQueue(queueUnder(queue, ""))
	}
	b.AllCharged()
	for _, zone := range []string{"s", "l"} {
		b.SetNode(zoned(zone, zone, 6))
		for i := range 6 {
			b.Charge(inZone(zone, pod(fmt.Sprint("b", zone, i), 1, zone)), "b")
			b.Charge(inZone(zone, pod(fmt.Sprint("a", zone, i), 1, "")), "a")
		}
	}
	for i := range 6 {
		b.Charge(inZone("s", pod(fmt.Sprint("c", i), 1, "")), "c")
	}
	asks := Asker{Queue: "a", Request: Amounts{gpu: 3}, Kind: KindOf(inZone("s", pod("one", 1, "")))}
	before := b.Snapshot(gpus)
	for i := range 6 {
		b.Forget(types.UID(fmt.Sprint("c", i)))
		b.Charge(inZone("l", pod(fmt.Sprint("d", i), 1, "")), "c")
	}
	after := b.Snapshot(gpus)
	if before.Entitled(asks) || !after.Entitled(asks) {
		t.Fatalf("a is entitled to three GPUs of zone s before: %t, and after: %t", before.Entitled(asks), after.Entitled(asks))
	}
	if after.Eased("a") <= before.At() {
		t.Errorf("reclaim became easier for a at %d, before the standing at %d", after.Eased("a"), before.At())
	}
}
