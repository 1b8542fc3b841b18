package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// TestSmallMemberThatComesWhileVictimsLeave checks a gang that waits for its victim to terminate. A
// new member fits beside the victim, and is enough for the gang, so it is placed at once.
func TestSmallMemberThatComesWhileVictimsLeave(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "3")...)
	r.create(on(pod("v", "", "2", 0), "node-0"))
	r.gangOf("g", 1, 10)
	r.create(pod("large", "g", "2", 10))
	r.cycle()
	r.succeed(0)
	r.terminate("v", time.Now().Add(time.Hour))
	r.eventually("the first retry is over", func() bool { r.cycles(); return !r.sched.waits.WaitsFor(gangKey(key("g")), engine.Going) })
	r.create(pod("small", "g", "1", 10))
	r.waitBound("small")
	if n := len(r.evictor.orders); n != 1 {
		t.Errorf("%d evictions, want 1", n)
	}
}

// TestSurplusDelaysNoGang checks a gang whose nodes all have terminating pods. When the first
// terminating pod is gone, enough members have room, so the gang must start. The surplus must wait
// for the other node.
func TestSurplusDelaysNoGang(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"v-0", "v-1"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(2, "1")...)
			victims := map[string]*corev1.Pod{}
			for i := range 2 {
				v := on(pod(fmt.Sprint("v-", i), "", "1", 0), fmt.Sprint("node-", i))
				r.create(v)
				r.terminate(v.Name, time.Now())
				victims[v.Name] = v
			}
			r.gangOf("g", 1, 10)
			r.create(members("g", 2, "1", 10)...)
			r.cycles()
			r.remove(victims[first])
			r.eventually("one member is placed", func() bool { r.cycles(); return r.bound(2) == 1 })
		})
	}
}

// TestElasticGangWaitsForEnoughVictims checks a gang that needs three of six nodes. Each node has a
// terminating pod. The gang is planned again once three of these pods are gone, and not earlier.
func TestElasticGangWaitsForEnoughVictims(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(6, "1")...)
	victims := make([]*corev1.Pod, 6)
	for i := range victims {
		victims[i] = on(pod(fmt.Sprint("v-", i), "", "1", 0), fmt.Sprint("node-", i))
		r.create(victims[i])
		r.terminate(victims[i].Name, time.Now())
	}
	r.gangOf("g", 3, 10)
	r.create(members("g", 6, "1", 10)...)
	group := gangKey(key("g"))
	r.eventually("the gang waits for all victims", func() bool { r.cycles(); return r.sched.waits.IsShort(group) })
	// A search that starts too early can have any result.
	searches := func() (count int) {
		for _, result := range []metrics.Attempt{metrics.Fits, metrics.Preempts, metrics.Infeasible, metrics.Broken} {
			count += r.counted("reprieve_preemption_attempts_total", "result", string(result))
		}
		return count
	}
	before := searches()
	for _, victim := range victims[:2] {
		r.remove(victim)
		r.awaitHandlers()
		r.cycles()
	}
	if n := searches() - before; n > 0 {
		t.Errorf("The gang was planned %d times, and it lacks room for a member", n)
	}
	r.remove(victims[2])
	r.eventually("three members are placed", func() bool { r.cycles(); return r.bound(6) == 3 })
}
