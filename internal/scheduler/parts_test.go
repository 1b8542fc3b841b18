package scheduler

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// lostPart is a gang that lost its only member of the part b, beside three members of the part a.
// The gang needs two members of a and one of b, so the number of members alone is enough.
type lostPart struct {
	*rig
	group *gang.Group
	// replacement returns the pod that replaces the lost member.
	replacement *corev1.Pod
}

// newRigOfRoles returns a rig with four nodes of one CPU. Each gang needs two members with a name
// that begins with "a-", and one whose name begins with "b-".
func newRigOfRoles(t *testing.T, configuration string) *rig {
	t.Helper()
	needs := sized{roles{needed: map[string]int{"a": 2, "b": 1}}, 3}
	return newRigOn(t, clientWith(nodes(4, "1")...), noGroups(), configuration, nil, func(in *Inputs) { in.Derived = needs })
}

// waitPlaced waits until the scheduler knows that enough members of a gang have a node, and records
// it. The API server knows a binding before the scheduler's informer does.
func (r *rig) waitPlaced(g *gang.Group) {
	r.t.Helper()
	r.eventually("the gang "+g.Key.Name+" is placed", func() bool {
		members := r.sched.placements.Members(g.Key)
		return r.sched.runs.IsPlaced(g, &members)
	})
	r.sched.runs.Look(g, r.sched.clock.Now())
}

// eachLostPart runs a test for a tree of two PodGroups, and for a gang of two roles. args are the
// arguments of the plugin.
func eachLostPart(t *testing.T, args string, run func(t *testing.T, of *lostPart)) {
	t.Helper()
	configuration := schedulerYAML + "  pluginConfig: [{name: Reprieve, args: " + args + "}]\n"
	t.Run("a tree", func(t *testing.T) {
		t.Parallel()
		f := newForestWith(t, configuration, nodes(4, "1")...)
		f.plant("R", "", 2, 0, false)
		f.plant("a", "R", 2, 0, false)
		f.plant("b", "R", 1, 0, false)
		lost := pod("b-0", "b", "1", 0)
		f.create(append(members("a", 3, "1", 0), lost)...)
		f.settle(map[string]int{"a": 3, "b": 1})
		g, ok := f.sched.index.Groups.Group(gang.TreeKey("ns", "R"))
		if !ok {
			t.Fatal("the tree is unknown")
		}
		f.waitPlaced(g)
		f.remove(lost)
		run(t, &lostPart{rig: f.rig, group: g, replacement: again(pod("b-0", "b", "1", 0))})
	})
	t.Run("roles", func(t *testing.T) {
		t.Parallel()
		r := newRigOfRoles(t, configuration)
		g := r.gangOf("g", 3, 0)
		lost := pod("b-0", "g", "1", 0)
		for _, name := range []string{"a-0", "a-1", "a-2"} {
			r.create(pod(name, "g", "1", 0))
		}
		r.create(lost)
		r.waitBound("a-0", "a-1", "a-2", "b-0")
		r.waitPlaced(g)
		r.remove(lost)
		run(t, &lostPart{rig: r, group: g, replacement: again(pod("b-0", "g", "1", 0))})
	})
}

// TestLostPart checks a gang that lost the only member of a part, although it has minCount members.
// The gang must count as degraded: the room is kept for the replacement, and a pod of equal
// priority waits.
func TestLostPart(t *testing.T) {
	t.Parallel()
	eachLostPart(t, "{gang: {healTimeout: 1h, staleTimeout: 0s}}", func(t *testing.T, of *lostPart) {
		of.eventually("the gang is degraded", func() bool { return of.sched.stale.degradedBy(of.group).Lacks == 1 })
		of.create(of.replacement, older(pod("lone", "", "1", 0)))
		of.waitBound("b-0")
		if got := of.nodeOf("lone"); got != "" {
			t.Errorf("the lone pod is on %s, in the room of the lost member", got)
		}
		of.eventually("the gang is whole", func() bool { return of.sched.stale.degradedBy(of.group).Lacks == 0 })
	})
}

// TestLostPartGoesStale checks a gang that lost the only member of a part. If no replacement finds
// room, the gang must become stale and give up its room.
func TestLostPartGoesStale(t *testing.T) {
	t.Parallel()
	eachLostPart(t, "{gang: {healTimeout: 0s, staleTimeout: 1s}}", func(t *testing.T, of *lostPart) {
		of.create(pod("lone", "", "1", 0))
		of.waitBound("lone")
		of.create(of.replacement, pod("next", "", "1", 0))
		of.eventually("the gang is evicted for the next pod", func() bool { of.cycles(); return len(of.evictor.orders) > 0 })
		if got := of.taken(0); len(got) != 3 {
			t.Errorf("%v are evicted, want the whole gang", got)
		}
	})
}

// TestNeededRoleThatIsTurnedBack checks a gang in PreBind whose only member of a role is returned
// to the queue. The other members return too, although they are as many as minCount.
func TestNeededRoleThatIsTurnedBack(t *testing.T) {
	t.Parallel()
	r := newRigOfRoles(t, schedulerYAML)
	g := r.gangOf("g", 3, 0)
	var all []*corev1.Pod
	for _, name := range []string{"a-0", "a-1", "a-2", "b-0"} {
		all = append(all, pod(name, "g", "1", 0))
	}
	r.create(slow(all)...)
	r.eventually("all are in PreBind", func() bool {
		r.cycles()
		return !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return r.plugin.handle.GetPodInPreBind(p.UID) == nil })
	})
	r.snapshot()
	head, err := r.upstream.Cache.GetPod(all[3])
	if err != nil {
		t.Fatal(err)
	}
	p := pod("p", "", "1", 10)
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: head.Spec.NodeName}
	r.create(p)
	r.cycle()
	for _, v := range r.evictor.orders[0].Victims {
		if v.Name != "b-0" || !r.plugin.TurnBack(v) {
			t.Fatalf("%s is a victim, or has to be deleted", v.Name)
		}
	}
	r.eventually("the whole gang is turned back", func() bool { return len(r.sched.gangs.Reserved(gangKey(g.Key))) == 0 })
}

// TestSurplusOfAGangWithoutAPart checks a surplus member of a gang that lost the only member of
// another part. It needs a turn until a replacement of the lost member exists.
func TestSurplusOfAGangWithoutAPart(t *testing.T) {
	t.Parallel()
	r := newRigOfRoles(t, schedulerYAML)
	r.sched.QueueSet(limitedQueue("a", "8"))
	r.queuedGang("g", "a", 3)
	lost := pod("b-0", "g", "1", 0)
	r.create(pod("a-0", "g", "1", 0), pod("a-1", "g", "1", 0), lost)
	r.waitBound("a-0", "a-1", "b-0")
	// From here on, the scheduler gives no turns.
	r.sched.retries.leads.Store(false)
	surplus := pod("a-2", "g", "1", 0)
	r.create(surplus)
	r.remove(lost)
	if !r.sched.gates.waitsForTurn(surplus) {
		t.Error("the surplus needs no turn, although it does not make the gang whole")
	}
	again := again(lost)
	r.create(again)
	if r.sched.gates.waitsForTurn(again) {
		t.Error("the replacement waits for a turn")
	}
}
