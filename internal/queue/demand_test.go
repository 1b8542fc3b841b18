package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestDemand checks the fair share of queue a, which depends on its demand. Queues a and b have one
// parent. There are two nodes with 8 GPUs, and queue b demands all of them in pods of one GPU.
func TestDemand(t *testing.T) {
	group := types.NamespacedName{Namespace: "ns", Name: "g"}
	gangOf := func(b *Ledger, now GroupState, requests ...int64) {
		for i, v := range requests {
			b.ChargeMember(pod(fmt.Sprintf("g%d", i), v, ""), "a", Membership{Group: group})
		}
		b.SetGroupState(group, now)
	}
	for name, tc := range map[string]struct {
		limits map[string]int64
		asks   func(*Ledger)
		want   int64
	}{
		"pods that fit": {asks: func(b *Ledger) { b.Charge(pod("a1", 8, ""), "a") }, want: 8},
		"more of them than fit at once": {asks: func(b *Ledger) {
			for i := range 3 {
				b.Charge(pod(fmt.Sprintf("a%d", i), 8, ""), "a")
			}
		}, want: 8},
		"a pod larger than any node": {asks: func(b *Ledger) { b.Charge(pod("a1", 9, ""), "a") }},
		"beside one that fits": {asks: func(b *Ledger) {
			b.Charge(pod("a1", 9, ""), "a")
			b.Charge(pod("a2", 3, ""), "a")
		}, want: 3},
		"a larger node has come": {asks: func(b *Ledger) {
			b.Charge(pod("a1", 9, ""), "a")
			b.Snapshot(gpus)
			b.SetNode(node("large", 16))
		}, want: 9},
		"the only node that is large enough is closed": {asks: func(b *Ledger) {
			b.SetNode(node("large", 16))
			b.Charge(pod("a1", 9, ""), "a")
			b.Snapshot(gpus)
			b.SetClosedNode(node("large", 16))
		}},
		"what no node lists may come from elsewhere": {asks: func(b *Ledger) {
			p := pod("a1", 8, "")
			p.Spec.Containers[0].Resources.Requests["example.com/claimed"] = list(1)[gpu]
			b.Charge(p, "a")
		}, want: 8},
		"a node selector that no node matches": {asks: func(b *Ledger) { b.Charge(selecting(pod("a1", 4, ""), "zone", "nowhere"), "a") }},
		"one that a node matches":              {asks: func(b *Ledger) { b.Charge(selecting(pod("a1", 4, ""), "zone", "here"), "a") }, want: 4},
		"the node that matched is another one now": {asks: func(b *Ledger) {
			b.Charge(selecting(pod("a1", 4, ""), "zone", "here"), "a")
			b.Snapshot(gpus)
			b.SetNode(node("m", 8))
		}},
		"a gang of more than the nodes that match hold": {asks: func(b *Ledger) {
			for i := range 3 {
				b.ChargeMember(selecting(pod(fmt.Sprintf("g%d", i), 4, ""), "zone", "here"), "a", Membership{Group: group})
			}
			b.SetGroupState(group, GroupState{Need: 3})
		}},
		"a taint on all nodes": {asks: func(b *Ledger) {
			b.SetNode(node("n", 8, tainted))
			b.SetNode(node("m", 8, tainted))
			b.Charge(pod("a1", 4, ""), "a")
		}},
		"a taint on all nodes, which it tolerates": {asks: func(b *Ledger) {
			b.SetNode(node("n", 8, tainted))
			b.SetNode(node("m", 8, tainted))
			b.Charge(tolerating(pod("a1", 4, "")), "a")
		}, want: 4},
		"one pod above the queue's limit": {
			limits: map[string]int64{"a": 4}, asks: func(b *Ledger) { b.Charge(pod("a1", 5, ""), "a") },
		},
		"one pod above the parent's limit": {
			limits: map[string]int64{"top": 4}, asks: func(b *Ledger) { b.Charge(pod("a1", 5, ""), "a") },
		},
		"the limit has been raised": {
			limits: map[string]int64{"a": 4}, asks: func(b *Ledger) {
				b.Charge(pod("a1", 5, ""), "a")
				b.Snapshot(gpus)
				b.SetQueue(queueUnder("a", "top", limit(6)))
			}, want: 5,
		},
		"one that runs above the limit counts up to it": {
			limits: map[string]int64{"a": 4}, asks: func(b *Ledger) { b.Charge(pod("a1", 5, "n"), "a") }, want: 4,
		},
		"a gang":                      {asks: func(b *Ledger) { gangOf(b, GroupState{Need: 3}, 2, 2, 2) }, want: 6},
		"a gang that is held":         {asks: func(b *Ledger) { gangOf(b, GroupState{Held: true, Need: 3}, 2, 2) }},
		"not yet known how it stands": {asks: func(b *Ledger) { b.ChargeMember(pod("g0", 2, ""), "a", Membership{Group: group}) }},
		"a gang that is whole now": {asks: func(b *Ledger) {
			gangOf(b, GroupState{Held: true, Need: 3}, 2, 2)
			b.Snapshot(gpus)
			gangOf(b, GroupState{Need: 3}, 2, 2, 2)
		}, want: 6},
		"a gang larger than all nodes": {asks: func(b *Ledger) { gangOf(b, GroupState{Need: 3}, 8, 8, 8) }},
		"a gang that runs in part": {asks: func(b *Ledger) {
			b.ChargeMember(pod("g9", 2, "n"), "a", Membership{Group: group})
			gangOf(b, GroupState{Held: true, Need: 2}, 2)
		}, want: 2},
		"a gang above the limit": {
			limits: map[string]int64{"a": 4}, asks: func(b *Ledger) { gangOf(b, GroupState{Need: 3}, 2, 2, 2) },
		},
		"a gang within the limit, whose surplus is not": {
			limits: map[string]int64{"a": 4}, asks: func(b *Ledger) { gangOf(b, GroupState{Need: 2}, 2, 2, 2) }, want: 4,
		},
		"members of two kinds": {
			limits: map[string]int64{"a": 4}, asks: func(b *Ledger) { gangOf(b, GroupState{Need: 2}, 1, 3, 3) }, want: 4,
		},
		"a member larger than any node": {asks: func(b *Ledger) { gangOf(b, GroupState{Need: 2}, 1, 9) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewLedger()
			b.SetNode(node("n", 8))
			b.SetNode(node("m", 8, func(n *corev1.Node) { n.Labels = map[string]string{"zone": "here"} }))
			for name, parent := range map[string]string{"top": "", "a": "top", "b": "top"} {
				q := queueUnder(name, parent)
				if v, ok := tc.limits[name]; ok {
					limit(v)(&q.Spec)
				}
				b.SetQueue(q)
			}
			for i := range 16 {
				b.Charge(pod(fmt.Sprintf("b%d", i), 1, ""), "b")
			}
			// The weights are equal. So with enough demand, a gets 8 of 16 GPUs, or 16 of 32 with a
			// large node.
			tc.asks(b)
			s := b.Snapshot(gpus)
			if got := values(s, s.Shares)["a"]; got != tc.want {
				t.Errorf("a has a share of %d, want %d", got, tc.want)
			}
		})
	}
}

