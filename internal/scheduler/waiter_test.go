package scheduler

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/admission"
)

// TestTurnOfAGangWithAnyMinCount checks the request of a gang whose minCount was raised to a huge
// number after the gang had passed the gate. Computing the request must not take time for each of
// minCount members, because the caller holds the lock of the scheduler's queue.
func TestTurnOfAGangWithAnyMinCount(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.sched.QueueSet(limitedQueue("a", "8"))
	all := members("g", 3, "2", 0)
	r.queuedGang("g", "a", 3)
	r.create(all...)
	for minCount, want := range map[int]int64{1: 2000, 2: 4000, 3: 6000, math.MaxInt32: 6000} {
		r.queuedGang("g", "a", minCount)
		waiter := make(chan admission.Waiter, 1)
		go func() { waiter <- r.sched.placements.Waiter(gangKey(key("g")), all[0], "a") }()
		select {
		case got := <-waiter:
			if cpu := got.Request[string(corev1.ResourceCPU)]; cpu != want {
				t.Errorf("With minCount %d, the gang requests %d milli-CPUs, want %d", minCount, cpu, want)
			}
		case <-time.After(bound):
			t.Fatalf("With minCount %d, the request is not known within %v", minCount, bound)
		}
	}
}
