package queue

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestDeadGangOfTwoSizes checks a gang that can never run: it needs members with 8, 8 and 7 GPUs,
// and the cluster has two nodes of 8. The gang must not count as demand. The members of each size
// would fit alone, so the ledger must consider both sizes together.
func TestDeadGangOfTwoSizes(t *testing.T) {
	b, group := NewLedger(), types.NamespacedName{Namespace: "ns", Name: "g"}
	for _, queue := range []string{"a", "b", "c"} {
		b.SetQueue(queueUnder(queue, ""))
	}
	b.SetNode(node("n", 8))
	b.SetNode(node("m", 8))
	b.AllCharged()
	for i, v := range []int64{8, 8, 7} {
		b.ChargeMember(pod(fmt.Sprint("g", i), v, ""), "a", Membership{Group: group})
	}
	b.SetGroupState(group, GroupState{Need: 3})
	// Queue b runs on all 16 GPUs. In queue c, a gang of 8 waits.
	for i := range 16 {
		b.Charge(pod(fmt.Sprint("b", i), 1, []string{"n", "m"}[i%2]), "b")
	}
	for i := range 8 {
		b.Charge(pod(fmt.Sprint("c", i), 1, ""), "c")
	}
	s := b.Snapshot(gpus)
	shares := values(s, s.Shares)
	if shares["a"] != 0 || shares["c"] != 8 {
		t.Errorf("the shares are %v, want none of a and 8 of c", shares)
	}
	if b.Servable("g0") {
		t.Error("a member of a gang that can never run counts as servable")
	}
}