func selecting(p *corev1.Pod, label, value string) *corev1.Pod {
	p.Spec.NodeSelector = map[string]string{label: value}
	return p
}

func tainted(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: "kept", Effect: corev1.TaintEffectNoSchedule}}
}

// tolerating adds a toleration for the taint of the tests' tainted nodes to a pod.
func tolerating(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "kept", Operator: corev1.TolerationOpExists}}
	return pod
}

// TestDemandIsTheSameAnyWay checks that the ledger depends only on the last state of each object,
// not on earlier changes.
func TestDemandIsTheSameAnyWay(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	queues := []string{"a", "b"}
	group := func(i int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprintf("g%d", i)} }
	for range 200 {
		pods, groups, states, nodes := make(map[string]*corev1.Pod), make(map[string]int), make(map[int]GroupState), make(map[string]*corev1.Node)
		b := boardOf(queueUnder("a", "", limit(6)), queueUnder("b", ""))
		charge := func(b *Ledger, name string) {
			if g := groups[name]; g > 0 {
				b.ChargeMember(pods[name], queues[g%2], Membership{Group: group(g)})
			} else {
				b.Charge(pods[name], queues[len(name)%2])
			}
		}
		for range 60 {
			name := fmt.Sprintf("%0*d", 1+rnd.IntN(2), rnd.IntN(8))
			switch rnd.IntN(6) {
			case 0, 1, 2:
				pods[name], groups[name] = pod(name, 1+rnd.Int64N(9), []string{"", "", "n", "n1"}[rnd.IntN(4)]), rnd.IntN(3)
				if rnd.IntN(3) == 0 {
					tolerating(pods[name])
				}
				charge(b, name)
			case 3:
				delete(pods, name)
				b.Forget(types.UID(name))
			case 4:
				g := 1 + rnd.IntN(2)
				states[g] = GroupState{Held: rnd.IntN(2) == 0, Need: rnd.IntN(4)}
			case 5:
				name := fmt.Sprintf("n%d", rnd.IntN(2))
				nodes[name] = node(name, rnd.Int64N(10))
				if rnd.IntN(2) == 0 {
					tainted(nodes[name])
				}
				b.SetNode(nodes[name])
			}
			for g, now := range states {
				b.SetGroupState(group(g), now)
			}
			if rnd.IntN(3) == 0 {
				b.Snapshot(gpus)
			}
		}
		anew := boardOf(queueUnder("a", "", limit(6)), queueUnder("b", ""))
		for _, n := range nodes {
			anew.SetNode(n)
		}
		for name := range pods {
			charge(anew, name)
		}
		for g, now := range states {
			anew.SetGroupState(group(g), now)
		}
		got, want := b.Snapshot(gpus), anew.Snapshot(gpus)
		if diff := cmp.Diff(want.Capacity, got.Capacity); diff != "" {
			t.Fatalf("capacity (-anew +by many changes):\n%s", diff)
		}
		if diff := cmp.Diff(values(want, want.Shares), values(got, got.Shares)); diff != "" {
			t.Fatalf("shares (-anew +by many changes):\n%s", diff)
		}
		for name := range pods {
			b.Forget(types.UID(name))
		}
		if len(b.pending)+len(b.groups)+len(b.accounts)+len(b.tolerances) > 0 {
			t.Fatalf("%d pending, %d groups, %d accounts and %d tolerances are left", len(b.pending), len(b.groups), len(b.accounts), len(b.tolerances))
		}
	}
}
