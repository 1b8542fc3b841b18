package core

import (
	"slices"
	"testing"
)

// TestSharesReturnBeforeQuotas has two queues above their quotas. Usage above the fair share is
// reclaimed first, from both queues. Usage between quota and fair share is reclaimed after that.
func TestSharesReturnBeforeQuotas(t *testing.T) {
	t.Parallel()
	b := clusterOf("gpu").node("n", 18).queues(queue("a", quota(6)), queue("b", quota(6)), queue("c", quota(6)))
	for _, name := range []string{"a1", "a2", "b1", "b2"} {
		b.pod(name, "n", 0, 1, inQueue(name[:1]))
	}
	b.pod("a3", "n", 0, 6, inQueue("a")).pod("b3", "n", 0, 6, inQueue("b"))
	p := with(podOf(0, 4), ofQueue("c"))
	s := b.shared(p)
	d, err := Decide(s, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The fair shares of a and b are 7 each, and each of them uses 8.
	var queues []string
	for _, v := range d.Victims {
		queues = append(queues, v.Queue)
	}
	slices.Sort(queues)
	if want := []string{"a", "b"}; !slices.Equal(queues, want) {
		t.Errorf("victims are in the queues %v, want %v; shares %v", queues, want, s.Queues.Shares)
	}
}
