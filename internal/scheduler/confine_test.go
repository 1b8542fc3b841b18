package scheduler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestHeldToItsRoom checks that a pod with a reservation goes to the reserved node. The pod must
// look at other nodes only if it does not fit on the reserved node.
func TestHeldToItsRoom(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(r *rig) string{
		"its room is there": func(*rig) string { return "node-0" },
		"its room has been taken": func(r *rig) string {
			// Another scheduler placed the pod x, and ignored the reservation.
			r.create(on(pod("x", "", "1", 9), "node-0"))
			r.remove(on(pod("w", "", "1", 9), "node-1"))
			return "node-1"
		},
		"its node takes no more pods": func(r *rig) string {
			r.changeNode("node-0", cordon)
			r.remove(on(pod("w", "", "1", 9), "node-1"))
			return "node-1"
		},
		"its node is not for it any more": func(r *rig) string {
			r.changeNode("node-0", func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "kept", Effect: corev1.TaintEffectNoSchedule}}
			})
			r.remove(on(pod("w", "", "1", 9), "node-1"))
			return "node-1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "1"), node("node-1", "1"))
			victim := on(pod("v", "", "1", 0), "node-0")
			r.create(victim, on(pod("w", "", "1", 9), "node-1"))
			preemptor := pod("p", "", "1", 5)
			r.create(preemptor)
			r.cycle()
			if got := r.sched.reserved.NodeOf(string(preemptor.UID)); got != "node-0" {
				t.Fatalf("It is promised %q", got)
			}
			r.succeed(0)
			want := spoil(r)
			r.remove(victim)
			r.eventually("it is placed on "+want, func() bool { r.cycles(); return r.nodeOf("p") == want })
		})
	}
}

// TestLooksAtOneNode checks that the filters run only on the reserved node once the victims are
// gone. Until then, they run on all nodes.
func TestLooksAtOneNode(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(3, "1")...)
	victim := on(pod("v", "", "1", 0), "node-0")
	r.create(victim, on(pod("w", "", "1", 9), "node-1"), on(pod("x", "", "1", 9), "node-2"))
	preemptor := pod("p", "", "1", 5)
	r.create(preemptor)
	r.cycle()
	r.succeed(0)
	looksAt := func() sets.Set[string] {
		r.snapshot()
		result, _ := r.plugin.preFilterSingle(t.Context(), framework.NewCycleState(), preemptor)
		if result == nil {
			return nil
		}
		return result.NodeNames
	}
	if got := looksAt(); got != nil {
		t.Errorf("While its victim is there, it is held to %q", sets.List(got))
	}
	r.remove(victim)
	r.eventually("its victim is known to have gone", func() bool { return !r.sched.waits.WaitsForVictims(r.sched.index.KeyOf(preemptor)) })
	if got := looksAt(); !got.Equal(sets.New("node-0")) {
		t.Errorf("Once it has gone, it looks at %q", sets.List(got))
	}
}

// TestAlternativeWhileVictimsLeave checks a pod or gang that waits for its victims to terminate. If
// other room becomes free, it uses that room and evicts no more pods (KEP-5710, "Delayed
// preemption", first case).
func TestAlternativeWhileVictimsLeave(t *testing.T) {
	t.Parallel()
	for name, isGang := range map[string]bool{"a pod": false, "a gang": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(2, "1")...)
			victim, other := on(pod("v", "", "1", 0), "node-0"), on(pod("w", "", "1", 9), "node-1")
			r.create(victim, other)
			preemptor := pod("p", "", "1", 5)
			if isGang {
				r.gangOf("g", 1, 5)
				preemptor = members("g", 1, "1", 5)[0]
			}
			r.create(preemptor)
			r.cycle()
			if got := r.taken(0); len(got) != 1 || got[0] != "v" {
				t.Fatalf("It takes %v, want v", got)
			}
			r.succeed(0)
			r.terminate("v", time.Now())
			r.remove(other)
			r.eventually("it is placed on node-1", func() bool { r.cycles(); return r.nodeOf(preemptor.Name) == "node-1" })
			if n := len(r.evictor.orders); n != 1 {
				t.Errorf("%d evictions, want 1", n)
			}
			if got, kept := r.reservedOn(preemptor.UID); kept {
				t.Errorf("Room is kept for it on %s yet", got)
			}
		})
	}
}
