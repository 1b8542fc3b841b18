package queue

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// inZone restricts a pod to the nodes of a zone.
func inZone(zone string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{"zone": zone}
	return pod
}

// zoned returns a node in a zone.
func zoned(name, zone string, gpus int64, change ...func(*corev1.Node)) *corev1.Node {
	n := node(name, gpus, change...)
	n.Labels = map[string]string{"zone": zone}
	return n
}

// shareOf returns the entitlement of a queue on the nodes that the pod can use, plus its usage on
// other nodes.
func shareOf(s *Snapshot, queue string, pod *corev1.Pod) int64 {
	i, _ := s.Tree.Find(queue)
	return s.entitled(KindOf(pod))[i][0]
}

// TestSharesOfWhatCanBeReached checks three equal queues that share the six GPUs of zone s. Each
// queue has four pods for that zone. The first queue runs all four pods, and the second queue runs
// two. The pods cannot use the eight GPUs outside of the zone.
func TestSharesOfWhatCanBeReached(t *testing.T) {
	small := func(name, node string) *corev1.Pod { return inZone("s", pod(name, 1, node)) }
	for name, tc := range map[string]struct {
		// beside adds nodes outside of the zone, and work for them.
		beside func(b *Ledger)
		want   int64
	}{
		"no other nodes": {beside: func(*Ledger) {}, want: 2},
		"idle nodes":     {beside: func(b *Ledger) { b.SetNode(zoned("l", "l", 8)) }, want: 2},
		"a taint that a large pod tolerates": {beside: func(b *Ledger) {
			b.SetNode(zoned("l", "l", 8, tainted))
			b.Charge(tolerating(pod("large", 8, "")), "d")
		}, want: 2},
		"a taint that a large pod of one of them tolerates": {beside: func(b *Ledger) {
			b.SetNode(zoned("l", "l", 8, tainted))
			b.Charge(tolerating(pod("large", 8, "")), "a")
		}, want: 2},
		"a taint that a pod of one of them tolerates, which could be in their zone": {beside: func(b *Ledger) {
			b.SetNode(zoned("l", "l", 8, tainted))
			b.Charge(tolerating(pod("large", 5, "")), "a")
		}, want: 2},
		"work that runs there": {beside: func(b *Ledger) {
			b.SetNode(zoned("l", "l", 8))
			b.Charge(inZone("l", pod("large", 8, "l")), "a")
		}, want: 2},
		"a backlog of one of them for the other zone": {beside: func(b *Ledger) {
			b.SetNode(zoned("l", "l", 8))
			for i := range 40 {
				b.Charge(inZone("l", pod(fmt.Sprint("l", i), 1, "")), "a")
			}
		}, want: 2},
		"nodes that are too small": {beside: func(b *Ledger) {
			for i := range 8 {
				b.SetNode(zoned(fmt.Sprint("l", i), "s", 0))
			}
		}, want: 2},
		"a pod that fits on no node": {beside: func(b *Ledger) {
			b.SetNode(zoned("l", "l", 8))
			b.Charge(pod("large", 9, ""), "a")
		}, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewLedger()
			for _, queue := range []string{"a", "b", "c", "d"} {
				b.SetQueue(queueUnder(queue, ""))
			}
			for i := range 6 {
				b.SetNode(zoned(fmt.Sprint("s", i), "s", 1))
			}
			tc.beside(b)
			for i := range 4 {
				b.Charge(small(fmt.Sprint("a", i), fmt.Sprint("s", i)), "a")
				b.Charge(small(fmt.Sprint("c", i), ""), "c")
			}
			for i, node := range []string{"s4", "s5", "", ""} {
				b.Charge(small(fmt.Sprint("b", i), node), "b")
			}
			b.AllCharged()
			s := b.Snapshot(gpus)
			one := small("one", "")
			for _, queue := range []string{"a", "b", "c"} {
				has := int64(0)
				if p := s.PlaceOf(KindOf(one)); p != nil {
					i, _ := s.Tree.Find(queue)
					has = p.Entitled[i][0] - p.Shares[i][0]
				}
				if got := shareOf(s, queue, one) - has; got != tc.want {
					t.Errorf("%s is entitled to %d, want %d", queue, got, tc.want)
				}
			}
			next, _ := s.Next([]Asker{{Queue: "b", Request: Amounts{gpu: 1}, Kind: KindOf(one)}, {Queue: "c", Request: Amounts{gpu: 1}, Kind: KindOf(one)}}, nil)
			if next != "c" {
				t.Errorf("the turn is %s's, want c's", next)
			}
			if s.Entitled(Asker{Queue: "b", Request: Amounts{gpu: 1}, Kind: KindOf(one)}) || !s.Entitled(Asker{Queue: "c", Request: Amounts{gpu: 1}, Kind: KindOf(one)}) {
				t.Error("b is entitled to more, or c to nothing")
			}
		})
	}
}

// TestQuotaInSeveralPlaces checks that a queue can use its quota in any zone, but only once in
// total.
func TestQuotaInSeveralPlaces(t *testing.T) {
	for name, tc := range map[string]struct {
		// elsewhere is the number of GPUs that the queue with the quota uses in the other zone.
		elsewhere int
		want      int64
	}{
		"none of it is used":     {want: 5},
		"part of it is used":     {elsewhere: 3, want: 4},
		"all of it is used":      {elsewhere: 4, want: 3},
		"more than that is used": {elsewhere: 6, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewLedger()
			b.SetQueue(queueUnder("a", "", quota(4)))
			b.SetQueue(queueUnder("b", ""))
			b.SetNode(zoned("s", "s", 6))
			b.SetNode(zoned("l", "l", 8))
			for i := range 6 {
				b.Charge(inZone("s", pod(fmt.Sprint("a", i), 1, "")), "a")
				b.Charge(inZone("s", pod(fmt.Sprint("b", i), 1, "s")), "b")
			}
			for i := range tc.elsewhere {
				b.Charge(inZone("l", pod(fmt.Sprint("l", i), 1, "l")), "a")
			}
			b.AllCharged()
			s := b.Snapshot(gpus)
			if got := shareOf(s, "a", inZone("s", pod("one", 1, ""))) - int64(tc.elsewhere); got != tc.want {
				t.Errorf("it is entitled to %d of the zone, want %d", got, tc.want)
			}
		})
	}
}

