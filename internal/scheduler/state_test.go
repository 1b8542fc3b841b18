package scheduler

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// state returns the inputs of decisions. Cycles may run at the same time.
func (r *rig) state() (snapshot.State, error) {
	copied := internalcache.NewEmptySnapshot()
	if err := r.upstream.Cache.UpdateSnapshot(klog.Background(), copied); err != nil {
		return snapshot.State{}, err
	}
	nodes, err := copied.NodeInfos().List()
	if err != nil {
		return snapshot.State{}, err
	}
	return r.sched.State(nodes)
}

// TestState checks the running pods, the terminating pods and the reservations in a State.
func TestState(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "2")...)
	r.create(on(pod("v", "", "2", 0), "node-0"), on(pod("stays", "", "2", 20), "node-1"))
	r.create(pod("p", "", "2", 10))
	r.cycle()
	state, err := r.state()
	if err != nil {
		t.Fatal(err)
	}
	if state.Time.IsZero() || len(state.Nodes) != 2 || state.Nodes[0].Free["cpu"] != 0 {
		t.Errorf("The nodes are %+v at %s", state.Nodes, state.Time)
	}
	if len(state.Units) != 1 || state.Units[0].Name != "stays" || state.Units[0].Priority != 20 {
		t.Errorf("The units are %+v, want the one that stays", state.Units)
	}
	if len(state.Leaving) != 1 || state.Leaving[0].Name != "v" {
		t.Errorf("Those on their way out are %+v, want the victim", state.Leaving)
	}
	want := snapshot.StateReservation{
		Namespace: "ns", Name: "p", UID: "uid-p", Node: "node-0", Priority: 10, Request: map[string]int64{"cpu": 2000, "pods": 1},
	}
	if len(state.Promised) != 1 || fmt.Sprint(state.Promised[0]) != fmt.Sprint(want) {
		t.Errorf("Promised is %+v, want %+v", state.Promised, want)
	}
}

// TestStateBesideCycles takes States while cycles run. Each State must be consistent: no node has
// more pods than it has room for, and no pod is in two places. The test is mainly for the race
// detector.
func TestStateBesideCycles(t *testing.T) {
	t.Parallel()
	const count = 8
	r := newRig(t, append([]runtime.Object{tolerantClass("c", "0", "1")}, nodes(count, "1")...)...)
	for i := range count {
		r.create(on(classed(pod(fmt.Sprintf("low-%d", i), "", "1", 0), "c", time.Now()), fmt.Sprintf("node-%d", i)))
	}
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			state, err := r.state()
			if err != nil {
				t.Error(err)
			}
			var names []string
			for _, u := range state.Units {
				names = append(names, u.Name)
			}
			for _, p := range slices.Concat(state.Leaving, state.Overdue) {
				names = append(names, p.Name)
			}
			for _, p := range state.Promised {
				names = append(names, p.Name)
			}
			slices.Sort(names)
			if twice := len(names) - len(slices.Compact(slices.Clone(names))); twice != 0 {
				t.Errorf("%d pods are in two places: %q", twice, names)
			}
			for _, n := range state.Nodes {
				if n.Free["cpu"] < 0 {
					t.Errorf("%s has %d milli-CPUs", n.Name, n.Free["cpu"])
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for i := range count {
		// The update makes the scheduler read the toleration of the class again.
		if _, err := r.client.SchedulingV1().PriorityClasses().Update(t.Context(), tolerantClass("c", "0", fmt.Sprint(i)), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.create(pod(fmt.Sprintf("high-%d", i), "", "1", 10))
		r.eventually("it preempts", func() bool { r.cycles(); return len(r.evictor.orders) == i+1 })
		victim := r.taken(i)[0]
		r.succeed(i)
		r.remove(on(pod(victim, "", "1", 0), "node-0"))
	}
	close(done)
	looking.Wait()
}
