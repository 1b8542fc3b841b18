package queue

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestCapacity checks the capacity to share. Two queues demand all of it, and each node has 8 GPUs.
func TestCapacity(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Ledger)
		want   int64
	}{
		"two nodes": {change: func(*Ledger) {}, want: 16},
		"one is closed, with 5 in use": {
			change: func(b *Ledger) { b.SetClosedNode(node("m", 8)) },
			want:   13,
		},
		"closed, and one of its pods leaves": {
			change: func(b *Ledger) {
				b.SetClosedNode(node("m", 8))
				leaving := pod("m1", 3, "m")
				leaving.DeletionTimestamp = ptr.To(metav1.Now())
				b.Charge(leaving, "a")
			},
			want: 10,
		},
		"closed, and one of its pods has gone": {
			change: func(b *Ledger) { b.SetClosedNode(node("m", 8)); b.Forget("m1") },
			want:   10,
		},
		"closed, with one outside all queues": {
			change: func(b *Ledger) { b.SetClosedNode(node("m", 8)); b.Charge(pod("none", 2, "m"), "") },
			want:   13,
		},
		"closed, and more in use than it has": {
			change: func(b *Ledger) { b.SetClosedNode(node("m", 4)) },
			want:   12,
		},
		"closed, and open again": {
			change: func(b *Ledger) { b.SetClosedNode(node("m", 8)); b.SetNode(node("m", 8)) },
			want:   16,
		},
		"gone, while its pods are still there": {change: func(b *Ledger) { b.DeleteNode("m") }, want: 8},
		"gone, with work outside all queues": {
			change: func(b *Ledger) { b.Charge(pod("none", 8, "m"), ""); b.DeleteNode("m") },
			want:   8,
		},
		"back, with work outside all queues": {
			change: func(b *Ledger) { b.Charge(pod("none", 3, "m"), ""); b.DeleteNode("m"); b.SetNode(node("m", 8)) },
			want:   13,
		},
		"without devices, with work outside all queues": {
			change: func(b *Ledger) { b.Charge(pod("none", 3, "m"), ""); b.SetNode(node("m", 0)) },
			want:   8,
		},
		"with more outside all queues than it has": {
			change: func(b *Ledger) { b.Charge(pod("none", 100, "m"), "") },
			want:   8,
		},
		"beside more on a node that is not there": {
			change: func(b *Ledger) { b.Charge(pod("none", 1<<40, "no-such"), "") },
			want:   16,
		},
		"beside what was on a node that is not there": {
			change: func(b *Ledger) { b.Charge(pod("none", 100, "no-such"), ""); b.Forget("none") },
			want:   16,
		},
		"outside all queues, and then in one": {
			change: func(b *Ledger) { b.Charge(pod("none", 100, "m"), ""); b.Charge(pod("none", 100, "m"), "a") },
			want:   16,
		},
		"closed, and gone": {
			change: func(b *Ledger) { b.SetClosedNode(node("m", 8)); b.DeleteNode("m") },
			want:   8,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := boardOf(queueUnder("a", ""), queueUnder("b", ""))
			b.SetNode(node("m", 8))
			b.Charge(pod("m1", 3, "m"), "a")
			b.Charge(pod("m2", 2, "m"), "b")
			for i := range 20 {
				b.Charge(pod(fmt.Sprintf("a%d", i), 1, ""), "a")
				b.Charge(pod(fmt.Sprintf("b%d", i), 1, ""), "b")
			}
			tc.change(b)
			got := int64(0)
			for _, share := range values(b.Snapshot(gpus), b.Snapshot(gpus).Shares) {
				got += share
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("capacity (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNothingIsKeptOfNodes checks that no facts about nodes are left after all nodes and queues are
// deleted.
func TestNothingIsKeptOfNodes(t *testing.T) {
	b := boardOf(queueUnder("a", ""))
	b.SetClosedNode(node("m", 8))
	b.Charge(pod("a1", 3, "m"), "a")
	b.Charge(pod("a2", 1, "n"), "a")
	b.DeleteNode("m")
	b.DeleteNode("n")
	b.DeleteQueue("a")
	b.DeleteNode("n")
	if len(b.overfull) > 0 || len(b.nodes) > 0 || len(b.capacity) > 0 || len(b.nodesWith) > 0 {
		t.Errorf("left are %d nodes and %v", len(b.nodes), b.capacity)
	}
}

// TestCarriedByNodes checks the fair share of CPUs that a quota of 4 GPUs carries. One node has 8
// GPUs and 32 CPUs. Another node has 32 CPUs and no GPU.
func TestCarriedByNodes(t *testing.T) {
	with := func(gpus, cpus int64) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI)}
			if gpus > 0 {
				n.Status.Allocatable[gpu] = *resource.NewQuantity(gpus, resource.DecimalSI)
			}
		}
	}
	for name, tc := range map[string]struct {
		change func(*Ledger)
		want   int64
	}{
		"half of them":               {change: func(*Ledger) {}, want: 16_000},
		"beside another node":        {change: func(b *Ledger) { b.SetNode(node("g2", 0, with(8, 64))) }, want: 24_000},
		"beside another without":     {change: func(b *Ledger) { b.SetNode(node("c2", 0, with(0, 64))) }, want: 16_000},
		"the node has gone":          {change: func(b *Ledger) { b.DeleteNode("n") }},
		"its GPUs have":              {change: func(b *Ledger) { b.SetNode(node("n", 0, with(0, 32))) }},
		"it is another one now":      {change: func(b *Ledger) { b.SetNode(node("n", 0, with(4, 20))) }, want: 20_000},
		"it is closed and empty":     {change: func(b *Ledger) { b.SetClosedNode(node("n", 0, with(8, 32))) }, want: 16_000},
		"the queue names CPUs":       {change: func(b *Ledger) { b.SetQueue(gpuQuota("4", "2")) }, want: 2_000},
		"the queue names no devices": {change: func(b *Ledger) { b.SetQueue(gpuQuota("0", "0")) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewLedger()
			b.SetNode(node("n", 0, with(8, 32)))
			b.SetNode(node("c", 0, with(0, 32)))
			b.SetQueue(gpuQuota("4", "0"))
			b.SetQueue(queueUnder("b", ""))
			for i, queue := range []string{"a", "b", "b", "b", "b"} {
				asks := pod(fmt.Sprint(queue, i), 0, "")
				asks.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32")}
				b.Charge(asks, queue)
			}
			b.AllCharged()
			tc.change(b)
			s := b.Snapshot([]string{"cpu", gpu})
			if got := values(s, s.Shares)["a"]; got != tc.want {
				t.Errorf("its share is %d milli, want %d (of %v)", got, tc.want, s.Capacity)
			}
		})
	}
}

