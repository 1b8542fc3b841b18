package scheduler

import (
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/internal/leaving"
)

// TestLivingVictimIsCountedAgain checks a pod that keeps running although its eviction began. The
// pod must count as running again, and preemptors that wait for the pod must look for other room.
func TestLivingVictimIsCountedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "1")...)
	r.create(on(pod("v", "", "1", 0), "node-0"), pod("p", "", "1", 5))
	r.cycle()
	r.succeed(0)
	r.never("it is tried, and its victim has not gone", 100*time.Millisecond, func() bool { return len(r.active()) > 0 })
	r.sched.departures.sweep(r.sched.clock.Now().Add(2 * leaving.Lag))
	r.eventually("it takes the victim again", func() bool { r.cycles(); return len(r.evictor.orders) == 2 })
}
