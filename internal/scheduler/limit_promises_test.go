package scheduler

import (
	"slices"
	"testing"
)

// TestPromiseAtTheLimit checks that a reservation of less important work does not block more
// important work of the same queue. The reservation must be released only if the limit has no room
// for both.
func TestPromiseAtTheLimit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		limit, cpus string
		priority    int32
		gang        bool
		// full is true if node-1 has no free room, so that the second workload must wait.
		full bool
		// wantBound is true if the second workload must be bound.
		wantBound bool
		// wantWaiting is true if the second workload must wait for room.
		wantWaiting bool
		// wantPromise is true if the first workload must keep its reservation.
		wantPromise bool
	}{
		"a pod that fits":                    {limit: "2", cpus: "1", priority: 10, wantBound: true},
		"a pod that waits":                   {limit: "2", cpus: "1", priority: 10, full: true, wantWaiting: true},
		"a gang that fits":                   {limit: "2", cpus: "1", priority: 10, gang: true, wantBound: true},
		"a gang that waits":                  {limit: "2", cpus: "1", priority: 10, gang: true, full: true, wantWaiting: true},
		"a pod, and there is room for both":  {limit: "3", cpus: "1", priority: 10, wantBound: true, wantPromise: true},
		"a gang, and there is room for both": {limit: "3", cpus: "1", priority: 10, gang: true, wantBound: true, wantPromise: true},
		"a pod that is as important":         {limit: "2", cpus: "1", priority: 5, wantPromise: true},
		"a gang that is as important":        {limit: "2", cpus: "1", priority: 5, gang: true, wantPromise: true},
		"a pod that no node has room for":    {limit: "3", cpus: "3", priority: 10, wantPromise: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(2, "2")...)
			r.sched.QueueSet(limitedQueue("a", tt.limit))
			wall := "1"
			if tt.full {
				wall = "2"
			}
			r.create(on(pod("cheap", "", "2", 0), "node-0"), on(pod("wall", "", wall, 50), "node-1"), ofQueue("a", pod("mid", "", "2", 5)))
			r.eventually("the less important one has its turn", func() bool { return len(r.active()) > 0 })
			r.cycles()
			r.succeed(0)
			if node, ok := r.reservedOn("uid-mid"); !ok || node != "node-0" {
				t.Fatalf("Room is promised on %q", node)
			}
			came := ofQueue("a", pod("high", "", tt.cpus, tt.priority))
			if tt.gang {
				g := r.gangOf("g", 1, tt.priority)
				g.Queue = "a"
				r.groups.set(g)
				came = pod("high", "g", tt.cpus, tt.priority)
			}
			r.create(came)
			r.eventually("the other one has its turn", func() bool { return len(r.active()) > 0 })
			r.cycles()
			if tt.wantBound {
				r.waitBound("high")
			} else if node := r.nodeOf("high"); node != "" {
				t.Errorf("It is on %s", node)
			}
			if len(r.evictor.orders) != 1 {
				t.Errorf("%v is taken as well", r.taken(1))
			}
			if _, ok := r.reservedOn("uid-mid"); ok != tt.wantPromise {
				t.Errorf("The promise stands: %t", ok)
			}
			if _, ok := r.reservedOn("uid-high"); ok != tt.wantWaiting {
				t.Errorf("Room is promised to the one that came: %t", ok)
			}
		})
	}
}

// TestEvictionAtTheLimit checks that an eviction stops if more important work uses the room below
// the limit of the queue. While the eviction is under way, the reservation of its preemptor must
// not block the more important work.
func TestEvictionAtTheLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "2")...)
	r.sched.QueueSet(limitedQueue("a", "2"))
	r.create(on(pod("cheap", "", "2", 0), "node-0"), on(pod("wall", "", "1", 50), "node-1"), ofQueue("a", pod("mid", "", "2", 5)))
	r.eventually("the less important one has its turn", func() bool { return len(r.active()) > 0 })
	r.cycles()
	if got := r.taken(0); !slices.Equal(got, []string{"cheap"}) || !r.wants(0) {
		t.Fatalf("%v is taken, and wanted: %t", got, r.wants(0))
	}
	r.create(ofQueue("a", pod("high", "", "1", 10)))
	r.eventually("the more important one has its turn", func() bool { return len(r.active()) > 0 })
	r.cycles()
	r.waitBound("high")
	if r.wants(0) {
		t.Error("The eviction is still wanted")
	}
}
