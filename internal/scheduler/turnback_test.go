package scheduler

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// slowPreBindName is the name of a plugin and of an annotation. The plugin keeps pods with the
// annotation in PreBind until their binding is canceled.
const slowPreBindName = "SlowPreBind"

type slowPreBind struct {
	// unreserved is called with each pod that gives up its node.
	unreserved func(*corev1.Pod)
}

func (slowPreBind) Name() string { return slowPreBindName }

func (slowPreBind) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if pod.Annotations[slowPreBindName] == "" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func (slowPreBind) PreBind(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, _ string) *fwk.Status {
	<-ctx.Done()
	return fwk.AsStatus(ctx.Err())
}

func (slowPreBind) Reserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return nil
}

func (s slowPreBind) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	s.unreserved(pod)
}

func slow(pods []*corev1.Pod) []*corev1.Pod {
	for _, p := range pods {
		p.Annotations = map[string]string{slowPreBindName: "yes"}
	}
	return pods
}

// deletions returns the number of requests to the API that delete a pod.
func (r *rig) deletions() int {
	n := 0
	for _, action := range r.client.Actions() {
		if action.Matches("delete", "pods") {
			n++
		}
	}
	return n
}

// TestVictimsThatAreNotBoundAreTurnedBack checks victims that are not bound yet. They return to the
// queue together with their gang, without a deletion. The preemptor is placed as soon as they have
// returned.
func TestVictimsThatAreNotBoundAreTurnedBack(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		members []*corev1.Pod
		cycles  int
		// reached reports whether the members have reached the step that the case tests.
		reached func(r *rig) bool
	}{
		"at Permit": {
			members: members("g", 3, "1", 0), cycles: 2,
			reached: func(r *rig) bool { return r.waiting() == 2 },
		},
		"in PreBind": {
			members: slow(members("g", 3, "1", 0)), cycles: 3,
			reached: func(r *rig) bool {
				for _, uid := range []types.UID{"uid-g-0", "uid-g-1", "uid-g-2"} {
					if r.plugin.handle.GetPodInPreBind(uid) == nil {
						return false
					}
				}
				return true
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(3, "1")...)
			r.gangOf("g", 3, 0)
			r.create(c.members...)
			for range c.cycles {
				r.cycle()
			}
			r.eventually("the gang is where it is turned back from", func() bool { return c.reached(r) })
			p := pod("p", "", "1", 10)
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: r.placeOf(key("g"))}
			r.create(p)
			r.cycle()
			if len(r.evictor.orders) != 1 {
				t.Fatalf("%d preemptions", len(r.evictor.orders))
			}
			order := r.evictor.orders[0]
			if len(order.Victims) != 1 {
				t.Fatalf("Victims are %v", order.Victims)
			}
			if r.sched.waits.IsShort(podKey(p)) {
				t.Error("It waits for a victim of whose departure no informer tells")
			}
			for _, v := range order.Victims {
				if !r.plugin.TurnBack(v) {
					t.Errorf("%s has to be deleted", v.Name)
				}
				// A victim that has returned to the queue needs no deletion, even if the snapshot
				// still has it on its node.
				if !r.plugin.TurnBack(v) {
					t.Errorf("%s has to be deleted after it was turned back", v.Name)
				}
			}
			r.eventually("the whole gang is turned back", func() bool { return len(r.sched.gangs.Reserved(gangKey(key("g")))) == 0 })
			for _, v := range order.Victims {
				if !r.plugin.TurnBack(v) {
					t.Errorf("%s has to be deleted although it has no place", v.Name)
				}
			}
			r.succeed(0)
			r.eventually("the pod is placed", func() bool { r.cycles(); return r.nodeOf("p") != "" })
			if n := r.deletions(); n != 0 {
				t.Errorf("%d pods are deleted", n)
			}
			if len(r.evictor.orders) != 1 {
				t.Errorf("%d preemptions for one pod", len(r.evictor.orders))
			}
		})
	}
}

// TestNobodyGetsThroughWithVictims checks members at Permit that a preemptor is about to return to
// the queue. They must not count towards minCount for another member, because that member would
// soon be alone. If they are not returned after all, all members are bound together.
func TestNobodyGetsThroughWithVictims(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"turned back": nil, "staying": errRefused} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(3, "1")...)
			g := r.gangOf("g", 3, 0)
			g.Whole = true
			r.create(members("g", 3, "1", 0)...)
			r.cycle()
			r.cycle()
			r.eventually("two wait", func() bool { return r.waiting() == 2 })
			p := pod("p", "", "1", 10)
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: r.placeOf(g.Key)}
			r.create(p)
			// The cycle of the preemptor p comes before the cycle of the third member.
			r.cycle()
			if len(r.evictor.orders) != 1 {
				t.Fatalf("%d preemptions", len(r.evictor.orders))
			}
			r.cycle()
			r.eventually("all three wait", func() bool { return r.waiting() == 3 })
			order := r.evictor.orders[0]
			if err == nil {
				for _, v := range order.Victims {
					if !r.plugin.TurnBack(v) {
						t.Errorf("%s has to be deleted", v.Name)
					}
				}
				r.eventually("the whole gang is turned back", func() bool { return len(r.sched.gangs.Reserved(gangKey(g.Key))) == 0 })
				r.succeed(0)
				r.eventually("the pod is placed", func() bool { r.cycles(); return r.nodeOf("p") != "" })
				return
			}
			r.fail(0, err)
			// Run no further cycles, because the pod would evict the members again in its own
			// cycle.
			for _, name := range []string{"g-0", "g-1", "g-2"} {
				r.eventually(name+" is bound", func() bool { return r.nodeOf(name) != "" })
			}
		})
	}
}

