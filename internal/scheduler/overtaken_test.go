package scheduler

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/eviction"
)

// TestOvertaken lets a gang preempt for one member on each of two nodes, and then creates another
// pod for the first node. It checks whether the gang still needs its victims, and whether the other
// pod is placed or preempts.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// first is the number of CPUs of the first node.
		first string
		// second is the number of CPUs of the second node. Victims of the gang use all of them.
		second string
		// kept is the number of CPUs of a pod on the first node that only the other pod can evict.
		kept string
		// taken is the number of CPUs of the gang's victims on the first node.
		taken string
		// asked is the number of CPUs that each member requests.
		asked string
		// other is the number of CPUs that the other pod requests.
		other    string
		priority int32
		// wanted is true if the gang still needs its victims after the other pod is created.
		wanted bool
		// bound is true if the other pod is placed at once.
		bound bool
		// preempts is true if the other pod evicts the pod that the gang cannot evict.
		preempts bool
	}{
		"it counts on a victim of the gang": {first: "2", second: "2", taken: "2", asked: "2", other: "2", priority: 10, wanted: true},
		"it counts on one, and both find room": {
			first: "3", second: "2", taken: "3", asked: "2", other: "1", priority: 10, wanted: true,
		},
		"it finds room and leaves none":          {first: "3", second: "3", taken: "2", asked: "3", other: "1", priority: 10, bound: true},
		"it finds room beside the gang":          {first: "3", second: "2", taken: "2", asked: "2", other: "1", priority: 10, wanted: true, bound: true},
		"one of the same standing leaves room":   {first: "3", second: "3", taken: "2", asked: "3", other: "1", priority: 5, wanted: true},
		"it preempts for all of a node":          {first: "4", second: "2", kept: "2", asked: "2", other: "4", priority: 10, preempts: true},
		"it preempts, and both find room by it":  {first: "6", second: "2", kept: "4", asked: "2", other: "3", priority: 10, preempts: true, wanted: true},
		"it preempts, of the same standing":      {first: "4", second: "2", kept: "2", asked: "2", other: "4", priority: 5, wanted: true},
		"it preempts for more than is left then": {first: "6", second: "2", kept: "4", asked: "2", other: "5", priority: 10, preempts: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", tt.first), node("node-1", tt.second))
			victims := []string{"v-1"}
			r.create(on(pod("v-1", "", tt.second, 0), "node-1"))
			if tt.taken != "" {
				victims = []string{"v-0", "v-1"}
				r.create(on(pod("v-0", "", tt.taken, 0), "node-0"))
			}
			if tt.kept != "" {
				r.create(on(pod("kept", "", tt.kept, 6), "node-0"))
			}
			r.gangOf("low", 2, 5)
			r.create(members("low", 2, tt.asked, 5)...)
			r.cycle()
			if got := r.taken(0); !slices.Equal(got, victims) {
				t.Fatalf("%v is taken for the gang", got)
			}
			other := pod("other", "", tt.other, tt.priority)
			other.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-0"}
			r.create(other)
			r.eventually("the other one has been tried", func() bool { r.cycles(); return len(r.active()) == 0 })
			if tt.bound {
				r.waitBound("other")
			}
			if got := r.wants(0); got != tt.wanted {
				t.Errorf("The gang wants its victims: %t, want %t", got, tt.wanted)
			}
			if got := len(r.evictor.orders) > 1; got != tt.preempts {
				t.Errorf("The other one preempts: %t, want %t", got, tt.preempts)
			}
		})
	}
}

// TestLowerDoesNotOvertake checks that a reservation of lower standing takes no room from a gang of
// higher standing. This holds even if only the victims of the lower reservation are terminating
// already.
func TestLowerDoesNotOvertake(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "5"), node("node-1", "2"))
	r.create(on(pod("v-0", "", "3", 0), "node-0"), on(pod("v-1", "", "2", 0), "node-1"))
	r.gangOf("low", 2, 5)
	gang := members("low", 2, "2", 5)
	for i, node := range []string{"node-0", "node-1"} {
		gang[i].Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	r.create(gang...)
	r.cycle()
	lowest := pod("lowest", "", "3", 1)
	lowest.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-0"}
	r.create(lowest)
	r.cycles()
	if got := r.taken(0); !slices.Equal(got, []string{"v-1"}) {
		t.Fatalf("%v is taken for the gang", got)
	}
	if got := r.taken(1); !slices.Equal(got, []string{"v-0"}) {
		t.Fatalf("%v is taken for the lowest", got)
	}
	r.succeed(1)
	// The room suffices for the gang and this pod, or for the gang and the pod of lowest priority.
	other := pod("other", "", "1", 10)
	other.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-0"}
	r.create(other)
	r.eventually("the other one is placed", func() bool { r.cycles(); return r.nodeOf("other") != "" })
	if !r.wants(0) {
		t.Error("The gang does not want its victims any more")
	}
}

// TestOvertakenInTime checks a gang that loses its free room on one node to another pod, before its
// victim on the other node is evicted. The gang no longer fits, so the victim keeps running.
func TestOvertakenInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "4"), node("node-1", "2"))
	kept := on(pod("kept", "", "2", 6), "node-0")
	r.create(kept, on(pod("v-1", "", "2", 0), "node-1"))
	r.gangOf("low", 2, 5)
	r.create(members("low", 2, "2", 5)...)
	r.cycle()
	other := pod("other", "", "4", 10)
	other.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-0"}
	r.create(other)
	r.cycle()
	if r.wants(0) {
		t.Fatal("The gang still wants its victims")
	}
	r.finish(0, eviction.Outcome{Err: eviction.ErrOutdated, Unwanted: true})
	r.succeed(1)
	r.remove(kept)
	r.eventually("the other one is placed", func() bool { r.cycles(); return r.nodeOf("other") == "node-0" })
	r.cycles()
	if got := len(r.evictor.orders); got != 2 {
		t.Errorf("%v is taken for a gang that finds no room", r.taken(2))
	}
	if !r.sched.reserved.Empty() {
		t.Error("Room is still promised to the gang")
	}
}
