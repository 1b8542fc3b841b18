package scheduler

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

func TestGangCostsOneCycleForEachMember(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "2")...)
	r.gangOf("g", 3, 0)
	r.create(members("g", 2, "1", 0)...)
	if names := r.active(); len(names) != 0 {
		t.Fatalf("%v go to the queue although a member is missing", names)
	}
	r.create(pod("g-2", "g", "1", 0))
	if names := r.active(); !slices.Equal(names, []string{"g-2"}) {
		t.Fatalf("%v go to the queue, want the last member alone", names)
	}
	for range 3 {
		r.cycle()
	}
	if names := r.active(); len(names) != 0 {
		t.Errorf("%v have another cycle", names)
	}
	r.waitBound("g-0", "g-1", "g-2")
}

// TestRoomOfAPlanCannotBeStolen checks that planned room is reserved until the member's own cycle,
// even if an event deletes the member's nomination.
func TestRoomOfAPlanCannotBeStolen(t *testing.T) {
	t.Parallel()
	for name, thief := range map[string]int32{"of a lower priority": 1, "of the same priority": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(2, "1")...)
			r.gangOf("g", 2, 5)
			r.create(members("g", 2, "1", 5)...)
			r.cycle()
			if r.sched.reserved.Empty() {
				t.Fatal("The gang has not been planned")
			}
			for _, m := range members("g", 2, "1", 5) {
				r.plugin.handle.DeleteNominatedPodIfExists(m)
			}
			r.upstream.SchedulingQueue.Delete(klog.Background(), pod("g-0", "", "1", 0))
			r.upstream.SchedulingQueue.Delete(klog.Background(), pod("g-1", "", "1", 0))
			r.create(pod("thief", "", "1", thief))
			r.cycle()
			if on := r.nodeOf("thief"); on != "" {
				t.Errorf("The thief is on %s", on)
			}
		})
	}
}

func TestLeaderThatGoesHasASuccessor(t *testing.T) {
	t.Parallel()
	gate := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x"}}
		return p
	}
	r := newRig(t, nodes(1, "2")...)
	r.gangOf("g", 2, 0)
	r.create(gate(pod("gated", "g", "1", 0)))
	all := members("g", 3, "2", 0)
	r.create(all...)
	r.cycles()
	for range 2 {
		leader := r.sched.gangs.Leader(gangKey(key("g")))
		if leader == "" || leader == "uid-gated" {
			t.Fatalf("%q leads a gang that does not fit", leader)
		}
		i := slices.IndexFunc(all, func(p *corev1.Pod) bool { return string(p.UID) == leader })
		r.remove(all[i])
		all = slices.Delete(all, i, i+1)
		if len(all) == 1 {
			break
		}
		r.eventually("another member leads", func() bool { return len(r.active()) == 1 })
		r.cycles()
	}
	r.eventually("nobody is left to lead", func() bool {
		r.cycles()
		return r.sched.gangs.Verdict(gangKey(key("g"))).Reason == v1alpha1.ReasonNotEnoughMembers || r.sched.gangs.Idle(gangKey(key("g")))
	})
}

// TestLeaderTurnedAwayByAnotherPlugin checks that another member becomes the leader if another
// plugin rejects the leader, for example because its volume does not exist.
func TestLeaderTurnedAwayByAnotherPlugin(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "2")...)
	g := r.gangOf("g", 2, 0)
	all := members("g", 3, "1", 0)
	r.create(all...)
	leader := r.sched.gangs.Leader(gangKey(key("g")))
	i := slices.IndexFunc(all, func(p *corev1.Pod) bool { return string(p.UID) == leader })
	// Call the method directly, as if an earlier PreFilter plugin had rejected the member.
	r.plugin.notConfirmed(framework.NewCycleState(), all[i], g, nil)
	r.eventually("another member leads", func() bool {
		next := r.sched.gangs.Leader(gangKey(key("g")))
		return next != "" && next != leader
	})
}

// TestMemberGoesWhileOthersWaitAtPermit checks that members that wait at Permit return at once when
// another member is deleted. They must not wait for their timeout.
func TestMemberGoesWhileOthersWaitAtPermit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(3, "1")...)
	r.gangOf("g", 3, 0)
	all := members("g", 3, "1", 0)
	r.create(all...)
	r.cycle()
	r.cycle()
	through := r.sched.gangs.Reserved(gangKey(key("g")))
	if len(through) != 2 {
		t.Fatalf("%v are through", through)
	}
	last := all[slices.IndexFunc(all, func(p *corev1.Pod) bool { return !slices.Contains(through, string(p.UID)) })]
	r.remove(last)
	r.eventually("the others are released", func() bool { return len(r.sched.gangs.Reserved(gangKey(key("g")))) == 0 })
	if !r.sched.reserved.Empty() {
		t.Error("Reservations are still kept")
	}
	again := pod("again", "g", "1", 0)
	r.create(again)
	r.eventually("all are placed", func() bool {
		r.cycles()
		for _, p := range all {
			if p != last && r.nodeOf(p.Name) == "" {
				return false
			}
		}
		return r.nodeOf("again") != ""
	})
}