// placeOf returns the node of an assumed member of a group, according to the snapshot.
func (r *rig) placeOf(group types.NamespacedName) string {
	r.t.Helper()
	r.snapshot()
	infos, err := r.plugin.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, info := range infos {
		for _, pi := range info.GetPods() {
			if k, ok := r.sched.index.GroupOf(pi.GetPod()); ok && k == group {
				return info.Node().Name
			}
		}
	}
	r.t.Fatalf("No member of %s has a place", group)
	return ""
}

// TestBoundVictimsAreNotTurnedBack checks that TurnBack does not return a bound victim, even if the
// scheduler's records are outdated.
func TestBoundVictimsAreNotTurnedBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "1")...)
	r.create(pod("v", "", "1", 0))
	r.cycle()
	r.waitBound("v")
	r.eventually("the scheduler knows", func() bool { return !r.sched.records.IsAssumed("uid-v") })
	if r.plugin.TurnBack(pod("v", "", "1", 0)) {
		t.Error("A pod that is bound is turned back")
	}
	if r.plugin.TurnBack(pod("unknown", "", "1", 0)) {
		t.Error("A pod that does not exist is turned back")
	}
}

// TestPreemptorIsPlacedWhenItsVictimIsForgotten checks a preemptor that is retried while the
// snapshot still has the victim on its node. The preemptor must not evict another pod.
func TestPreemptorIsPlacedWhenItsVictimIsForgotten(t *testing.T) {
	t.Parallel()
	for _, asGang := range []bool{true, false} {
		t.Run(map[bool]string{true: "a gang", false: "a pod"}[asGang], func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(2, "1")...)
			r.create(on(pod("other", "", "1", 5), "node-0"))
			r.create(slow([]*corev1.Pod{pod("v", "", "1", 0)})...)
			r.cycle()
			r.eventually("the victim is in PreBind", func() bool { return r.plugin.handle.GetPodInPreBind("uid-v") != nil })
			group := ""
			if asGang {
				r.gangOf("p", 1, 10)
				group = "p"
			}
			r.create(pod("p", group, "1", 10))
			r.cycle()
			// The eviction has ended, but the victim still has its node in the snapshot.
			r.succeed(0)
			r.eventually("the preemptor looks again", func() bool { return slices.Contains(r.active(), "p") })
			r.cycle()
			if len(r.evictor.orders) != 1 {
				t.Fatalf("%d preemptions, the last of %v", len(r.evictor.orders), r.evictor.orders[1].Victims)
			}
			for _, v := range r.evictor.orders[0].Victims {
				r.plugin.TurnBack(v)
			}
			r.eventually("the preemptor is placed", func() bool { r.cycles(); return r.nodeOf("p") != "" })
			if len(r.evictor.orders) != 1 {
				t.Errorf("%d preemptions", len(r.evictor.orders))
			}
			// The victim gets another node. From then on, it must not count as terminating.
			r.remove(pod("other", "", "1", 5))
			r.eventually("the victim has another place", func() bool { r.cycles(); return r.sched.records.IsAssumed("uid-v") })
			if r.sched.leaving.Has(inNamespace("ns", "uid-v")) {
				t.Error("A pod that was turned back and has a place again counts as leaving")
			}
		})
	}
}

// TestMemberThatIsOnItsWayBack checks a gang with a member that was rejected after it got a node.
// For a moment, the framework still counts the member on that node. After that moment, the gang
// fits without victims. So the gang must not evict other pods for the room that its own member
// occupies.
func TestMemberThatIsOnItsWayBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		configuration           string
		nodes, members, waiting int
	}{
		// When the gang is planned, the framework has forgotten only the node of the leader.
		"waits for a place again": {
			configuration: schedulerYAML + "    reserve:\n      enabled: [{name: SlowPreBind}, {name: Reprieve}]\n",
			nodes:         4, members: 3, waiting: 2,
		},
		"has been turned away, and there are enough without it": {configuration: schedulerYAML, nodes: 3, members: 2, waiting: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, c.configuration, nil, nodes(c.nodes, "1")...)
			r.create(on(pod("v", "", "1", 0), fmt.Sprintf("node-%d", c.nodes-1)))
			g := r.gangOf("g", c.members, 10)
			r.create(members("g", 3, "1", 10)...)
			for range c.waiting {
				r.cycle()
			}
			r.eventually("some wait", func() bool { return r.waiting() == c.waiting })
			held := r.sched.gangs.Reserved(gangKey(g.Key))
			last := held[len(held)-1]
			goesBack := make(chan struct{})
			r.unreserved = func(pod *corev1.Pod) {
				if string(pod.UID) == last {
					<-goesBack
				}
			}
			r.sched.releases.rejectAtPermit(types.UID(held[0]), "it is to go back")
			r.eventually("the gang is tried again", func() bool {
				r.cycles()
				return len(r.evictor.orders) > 0 || r.sched.records.IsAwaited(last)
			})
			if len(r.evictor.orders) > 0 {
				t.Errorf("It takes %v", r.evictor.orders[0].Victims)
			}
			close(goesBack)
			r.eventually("the gang is bound", func() bool {
				r.cycles()
				return r.bound(3) == c.members
			})
		})
	}
}

// TestMemberThatIsTurnedAwayAfterItLeft checks a member that failed before Permit, although the
// framework still lists it as waiting. The rejection of this member has no effect, so the gang must
// not wait for the member.
func TestMemberThatIsTurnedAwayAfterItLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "1")...)
	r.gangOf("g", 2, 0)
	r.sched.records.Rejects("uid-g-0")
	r.sched.records.Rejects("uid-g-1")
	r.create(members("g", 2, "1", 0)...)
	r.waitBound("g-0", "g-1")
}
