package queue

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPlentyEnds checks the changes that end plenty.
func TestPlentyEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(b *Ledger)
		want    bool
	}{
		"more waits":                                {happens: func(b *Ledger) { several(b, "b", 4, 2) }},
		"more than there is room":                   {happens: func(b *Ledger) { several(b, "b", 9, 2) }, want: true},
		"of another kind":                           {happens: func(b *Ledger) { several(b, "a", 1, 1) }, want: true},
		"it finds its place":                        {happens: func(b *Ledger) { b.Charge(pod("b2-0", 2, "n"), "b") }},
		"something runs that nothing has scheduled": {happens: func(b *Ledger) { b.Charge(pod("x", 1, "n"), "") }, want: true},
		"others keep it off":                        {happens: func(b *Ledger) { b.Charge(repelling(pod("x", 0, "")), "") }, want: true},
		"a node goes":                               {happens: func(b *Ledger) { b.DeleteNode("m") }, want: true},
		"a node is labelled": {happens: func(b *Ledger) {
			b.SetNode(roomy("m", 8, func(n *corev1.Node) { n.Labels = map[string]string{"zone": "here"} }))
		}, want: true},
		"a limit":      {happens: func(b *Ledger) { b.SetQueue(queueUnder("b", "", limit(1))) }, want: true},
		"a queue goes": {happens: func(b *Ledger) { b.DeleteQueue("a") }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := boardOf(queueUnder("a", ""), queueUnder("b", ""))
			b.SetNode(roomy("n", 8))
			b.SetNode(roomy("m", 8))
			several(b, "b", 1, 2)
			if !b.Judge(none) {
				t.Fatal("there is not plenty of room")
			}
			tc.happens(b)
			told := false
			select {
			case <-b.PlentyEnds():
				told = true
			default:
			}
			if told != tc.want {
				t.Errorf("it is told that there is not plenty any more: %v, want %v", told, tc.want)
			}
			if tc.want && b.Judged() {
				t.Error("there is plenty")
			}
		})
	}
}

// TestNoPlentyBeforeAllAreCharged checks that there is no plenty until all running pods are
// charged. Until then, nodes may look empty.
func TestNoPlentyBeforeAllAreCharged(t *testing.T) {
	b := NewLedger()
	b.SetNode(roomy("n", 8))
	if first, _ := b.SetQueue(queueUnder("b", "")); !first {
		t.Fatal("it is not the first queue")
	}
	several(b, "b", 1, 2)
	if b.Judge(none) {
		t.Error("there is plenty of room, for all that is known")
	}
	b.SetQueue(queueUnder("a", ""))
	if b.Judge(none) {
		t.Error("there is plenty of room once there is another queue")
	}
	b.AllCharged()
	if !b.Judge(none) {
		t.Error("there is not plenty of room")
	}
}

// TestPlentyWhileAGroupIsBound checks that no member counts twice while some members of its group
// are already bound.
func TestPlentyWhileAGroupIsBound(t *testing.T) {
	const size = 6
	b := boardOf(queueUnder("b", ""))
	b.SetNode(roomy("n", 8))
	member := func(i int, node string) {
		b.ChargeMember(pod(fmt.Sprint("g", i), 1, node), "b", Membership{Group: crowdGroup})
	}
	for i := range size {
		member(i, "")
	}
	b.SetGroupState(crowdGroup, GroupState{Need: size})
	if !b.Judge(none) {
		t.Fatal("there is not plenty of room")
	}
	for i := range size {
		member(i, "n")
		b.SetGroupState(crowdGroup, GroupState{Need: size - i - 1})
		if !b.Plenty("b") {
			t.Fatalf("there is not plenty of room with %d members bound", i+1)
		}
	}
}

// TestPlentyIsBounded checks that Judge gives up if it would need too many comparisons.
func TestPlentyIsBounded(t *testing.T) {
	const nodes = 6000
	b := boardOf(queueUnder("b", ""))
	for i := range nodes {
		b.SetNode(roomy(fmt.Sprint("n", i), 8, func(n *corev1.Node) { n.Labels = map[string]string{"zone": "here", "row": "1"} }))
	}
	comes := func(i int) {
		b.Charge(with(selecting(pod(fmt.Sprint("b", i), 1, ""), "zone", "here"), func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: fmt.Sprint("t", i), Operator: corev1.TolerationOpExists}}
		}), "b")
	}
	few := mostComparisons/nodes - 1
	for i := range few {
		comes(i)
	}
	if !b.Judge(none) {
		t.Errorf("there is not plenty of room for %d kinds", few)
	}
	for i := range 2 {
		comes(few + i)
	}
	if b.Judge(none) {
		t.Errorf("%d kinds are compared with %d nodes", few+2, nodes)
	}
}