func TestPodGroupGoesWhileMembersWaitAtPermit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(3, "1")...)
	r.gangOf("g", 3, 0)
	r.create(members("g", 3, "1", 0)...)
	r.cycle()
	r.cycle()
	r.groups.drop(key("g"))
	r.sched.GroupChanged(key("g"))
	r.cycle()
	r.eventually("all are released", func() bool { return len(r.sched.gangs.Reserved(gangKey(key("g")))) == 0 })
	for _, name := range []string{"g-0", "g-1", "g-2"} {
		if on := r.nodeOf(name); on != "" {
			t.Errorf("%s is on %s", name, on)
		}
	}
	r.gangOf("g", 3, 0)
	r.sched.GroupChanged(key("g"))
	r.eventually("all are placed", func() bool {
		r.cycles()
		return r.nodeOf("g-0") != "" && r.nodeOf("g-1") != "" && r.nodeOf("g-2") != ""
	})
}

// TestFailedEviction checks that a failed eviction deletes the nominations. The preemptor is
// retried at once after the first failure, and after a backoff from the second on.
func TestFailedEviction(t *testing.T) {
	t.Parallel()
	for _, asGang := range []bool{true, false} {
		t.Run(map[bool]string{true: "for a gang", false: "for a pod"}[asGang], func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "1"))
			r.create(on(pod("victim", "", "1", 0), "node-0"))
			group := ""
			if asGang {
				r.gangOf("g", 1, 10)
				group = "g"
			}
			preemptor := pod("p", group, "1", 10)
			r.create(preemptor)
			r.cycle()
			if len(r.evictor.orders) != 1 || len(r.evictor.orders[0].Victims) != 1 {
				t.Fatalf("Orders are %+v", r.evictor.orders)
			}
			r.plugin.sched.retries.Retry(r.sched.index.KeyOf(preemptor))
			if names := r.active(); len(names) != 0 {
				t.Fatalf("%v may be scheduled while room is being made", names)
			}
			r.fail(0, errors.New("no permission"))
			if !r.sched.reserved.Empty() || len(r.plugin.handle.NominatedPodsForNode("node-0")) != 0 {
				t.Error("The room is still kept")
			}
			r.eventually("it is tried again at once", func() bool { return len(r.active()) == 1 })
			r.cycle()
			r.fail(1, errors.New("no permission"))
			if names := r.active(); len(names) != 0 {
				t.Fatalf("%v may be scheduled at once after the second failure", names)
			}
			r.eventually("it is tried again later", func() bool { return len(r.active()) == 1 })
			r.cycle()
			r.succeed(2)
			r.remove(pod("victim", "", "1", 0))
			r.eventually("it is placed", func() bool { r.cycles(); return r.nodeOf("p") != "" })
		})
	}
}

// TestLastDepartureWakesThePreemptor checks that a gang that waits for two terminating pods is
// retried only after the last of them is gone.
func TestLastDepartureWakesThePreemptor(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "1")...)
	victims := []*corev1.Pod{on(pod("v-0", "", "1", 0), "node-0"), on(pod("v-1", "", "1", 0), "node-1")}
	for _, v := range victims {
		v.Finalizers = []string{"x/y"}
		now := st.MakePod().Terminating().Obj().DeletionTimestamp
		v.DeletionTimestamp = now
	}
	r.create(victims...)
	r.gangOf("g", 2, 10)
	r.create(members("g", 2, "1", 10)...)
	r.settles(0)
	if got := r.sched.gangs.Verdict(gangKey(key("g"))); got.Reason != v1alpha1.ReasonPreempting {
		t.Fatalf("The verdict is %+v", got)
	}
	if len(r.evictor.orders) != 0 {
		t.Fatalf("%d evictions for room that is being left anyway", len(r.evictor.orders))
	}
	r.remove(victims[0])
	if names := r.active(); len(names) != 0 {
		t.Errorf("%v may be scheduled although a pod is still awaited", names)
	}
	r.remove(victims[1])
	r.eventually("the gang is placed", func() bool {
		r.cycles()
		return r.nodeOf("g-0") != "" && r.nodeOf("g-1") != ""
	})
}