// gpuQuota returns the queue a with a quota of GPUs and CPUs, and without an over-quota share.
func gpuQuota(gpus, cpus string) *v1alpha1.Queue {
	return queueUnder("a", "", func(s *v1alpha1.QueueSpec) {
		s.OverQuotaWeight = ptr.To(int32(0))
		s.Quota = corev1.ResourceList{gpu: resource.MustParse(gpus), corev1.ResourceCPU: resource.MustParse(cpus)}
	})
}

// TestCapacityBehindTaints checks how two queues share 8 GPUs. Queue a uses all of them, and queue
// b demands 4. A tainted node has 4 more GPUs.
func TestCapacityBehindTaints(t *testing.T) {
	apart := map[string]int64{"a": 4, "b": 4}
	for name, tc := range map[string]struct {
		change func(*Ledger)
		// want has the fair share of each queue, and wantCapacity is the capacity to share.
		want         map[string]int64
		wantCapacity int64
	}{
		"nothing that waits tolerates it": {change: func(*Ledger) {}, want: apart, wantCapacity: 8},
		"something that waits does": {
			change: func(b *Ledger) { b.Charge(tolerating(pod("b1", 4, "")), "b") }, want: map[string]int64{"a": 8, "b": 4}, wantCapacity: 12,
		},
		"that has gone": {
			change: func(b *Ledger) {
				b.Charge(tolerating(pod("b2", 1, "")), "b")
				b.Snapshot(gpus)
				b.Forget("b2")
			}, want: apart, wantCapacity: 8,
		},
		"that runs there": {
			change: func(b *Ledger) { b.Charge(tolerating(pod("b2", 1, "t")), "b") }, want: map[string]int64{"a": 4, "b": 5}, wantCapacity: 9,
		},
		"what tolerates it is in no queue": {
			change: func(b *Ledger) { b.Charge(tolerating(pod("none", 1, "")), "") }, want: apart, wantCapacity: 8,
		},
		"what runs there is in no queue": {
			change: func(b *Ledger) { b.Charge(tolerating(pod("none", 3, "t")), "") }, want: apart, wantCapacity: 8,
		},
		"in a queue that does not exist": {
			change: func(b *Ledger) { b.Charge(tolerating(pod("none", 1, "")), "typo") }, want: apart, wantCapacity: 8,
		},
		"in a queue that has come": {
			change: func(b *Ledger) {
				b.Charge(tolerating(pod("c1", 1, "")), "c")
				b.Snapshot(gpus)
				b.SetQueue(queueUnder("c", ""))
			}, want: map[string]int64{"a": 4, "b": 4, "c": 1}, wantCapacity: 12,
		},
		"what tolerates it can be served nowhere": {
			change: func(b *Ledger) { b.Charge(tolerating(pod("b2", 9, "")), "b") }, want: apart, wantCapacity: 8,
		},
		"the taint only says rather not": {
			change: func(b *Ledger) {
				b.SetNode(node("t", 4, func(n *corev1.Node) {
					n.Spec.Taints = []corev1.Taint{{Key: "kept", Effect: corev1.TaintEffectPreferNoSchedule}}
				}))
			}, want: map[string]int64{"a": 8, "b": 4}, wantCapacity: 12,
		},
		"the taint has gone": {
			change: func(b *Ledger) {
				b.Snapshot(gpus)
				b.SetNode(node("t", 4))
			}, want: map[string]int64{"a": 8, "b": 4}, wantCapacity: 12,
		},
		"the node has gone": {
			change: func(b *Ledger) {
				b.Snapshot(gpus)
				b.DeleteNode("t")
			}, want: apart, wantCapacity: 8,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := boardOf(queueUnder("a", ""), queueUnder("b", ""))
			b.SetNode(node("t", 4, tainted))
			b.Charge(pod("a1", 8, "n"), "a")
			b.Charge(pod("b1", 4, ""), "b")
			tc.change(b)
			s := b.Snapshot(gpus)
			if got := s.Capacity[0]; got != tc.wantCapacity {
				t.Errorf("%d to share, want %d", got, tc.wantCapacity)
			}
			if diff := cmp.Diff(tc.want, values(s, s.Shares)); diff != "" {
				t.Errorf("shares (-want +got):\n%s", diff)
			}
			if b.Snapshot(gpus) != s {
				t.Error("nothing has changed, and all is worked out again")
			}
		})
	}
}
