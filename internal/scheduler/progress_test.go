package scheduler

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestStallOfTheQueue checks that the main loop counts as stalled while a PreEnqueue plugin does
// not return. Such a plugin holds the lock of the scheduler's queue.
func TestStallOfTheQueue(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Now())
	r := newRigOn(t, clientWith(nodes(1, "8")...), &groups{}, schedulerYAML, nil, func(in *Inputs) { in.Clock = clk })
	tick := func() bool {
		clk.Step(time.Second)
		return r.sched.Stalled() != nil
	}
	for range 5 {
		if tick() {
			t.Fatalf("It is stalled: %v", r.sched.Stalled())
		}
	}
	// PreEnqueue reads the group, so it blocks on this lock.
	r.groups.mu.Lock()
	released := false
	release := func() {
		if !released {
			r.groups.mu.Unlock()
			released = true
		}
	}
	defer release()
	if _, err := r.client.CoreV1().Pods("ns").Create(t.Context(), pod("g-0", "g", "1", 0), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the stall is noticed", tick)
	release()
	r.eventually("the stall has ended", func() bool { return r.sched.Stalled() == nil })
}