// TestLayoutIsKeptLevel changes nodes, pods and queues at random. A layout that was updated step by
// step must equal a new layout. The shares of a market must not exceed its capacity. The test also
// removes the pods of a deleted node: while such pods count, the shares depend on the number of
// pools.
func TestLayoutIsKeptLevel(t *testing.T) {
	divided := 0
	rapid.Check(t, func(rt *rapid.T) {
		b := NewLedger()
		queues, zones := []string{"a", "b", "c"}, []string{"x", "y", "z"}
		for _, queue := range queues {
			b.SetQueue(queueUnder(queue, "", quota(int64(rapid.IntRange(0, 4).Draw(rt, "quota")))))
		}
		b.AllCharged()
		node := func() string { return "n" + fmt.Sprint(rapid.IntRange(0, 5).Draw(rt, "node")) }
		// on has the node of each pod.
		on := make(map[types.UID]string)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				b.SetNode(zoned(node(), rapid.SampledFrom(zones).Draw(rt, "zone"), int64(rapid.IntRange(1, 8).Draw(rt, "size"))))
			case 1:
				b.SetClosedNode(zoned(node(), rapid.SampledFrom(zones).Draw(rt, "zone"), int64(rapid.IntRange(1, 8).Draw(rt, "size"))))
			case 2:
				b.SetNode(zoned(node(), "x", 4, tainted))
			case 3:
				name := node()
				b.DeleteNode(name)
				for uid, of := range on {
					if of == name {
						b.Forget(uid)
						delete(on, uid)
					}
				}
			case 4:
				b.Forget(podUID(rt))
			case 5:
				b.Snapshot(gpus)
			default:
				p := pod(string(podUID(rt)), int64(rapid.IntRange(1, 5).Draw(rt, "gpus")), "")
				if name := node(); b.nodes[name] != nil && b.nodes[name].node != nil && rapid.Bool().Draw(rt, "runs") {
					p.Spec.NodeName, on[p.UID] = name, name
				}
				if rapid.Bool().Draw(rt, "selects") {
					inZone(rapid.SampledFrom(zones).Draw(rt, "selected"), p)
				}
				if rapid.IntRange(0, 3).Draw(rt, "tolerates") == 0 {
					tolerating(p)
				}
				if p.Spec.NodeName != "" && rapid.IntRange(0, 5).Draw(rt, "goes") == 0 {
					p.DeletionTimestamp = &metav1.Time{}
				}
				b.Charge(p, rapid.SampledFrom([]string{"a", "b", "c", "", "typo"}).Draw(rt, "queue"))
			}
		}
		s := b.Snapshot(gpus)
		kept := b.layout
		b.relay()
		b.counted++
		again := b.Snapshot(gpus)
		if (kept == nil) != (b.layout == nil) {
			rt.Fatalf("there is a layout: %t, and at a second look: %t", kept != nil, b.layout != nil)
		}
		if diff := cmp.Diff(values(again, again.Shares), values(s, s.Shares)); diff != "" {
			rt.Fatalf("shares (-at a second look +kept):\n%s", diff)
		}
		if s.markets == nil {
			return
		}
		if len(s.markets.Markets[0]) > 1 {
			divided++
		}
		for i := range s.markets.Markets[0] {
			m := &s.markets.Markets[0][i]
			sum := int64(0)
			for _, top := range s.Tree.Top() {
				sum += m.Shares[top]
			}
			if most := s.markets.CapacityOf(m.Pools, 0); sum > most {
				rt.Fatalf("shares of %d add up to %d", most, sum)
			}
		}
	})
	if divided < 3 {
		t.Errorf("nodes were shared apart in %d cases only", divided)
	}
}

func podUID(rt *rapid.T) types.UID {
	return types.UID(fmt.Sprint("p", rapid.IntRange(0, 15).Draw(rt, "pod")))
}

// BenchmarkStanding computes the shares of 100 queues, with ten pools and with one.
func BenchmarkStanding(b *testing.B) {
	for _, zones := range []int{1, 10} {
		b.Run(fmt.Sprint(zones), func(b *testing.B) {
			ledger := NewLedger()
			for z := range zones {
				ledger.SetNode(zoned(fmt.Sprint("n", z), fmt.Sprint(z), int64(1000/zones)))
			}
			for q := range 100 {
				ledger.SetQueue(queueUnder(fmt.Sprint("q", q), "", quota(int64(q%5))))
				for z := range zones {
					for i := range 2 {
						p := inZone(fmt.Sprint(z), pod(fmt.Sprint(q, "-", z, "-", i), int64(3+q%7), ""))
						if i == 0 {
							p.Spec.NodeName = fmt.Sprint("n", z)
						} else if q%10 == 0 {
							p.Spec.NodeSelector = nil
						}
						ledger.Charge(p, fmt.Sprint("q", q))
					}
				}
			}
			ledger.AllCharged()
			names := []string{"cpu", "memory", gpu, "pods"}
			for b.Loop() {
				ledger.counted++
				ledger.Snapshot(names)
			}
		})
	}
}