// TestNothingIsRemembered checks that no state remains of deleted pods and gangs.
func TestNothingIsRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "2")...)
	r.gangOf("g", 3, 10)
	all := members("g", 3, "1", 10)
	r.create(all...)
	waits := pod("waits", "", "9", 0)
	r.create(waits)
	for range 4 {
		r.cycle()
	}
	r.waitBound("g-0", "g-1", "g-2")
	for _, p := range append(all, waits) {
		r.remove(p)
	}
	r.eventually("nothing is remembered", func() bool {
		return r.sched.gangs.Len() == 0 && r.sched.reserved.Empty() && r.sched.engine.Len() == 0 && r.sched.records.Len() == 0
	})
}

func TestVerdictOfAGangThatDoesNotFit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "2")...)
	r.gangOf("g", 3, 0)
	r.create(members("g", 3, "1", 0)...)
	r.cycles()
	if got := r.sched.gangs.Verdict(gangKey(key("g"))); got.Reason != v1alpha1.ReasonUnschedulable || got.Message == "" {
		t.Errorf("The verdict is %+v", got)
	}
	// The third member is smaller, so the gang fits.
	r.create(pod("small", "g", "0", 0))
	r.eventually("three are placed", func() bool {
		r.cycles()
		m := r.sched.placements.Members(key("g"))
		return len(m.Assigned) == 3
	})
	if got := r.sched.gangs.Verdict(gangKey(key("g"))); got == (gang.Verdict{}) {
		t.Error("The verdict has been forgotten")
	}
}

// TestMemberThatIsHeldBackDoesNotLead checks that a member that another plugin gates does not
// become the leader. The queue calls the PreEnqueue plugins in random order.
func TestMemberThatIsHeldBackDoesNotLead(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "1")...)
	r.gangOf("g", 2, 0)
	held := pod("held", "g", "1", 0)
	held.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x"}}
	r.create(append(members("g", 2, "1", 0), held)...)
	r.sched.gangs.MemberLeaves(gangKey(key("g")), r.sched.gangs.Leader(gangKey(key("g"))))
	if status := r.sched.gates.pod(held); !status.IsSuccess() {
		t.Errorf("PreEnqueue: %v, want what others say to count", status)
	}
	if leader := r.sched.gangs.Leader(gangKey(key("g"))); leader != "" {
		t.Errorf("%s leads", leader)
	}
	r.sched.retries.gang(key("g"))
	// The previous leader is still in the active queue. A new leader is chosen in its cycle.
	r.cycle()
	if leader := r.sched.gangs.Leader(gangKey(key("g"))); leader != "uid-g-0" && leader != "uid-g-1" {
		t.Errorf("%q leads, want a member that can go", leader)
	}
}

// TestGangThatCannotBeDecidedOn checks that an error in a decision replaces the gang's previous
// verdict.
func TestGangThatCannotBeDecidedOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "1")...)
	r.gangOf("g", 2, 0)
	r.sched.gangs.SetVerdict(gangKey(key("g")), gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: "there are no nodes"})
	// The negative request makes the decision fail. A real API server would reject it.
	r.create(members("g", 2, "-1", 0)...)
	r.cycle()
	if v := r.sched.gangs.Verdict(gangKey(key("g"))); v.Reason != v1alpha1.ReasonUnschedulable || !strings.Contains(v.Message, "asks for -") {
		t.Errorf("The verdict is %+v", v)
	}
}

