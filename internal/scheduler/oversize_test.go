package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// oversized is the number of workloads of oversizedCrowd that exceed the nodes.
const oversized = 12

// oversizedCrowd returns a rig with two nodes of two CPUs each. The pods busy-0 and busy-1 fill the
// nodes. Ten gangs and a pod wait, each larger than a node. A gang of three members also waits, and
// needs three nodes.
func oversizedCrowd(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, nodes(2, "2")...)
	for i := range 2 {
		r.create(on(pod(fmt.Sprintf("busy-%d", i), "", "2", 5), fmt.Sprintf("node-%d", i)))
	}
	for i := range oversized - 2 {
		name := fmt.Sprintf("large%d", i)
		r.gangOf(name, 1, 0)
		r.create(members(name, 1, "3", 0)...)
	}
	r.gangOf("many", 3, 0)
	r.create(members("many", 3, "2", 0)...)
	single := pod("single", "", "3", 0)
	r.create(single)
	r.cycles()
	// The first attempt of the pod ends at a filter, the others before the filters.
	r.sched.retries.activate(single)
	r.cycles()
	return r
}

// TestDeletionsRetryOnlyWorkThatMayFit checks how many cycles the deletion of a pod costs: one for
// the gang that fits afterwards, and none for workloads that would not fit on empty nodes.
func TestDeletionsRetryOnlyWorkThatMayFit(t *testing.T) {
	t.Parallel()
	r := oversizedCrowd(t)
	r.gangOf("fits", 1, 0)
	r.create(members("fits", 1, "2", 0)...)
	r.cycles()
	busy, err := r.sched.index.Pods.Pods("ns").Get("busy-0")
	if err != nil {
		t.Fatal(err)
	}
	r.remove(busy)
	ran := 0
	r.eventually("the gang that fits is bound", func() bool {
		for ; len(r.active()) > 0; ran++ {
			r.cycle()
		}
		return r.nodeOf("fits-0") != ""
	})
	if ran != 1 {
		t.Errorf("The deletion costs %d cycles, want one", ran)
	}
	// The members of the gang of three that do not lead are gated, which counts as unschedulable.
	if got, want := r.pending(), fmt.Sprintf("activeQ:0; backoffQ:0; unschedulableEntities:%d", oversized+2); got != want {
		t.Errorf("The queue has %s, want %s", got, want)
	}
}

// TestOversizedWorkFitsLater checks that workloads that exceed the nodes are retried after changes
// that may let them fit. Deletions of pods do not retry them.
func TestOversizedWorkFitsLater(t *testing.T) {
	t.Parallel()
	allLarge := []string{"single"}
	for i := range oversized - 2 {
		allLarge = append(allLarge, fmt.Sprintf("large%d-0", i))
	}
	for name, c := range map[string]struct {
		change func(r *rig)
		waiter string
		want   []string
	}{
		"a node grows": {func(r *rig) {
			r.changeNode("node-1", func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resourceMustParse("5") })
		}, "large0", allLarge},
		"a node is added": {func(r *rig) {
			if _, err := r.client.CoreV1().Nodes().Create(r.t.Context(), node("node-2", "40"), metav1.CreateOptions{}); err != nil {
				r.t.Fatal(err)
			}
		}, "single", []string{"single"}},
		"the gang needs fewer members": {func(r *rig) {
			r.gangOf("many", 1, 0)
			busy, err := r.sched.index.Pods.Pods("ns").Get("busy-0")
			if err != nil {
				r.t.Fatal(err)
			}
			r.remove(busy)
			r.sched.GroupChanged(key("many"))
		}, "many", []string{"many-0", "many-1", "many-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := oversizedCrowd(t)
			waiter := gangKey(key(c.waiter))
			if c.waiter == "single" {
				waiter = podKey(pod("single", "", "3", 0))
			}
			if !r.sched.waits.WaitsFor(waiter, engine.Nodes) {
				t.Fatal("it does not wait for nodes")
			}
			c.change(r)
			r.eventually("one of the workloads is bound", func() bool {
				r.cycles()
				for _, name := range c.want {
					if r.nodeOf(name) != "" {
						return true
					}
				}
				return false
			})
		})
	}
}

// TestOversizedWorkWaitsForNodesOnly checks that workloads that exceed the nodes do not wait for
// the end of a reservation. If they did, each reservation that ends would cost a cycle for each of
// these workloads.
func TestOversizedWorkWaitsForNodesOnly(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		r := newRig(t, node("node-0", "1"))
		r.create(on(pod("v", "", "1", 0), "node-0"))
		r.create(newPreemptor(r))
		r.cycle()
		r.gangOf("large", 1, 0)
		r.create(pod("large-0", "large", "2", 0), pod("alike", "", "1", 0))
		r.cycles()
		for waiter, want := range map[workload.Key]bool{gangKey(key("large")): false, podKey(pod("alike", "", "1", 0)): true} {
			if got := r.sched.waits.WaitsFor(waiter, engine.Reserved); got != want {
				t.Errorf("%v waits for the reservation: %t, want %t", waiter, got, want)
			}
		}
	})
}
