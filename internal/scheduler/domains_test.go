package scheduler

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// racked returns nodes with one CPU each. racks has the rack of each node; "" for no rack.
func racked(racks ...string) []runtime.Object {
	out := make([]runtime.Object, len(racks))
	for i, one := range nodes(len(racks), "1") {
		if n, ok := one.(*corev1.Node); ok && racks[i] != "" {
			n.Labels["rack"] = racks[i]
		}
		out[i] = one
	}
	return out
}

// TestGangInOneRack checks that a gang is placed in one rack, and that a later member joins that
// rack.
func TestGangInOneRack(t *testing.T) {
	t.Parallel()
	r := newRig(t, racked("", "a", "b", "a", "b", "b")...)
	r.gangOf("g", 2, 0).TopologyKey = "rack"
	r.create(on(pod("other", "", "1", 0), "node-3"), pod("g-0", "g", "1", 0), pod("g-1", "g", "1", 0))
	r.eventually("the gang is placed", func() bool { r.cycles(); return r.nodeOf("g-0") != "" && r.nodeOf("g-1") != "" })
	r.create(pod("g-2", "g", "1", 0))
	r.eventually("the third member is placed", func() bool { r.cycles(); return r.nodeOf("g-2") != "" })
	got := []string{r.nodeOf("g-0"), r.nodeOf("g-1"), r.nodeOf("g-2")}
	slices.Sort(got)
	if want := []string{"node-2", "node-4", "node-5"}; !slices.Equal(got, want) {
		t.Errorf("the gang is on %v, want %v", got, want)
	}
}

// TestGangPrefersOneRack checks a gang that prefers to share a rack. The gang must share a rack if
// that costs nothing. A replaced member must return to this rack. If no rack has enough room, the
// members may be in several racks.
func TestGangPrefersOneRack(t *testing.T) {
	t.Parallel()
	r := newRig(t, racked("a", "b", "a", "b", "c")...)
	r.gangOf("g", 2, 0).PreferredKeys = []string{"rack"}
	r.create(on(pod("other", "", "1", 0), "node-0"), pod("g-0", "g", "1", 0), pod("g-1", "g", "1", 0))
	r.eventually("the gang is placed", func() bool { r.cycles(); return r.nodeOf("g-0") != "" && r.nodeOf("g-1") != "" })
	got := []string{r.nodeOf("g-0"), r.nodeOf("g-1")}
	slices.Sort(got)
	if want := []string{"node-1", "node-3"}; !slices.Equal(got, want) {
		t.Errorf("the gang is on %v, want %v", got, want)
	}
	lost := r.nodeOf("g-1")
	r.remove(pod("g-1", "g", "1", 0))
	r.create(pod("g-2", "g", "1", 0))
	r.eventually("the lost member is replaced", func() bool { r.cycles(); return r.nodeOf("g-2") != "" })
	if got := r.nodeOf("g-2"); got != lost {
		t.Errorf("the replacement is on %q, want %q", got, lost)
	}
	r.gangOf("h", 2, 0).PreferredKeys = []string{"rack"}
	r.create(pod("h-0", "h", "1", 0), pod("h-1", "h", "1", 0))
	r.eventually("the other gang spreads", func() bool { r.cycles(); return r.nodeOf("h-0") != "" && r.nodeOf("h-1") != "" })
}

// TestRoomIsKeptInTheRackOfTheGang checks that room for a lost member is kept only in the rack of
// its gang.
func TestRoomIsKeptInTheRackOfTheGang(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ racks, want string }{
		"the free node is in another rack": {"b", "node-1"},
		"the free node is in the rack":     {"a", ""},
		"the free node is in no rack":      {"", "node-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, "{gang: {healTimeout: 1h, staleTimeout: 0s}}", racked("a", c.racks)...)
			g := r.gangOf("g", 2, 0)
			g.Scheduled, g.TopologyKey = true, "rack"
			member := pod("g-0", "g", "1", 0)
			member.Status.Phase = corev1.PodRunning
			r.create(on(member, "node-0"))
			r.eventually("the gang is known to lack a member", func() bool {
				return r.sched.stale.degradedBy(g).Lacks == 1 && len(r.sched.gangs.Degraded()) == 1
			})
			r.create(pod("lone", "", "1", 0))
			r.eventually("the pod is in the queue", func() bool { return len(r.active()) == 1 })
			r.cycles()
			if c.want != "" {
				r.eventually("the pod is placed", func() bool { return r.nodeOf("lone") != "" })
			}
			if got := r.nodeOf("lone"); got != c.want {
				t.Errorf("the pod is on %q, want %q", got, c.want)
			}
		})
	}
}

// TestLabelsThatChangeBeforeTheBinding checks that a gang is not bound across two racks. The label
// of a planned node changes while members wait for the other members.
func TestLabelsThatChangeBeforeTheBinding(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]string{"another rack": "c", "no rack": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, racked("a", "a")...)
			r.gangOf("g", 2, 0).TopologyKey = "rack"
			r.create(pod("g-0", "g", "1", 0), pod("g-1", "g", "1", 0))
			r.eventually("the gang is planned", func() bool { r.cycle(); return r.sched.gangs.Planned(gangKey(key("g"))) == 1 })
			r.changeNode("node-1", func(n *corev1.Node) {
				if n.Labels["rack"] = to; to == "" {
					delete(n.Labels, "rack")
				}
			})
			r.changeNode("node-0", func(n *corev1.Node) { n.Labels["seen"] = "true" })
			r.eventually("the plan is released", func() bool { return r.sched.gangs.Planned(gangKey(key("g"))) == 0 })
			r.eventually("the reason is said", func() bool {
				return strings.Contains(r.sched.gangs.Verdict(gangKey(key("g"))).Message, "label rack")
			})
			r.cycles()
			if a, b := r.nodeOf("g-0"), r.nodeOf("g-1"); a != "" || b != "" {
				t.Errorf("members are bound to %q and %q", a, b)
			}
			r.changeNode("node-1", func(n *corev1.Node) { n.Labels["rack"] = "a" })
			r.eventually("the gang is placed", func() bool { r.cycles(); return r.nodeOf("g-0") != "" && r.nodeOf("g-1") != "" })
		})
	}
}