// TestNobodyIsPlacedBesideThoseWhoGo checks a new member while the other members of its gang
// terminate. The new member must not be placed: it would soon be alone, and would use room that a
// preemptor waits for.
func TestNobodyIsPlacedBesideThoseWhoGo(t *testing.T) {
	t.Parallel()
	begin := map[string]func(r *rig, g *gang.Group, going []*corev1.Pod) (end func()){
		"listed by the PodGroup": func(r *rig, g *gang.Group, going []*corev1.Pod) func() {
			listed := *g
			for _, pod := range going {
				listed.Disrupted = append(listed.Disrupted, v1alpha1.DisruptedPod{Name: pod.Name, UID: pod.UID})
			}
			r.groups.set(&listed)
			r.sched.GroupChanged(g.Key)
			return func() {
				r.groups.set(g)
				r.sched.GroupChanged(g.Key)
			}
		},
		"victims of an eviction": func(r *rig, _ *gang.Group, going []*corev1.Pod) func() {
			victims := make(map[types.UID]*corev1.Pod)
			for _, pod := range going {
				victims[pod.UID] = pod
			}
			taken := r.sched.leaving.Take(victims)
			return func() {
				r.sched.leaving.Spare(taken, nil)
				for _, pod := range going {
					r.sched.departures.stays(pod)
				}
			}
		},
	}
	for name, begin := range begin {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(3, "1")...)
			g := r.gangOf("g", 3, 10)
			all := members("g", 3, "1", 10)
			r.create(on(all[0], "node-0"), on(all[1], "node-1"))
			end := begin(r, g, all[:2])
			r.create(all[2])
			if got := r.active(); len(got) > 0 {
				r.cycles()
				t.Errorf("%v is tried, and placed on %q", got, r.nodeOf("g-2"))
			}
			if v := r.sched.gangs.Verdict(gangKey(g.Key)); v.Reason != v1alpha1.ReasonNotEnoughMembers {
				t.Errorf("The gang is told %+v", v)
			}
			// The eviction ends, and the other members keep running.
			end()
			r.eventually("it is tried", func() bool { return slices.Contains(r.active(), "g-2") })
			r.cycle()
			r.waitBound("g-2")
		})
	}
}

// TestMemberBoundMeanwhile checks a member that is bound after the members were listed for a
// decision. The bound member must count as placed. Otherwise a surplus member would count as
// needed, and would preempt.
func TestMemberBoundMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "3")...)
	g := r.gangOf("g", 2, 5)
	first := members("g", 2, "1", 5)
	r.create(first...)
	r.create(pod("g-2", "g", "1", 5))
	r.sched.gangs.SetPlan(gangKey(g.Key), []engine.Assignment{{Member: string(first[0].UID), Node: "node-0"}, {Member: string(first[1].UID), Node: "node-0"}})
	for _, member := range first {
		if status := r.plugin.Reserve(t.Context(), framework.NewCycleState(), member, "node-0"); !status.IsSuccess() {
			t.Fatal(status)
		}
	}
	known := r.sched.placements.Members(g.Key)
	if len(known.Pending) != 3 || known.Reserved.Len() != 2 {
		t.Fatalf("%d members are pending, and %d of them assumed; want 3 and 2", len(known.Pending), known.Reserved.Len())
	}
	for _, member := range first {
		bound := on(member.DeepCopy(), "node-0")
		if err := r.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), bound, bound.Namespace); err != nil {
			t.Fatal(err)
		}
	}
	r.eventually("both are seen on their nodes", func() bool { return len(r.sched.gangs.Reserved(gangKey(g.Key))) == 0 })
	pre := r.plugin.gangPreemptor(g, &known)
	if pre.minCount != 0 || len(pre.pods) != 1 || pre.pods[0].Name != "g-2" {
		t.Errorf("%d more members are needed, and %d can go; want none, and the surplus", pre.minCount, len(pre.pods))
	}
	if got := r.sched.placements.AtMost(g.Key, &known); got != 2 {
		t.Errorf("At most %d members are through, want 2", got)
	}
}

// TestBasicGroupIsDisruptedWhole checks PodGroups of scheduling.k8s.io with the basic policy and
// the disruption mode "all". Their members are placed one by one and evicted together, as in
// kube-scheduler.
func TestBasicGroupIsDisruptedWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(3, "1")...)
	r.gangOf("g", 0, 0).Whole = true
	all := members("g", 3, "1", 0)
	r.create(all[0])
	r.waitBound("g-0")
	r.create(all[1:]...)
	r.waitBound("g-1", "g-2")
	r.create(pod("p", "", "1", 10))
	r.eventually("it preempts", func() bool { r.cycles(); return len(r.evictor.orders) == 1 })
	if taken := r.evictor.orders[0].Decision.Victims; len(taken) != 1 || !taken[0].Group || len(taken[0].Pods) != 3 {
		t.Errorf("It takes %+v, want the group with its three pods", taken)
	}
}

// TestSmallerSurplus checks that a member past minCount is placed although an older, larger member
// found no room.
func TestSmallerSurplus(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "4")...)
	r.gangOf("g", 1, 0)
	r.create(pod("g-0", "g", "3", 0))
	r.eventually("the gang is placed", func() bool { r.cycles(); return r.nodeOf("g-0") != "" })
	r.create(pod("g-1", "g", "3", 0))
	r.eventually("the larger member leads", func() bool { r.cycles(); return r.sched.gangs.Leader(gangKey(key("g"))) != "" && len(r.active()) == 0 })
	r.create(pod("g-2", "g", "1", 0))
	r.eventually("the smaller member is placed", func() bool { r.cycles(); return r.nodeOf("g-2") != "" })
}
