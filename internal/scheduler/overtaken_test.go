package scheduler

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/eviction"
)

// TestOvertaken has one of a higher standing come while room is being made for a gang on two nodes.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// cpus are those of either node, each of which a victim fills as far as spare leaves it.
		cpus, victim string
		// asked is what each member needs, and what the higher one does.
		asked, higher string
		priority      int32
		// wanted is true where the gang still has a use for its victims, and bound where the higher one is placed at once.
		wanted, bound bool
	}{
		"it counts on a victim and leaves no room":   {cpus: "2", victim: "2", asked: "2", higher: "2", priority: 10},
		"it counts on a victim and both find room":   {cpus: "3", victim: "3", asked: "2", higher: "1", priority: 10, wanted: true},
		"it finds room and leaves none":              {cpus: "3", victim: "2", asked: "3", higher: "1", priority: 10, bound: true},
		"it finds room beside the gang":              {cpus: "3", victim: "2", asked: "2", higher: "1", priority: 10, wanted: true, bound: true},
		"one of the same standing has to leave room": {cpus: "3", victim: "2", asked: "3", higher: "1", priority: 5, wanted: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(2, tt.cpus)...)
			r.create(on(pod("v-0", "", tt.victim, 0), "node-0"), on(pod("v-1", "", tt.victim, 0), "node-1"))
			r.gangOf("low", 2, 5)
			r.create(members("low", 2, tt.asked, 5)...)
			r.cycle()
			if got := r.taken(0); !slices.Equal(got, []string{"v-0", "v-1"}) {
				t.Fatalf("%v is taken for the gang", got)
			}
			higher := pod("higher", "", tt.higher, tt.priority)
			higher.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-0"}
			r.create(higher)
			r.eventually("the higher one has been tried", func() bool { r.cycles(); return len(r.active()) == 0 })
			if tt.bound {
				r.waitBound("higher")
			}
			if got := r.wants(0); got != tt.wanted {
				t.Errorf("The gang wants its victims: %t, want %t", got, tt.wanted)
			}
			if got := len(r.evictor.orders); got != 1 {
				t.Errorf("%d evictions", got)
			}
		})
	}
}

// TestOvertakenInTime: what had not been begun for the gang stays where the one that overtook it has no use for it.
func TestOvertakenInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "2")...)
	victims := []*corev1.Pod{on(pod("v-0", "", "2", 0), "node-0"), on(pod("v-1", "", "2", 0), "node-1")}
	r.create(victims...)
	r.gangOf("low", 2, 5)
	r.create(members("low", 2, "2", 5)...)
	r.cycle()
	higher := pod("higher", "", "2", 10)
	higher.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-0"}
	r.create(higher)
	r.cycle()
	if r.wants(0) {
		t.Error("The gang still wants its victims")
	}
	r.finish(0, eviction.Outcome{Err: eviction.ErrOutdated, Unwanted: true})
	r.eventually("the higher one preempts for itself", func() bool { r.cycles(); return len(r.evictor.orders) == 2 })
	if got := r.taken(1); !slices.Equal(got, []string{"v-0"}) {
		t.Fatalf("%v is taken for the higher one", got)
	}
	r.succeed(1)
	r.remove(victims[0])
	r.eventually("the higher one is placed", func() bool { r.cycles(); return r.nodeOf("higher") == "node-0" })
	r.cycles()
	if got := len(r.evictor.orders); got != 2 {
		t.Errorf("%v is taken for a gang that finds no room", r.taken(2))
	}
	if !r.hub.reserved.Empty() {
		t.Error("Room is still promised to the gang")
	}
}
