package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

var errRefused = errors.New("no permission")

// taken returns the names of the victims of an order, sorted.
func (r *rig) taken(order int) []string {
	r.t.Helper()
	if len(r.evictor.orders) <= order {
		r.t.Fatalf("There are %d evictions", len(r.evictor.orders))
	}
	var names []string
	for _, v := range r.evictor.orders[order].Victims {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	return names
}

// TestVictimsOfOthersCountAsGone checks that a preemptor uses the room of other preemptors'
// victims, and evicts no further pods for it. If the evictions of these victims fail, the preemptor
// must be retried.
func TestVictimsOfOthersCountAsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "2")...)
	r.create(on(pod("v-0", "", "1", 0), "node-0"), on(pod("v-1", "", "1", 1), "node-0"))
	r.create(pod("first", "", "1", 10))
	r.cycle()
	if got := r.taken(0); !slices.Equal(got, []string{"v-0"}) {
		t.Fatalf("%v is taken", got)
	}
	// The pod "beside" fits beside the reservation of the first preemptor.
	r.create(pod("beside", "", "1", 10))
	r.cycle()
	if got := r.taken(1); !slices.Equal(got, []string{"v-1"}) {
		t.Errorf("%v is taken for the one beside", got)
	}
	// The pod "above" has a higher priority than both preemptors, so their reservations do not
	// exclude this pod.
	r.create(pod("above", "", "1", 20))
	r.cycle()
	if len(r.evictor.orders) != 2 {
		t.Fatalf("%v is taken for the one above", r.taken(2))
	}
	for i, want := range []int{2, 3} {
		r.fail(i, errRefused)
		r.eventually("the one above looks again", func() bool { return slices.Contains(r.active(), "above") })
		r.cycle()
		if len(r.evictor.orders) != want {
			t.Fatalf("%d evictions after %d have failed, want %d", len(r.evictor.orders), i+1, want)
		}
	}
	if got := r.taken(2); !slices.Equal(got, []string{"v-0"}) {
		t.Errorf("%v is taken for the one above", got)
	}
}

// TestVictimsThatGoInSpiteOfAFailure checks that a victim counts as gone if its eviction began
// before the order failed.
func TestVictimsThatGoInSpiteOfAFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "2")...)
	r.create(on(pod("v-0", "", "1", 0), "node-0"), on(pod("v-1", "", "1", 1), "node-0"))
	r.create(pod("p", "", "2", 10))
	r.cycle()
	if got := r.taken(0); len(got) != 2 {
		t.Fatalf("%v are taken", got)
	}
	r.finish(0, eviction.Outcome{Err: errRefused, Begun: sets.New[types.UID]("uid-v-0")})
	r.eventually("it is tried again", func() bool { return slices.Contains(r.active(), "p") })
	r.cycle()
	if got := r.taken(1); !slices.Equal(got, []string{"v-1"}) {
		t.Errorf("%v are taken the second time", got)
	}
}

// TestListedMembersCountAsGone checks that members that a PodGroup's status lists as disrupted
// count as gone. No scheduler evicts them again, and no other pods are evicted for the same room.
func TestListedMembersCountAsGone(t *testing.T) {
	t.Parallel()
	for _, asGang := range []bool{true, false} {
		t.Run(map[bool]string{true: "for a gang", false: "for a pod"}[asGang], func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(2, "1")...)
			v := r.gangOf("v", 1, 0)
			r.create(on(pod("listed", "v", "1", 0), "node-0"), on(pod("cheap", "", "1", -5), "node-1"))
			listed := *v
			listed.Disrupted = []v1alpha1.DisruptedPod{{Name: "listed", UID: "uid-listed"}}
			r.groups.set(&listed)
			r.sched.GroupChanged(key("v"))
			if !r.sched.KnowsDisruption(key("v")) {
				t.Error("The list is not known")
			}
			group := ""
			if asGang {
				r.gangOf("p", 1, 10)
				group = "p"
			}
			r.create(pod("p", group, "1", 10))
			r.cycle()
			if len(r.evictor.orders) != 0 {
				t.Fatalf("%v is taken although room is being made", r.taken(0))
			}
			if node, ok := r.reservedOn("uid-p"); !ok || node != "node-0" {
				t.Errorf("It waits for room on %q", node)
			}
			// The scheduler that listed the pod as disrupted gives up, so the pod keeps running.
			r.groups.set(v)
			r.sched.GroupChanged(key("v"))
			r.eventually("it looks again", func() bool { return slices.Contains(r.active(), "p") })
			r.cycle()
			if got := r.taken(0); !slices.Equal(got, []string{"cheap"}) {
				t.Errorf("%v is taken", got)
			}
		})
	}
}

// TestWaitingForLeavingPods checks that the message to a preemptor names the terminating pods that
// it waits for.
func TestWaitingForLeavingPods(t *testing.T) {
	t.Parallel()
	const want = "once leaving pods are gone; waits for ns/l-0 on node-0, ns/l-1 on node-0, ns/l-2 on node-0, and 1 more"
	for _, asGang := range []bool{true, false} {
		t.Run(map[bool]string{true: "a gang", false: "a pod"}[asGang], func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "4"))
			for i := range 4 {
				leaving := on(pod(fmt.Sprintf("l-%d", i), "", "1", 20), "node-0")
				leaving.Finalizers, leaving.DeletionTimestamp = []string{"x/y"}, &metav1.Time{}
				r.create(leaving)
			}
			group := ""
			if asGang {
				r.gangOf("p", 1, 10)
				group = "p"
			}
			r.create(pod("p", group, "4", 10))
			r.cycle()
			if asGang {
				if v := r.sched.gangs.Verdict(gangKey(key("p"))); !strings.HasSuffix(v.Message, want) {
					t.Errorf("The verdict is %+v, want %q", v, want)
				}
			}
			// In the condition of a gang's member, other text may be between the two parts of the
			// message.
			_, pods, _ := strings.Cut(want, "; ")
			r.eventually("the pod says so", func() bool {
				p, err := r.client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
				return err == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
					return c.Type == corev1.PodScheduled && strings.Contains(c.Message, "once leaving pods are gone") && strings.Contains(c.Message, pods)
				})
			})
		})
	}
}

// TestLowerNominationsMakeWay checks that the reservations of workloads with lower priority are
// released for a preemptor, and that these workloads are retried at once.
func TestLowerNominationsMakeWay(t *testing.T) {
	t.Parallel()
	for _, asGang := range []bool{true, false} {
		t.Run(map[bool]string{true: "a gang's", false: "a pod's"}[asGang], func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "2"))
			leaving := on(pod("leaving", "", "1", 0), "node-0")
			leaving.Finalizers = []string{"x/y"}
			leaving.DeletionTimestamp = &metav1.Time{}
			r.create(leaving, on(pod("v", "", "1", 0), "node-0"))
			group := ""
			if asGang {
				r.gangOf("low", 1, 5)
				group = "low"
			}
			low := pod("low", group, "1", 5)
			r.create(low)
			r.cycle()
			if _, ok := r.reservedOn("uid-low"); !ok || len(r.evictor.orders) != 0 {
				t.Fatal("The lower one does not wait for room")
			}
			r.create(pod("high", "", "2", 10))
			r.cycle()
			if got := r.taken(0); !slices.Equal(got, []string{"v"}) {
				t.Fatalf("%v is taken", got)
			}
			if node, ok := r.reservedOn("uid-low"); ok {
				t.Errorf("Room on %s is still kept for the lower one", node)
			}
			for _, pi := range r.plugin.handle.NominatedPodsForNode("node-0") {
				if pi.GetPod().Name == "low" {
					t.Error("The lower one is still nominated")
				}
			}
			r.eventually("the lower one looks again", func() bool { return slices.Contains(r.active(), "low") })
		})
	}
}

// TestPlanThatALowerGangHasMakesWay checks that a preemptor returns the waiting members of a gang
// with lower priority to the queue, and that the gang is planned again.
func TestPlanThatALowerGangHasMakesWay(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "4"))
	r.create(on(pod("v", "", "1", 0), "node-0"))
	r.gangOf("low", 3, 5)
	r.create(members("low", 3, "1", 5)...)
	r.cycle()
	r.cycle()
	if r.waiting() != 2 {
		t.Fatalf("%d members wait", r.waiting())
	}
	r.create(pod("high", "", "2", 10))
	r.cycle()
	if len(r.evictor.orders) != 1 {
		t.Fatalf("%d evictions", len(r.evictor.orders))
	}
	r.eventually("the whole gang is turned back", func() bool { return len(r.sched.gangs.Reserved(gangKey(key("low")))) == 0 && r.waiting() == 0 })
	if n := r.sched.gangs.Planned(gangKey(key("low"))); n != 0 {
		t.Errorf("%d members are still planned", n)
	}
}

// TestVictimThatHasMoved checks a gang of victims that was returned to the queue before its
// eviction began, and was placed elsewhere. The members must not be evicted from their new nodes.
func TestVictimThatHasMoved(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "3"))
	r.gangOf("low", 3, 5)
	r.create(members("low", 3, "1", 5)...)
	r.cycle()
	r.cycle()
	r.create(pod("high", "", "3", 10))
	r.cycle()
	if len(r.evictor.orders) != 1 {
		t.Fatalf("%d evictions", len(r.evictor.orders))
	}
	low := r.evictor.orders[0].Victims
	if len(low) == 0 {
		t.Fatal("No member of the gang is a victim")
	}
	for _, victim := range low {
		if r.plugin.HasMoved(victim) {
			t.Errorf("%s has moved, and nothing has happened", victim.Name)
		}
	}
	if _, err := r.client.CoreV1().Nodes().Create(t.Context(), node("node-1", "4"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the gang has its place on the other node", func() bool { r.cycles(); return r.nodeOf("low-0") == "node-1" })
	for _, victim := range low {
		if !r.plugin.HasMoved(victim) {
			t.Errorf("%s would be deleted on %s", victim.Name, r.nodeOf(victim.Name))
		}
	}
}

// TestNominationsOfAGang checks that the nominations of all members are written to the API. The
// framework writes the nomination of the leader, and the evictor writes the rest.
func TestNominationsOfAGang(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(3, "1")...)
	for i, n := range []string{"node-0", "node-1", "node-2"} {
		r.create(on(pod([]string{"a", "b", "c"}[i], "", "1", 0), n))
	}
	r.gangOf("g", 3, 10)
	// One member's own priority is above the priority of the group, and another member's is below.
	all := members("g", 3, "1", 10)
	*all[0].Spec.Priority, *all[1].Spec.Priority = 50, 1
	r.create(all...)
	r.cycle()
	order := r.evictor.orders[0]
	byFramework := 0
	for _, n := range order.Nominations {
		if on, ok := r.reservedOn(n.Pod.UID); !ok || on != n.Node {
			t.Errorf("%s is nominated for %q, and its reservation is on %q", n.Pod.Name, n.Node, on)
		}
		if n.ByFramework {
			byFramework++
			if n.Pod.UID == "uid-g-0" {
				t.Error("The framework nominates a pod whose priority is not what counts")
			}
		}
		if string(n.Pod.UID) == r.sched.gangs.Leader(gangKey(key("g"))) {
			if n.Saying != nil {
				t.Errorf("%s is to say %q, of which the framework speaks", n.Pod.Name, n.Saying.Message)
			}
		} else if c := n.Saying; c == nil || c.Reason != corev1.PodReasonUnschedulable || c.Message != r.sched.gangs.Verdict(gangKey(key("g"))).Message {
			t.Errorf("%s is to say %+v with its node, want what its gang says", n.Pod.Name, c)
		}
	}
	leader := r.sched.gangs.Leader(gangKey(key("g")))
	if want := map[bool]int{true: 0, false: 1}[leader == "uid-g-0"]; len(order.Nominations) != 3 || byFramework != want {
		t.Errorf("There are %d nominations, %d of them by the framework, want 3 and %d", len(order.Nominations), byFramework, want)
	}
	if !r.plugin.Wants(&order) {
		t.Error("The room is not wanted")
	}
	r.fail(0, errRefused)
	taken := r.evictor.taken()
	of := sets.New[types.UID]()
	for _, n := range taken {
		of.Insert(n.Pod.UID)
		if n.Node != "" || n.ByFramework {
			t.Errorf("%+v is left of the nominations", n)
		}
	}
	if of.Len() != 3 {
		t.Errorf("the nominations of %v are taken back, want those of all three", sets.List(of))
	}
	if r.plugin.Wants(&order) {
		t.Error("The room is wanted although the nominations have been taken back")
	}
}

// taken returns the nominations that were written without an order.
func (f *fakeEvictor) taken() []podstatus.Nomination {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.nominations)
}

// TestRoomIsNotWantedForWhoHasGone checks that an order is no longer wanted after the preemptor was
// deleted.
func TestRoomIsNotWantedForWhoHasGone(t *testing.T) {
	t.Parallel()
	for _, asGang := range []bool{true, false} {
		t.Run(map[bool]string{true: "a member", false: "a pod"}[asGang], func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "1"))
			r.create(on(pod("v", "", "1", 0), "node-0"))
			group := ""
			if asGang {
				r.gangOf("p", 1, 10)
				group = "p"
			}
			p := pod("p", group, "1", 10)
			r.create(p)
			r.cycle()
			if !r.wants(0) {
				t.Fatal("The room is not wanted")
			}
			r.remove(p)
			r.eventually("the room is not wanted any more", func() bool { return !r.wants(0) })
		})
	}
}

// TestNominationThatOverstatesItsPriority checks a member whose own priority is above the priority
// of its group. Its nomination must not keep room from workloads that rank above the group.
func TestNominationThatOverstatesItsPriority(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "1"))
	victim := on(pod("v", "", "1", 0), "node-0")
	r.create(victim)
	r.gangOf("g", 1, 5)
	member := pod("g-0", "g", "1", 50)
	r.create(member)
	r.cycle()
	r.create(pod("above", "", "1", 10))
	r.cycle()
	nominated := member.DeepCopy()
	nominated.Status.NominatedNodeName = "node-0"
	nominated.ResourceVersion = "2"
	if _, err := r.client.CoreV1().Pods("ns").UpdateStatus(t.Context(), nominated, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the framework keeps the room", func() bool {
		return slices.ContainsFunc(r.plugin.handle.NominatedPodsForNode("node-0"), func(pi fwk.PodInfo) bool { return pi.GetPod().Name == "g-0" })
	})
	// The gang must not be planned again while its evictions are under way.
	r.remove(victim)
	r.eventually("the one above is placed", func() bool { r.cycles(); return r.nodeOf("above") != "" })
}

func TestOutcomesOfAttempts(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[core.Outcome]string{core.Fits: "fits", core.Waits: "fits", core.Preempts: "preempts", core.Infeasible: "infeasible"} {
		if got := attemptOf(outcome); string(got) != want {
			t.Errorf("%s is counted as %s", outcome, got)
		}
	}
}

// preempting returns a rig with an eviction under way for a pod on node-0.
func preempting(t *testing.T) (*rig, *corev1.Pod) {
	t.Helper()
	r := newRig(t, nodes(1, "1")...)
	r.create(on(pod("v", "", "1", 0), "node-0"))
	p := pod("p", "", "1", 10)
	r.create(p)
	r.cycle()
	return r, p
}

// TestNominationsThatOutliveTheirRoom checks a reservation that ends while its eviction is under
// way. The eviction may still write the nomination to the API. So the scheduler deletes the
// nomination when the eviction fails.
func TestNominationsThatOutliveTheirRoom(t *testing.T) {
	t.Parallel()
	r, p := preempting(t)
	r.sched.steps.step(engine.Releases{Key: r.sched.index.KeyOf(p)})
	before := len(r.evictor.taken())
	r.finish(0, eviction.Outcome{Err: eviction.ErrOutdated, Unwanted: true})
	taken := r.evictor.taken()[before:]
	if !slices.ContainsFunc(taken, func(n podstatus.Nomination) bool { return n.Pod.UID == p.UID && n.Node == "" }) {
		t.Errorf("%+v is said of nominations, want that there is none any more", taken)
	}
}

// TestWithdrawalThatComesLate checks that deleting the nomination of an ended reservation does not
// delete the nomination of the pod's next reservation.
func TestWithdrawalThatComesLate(t *testing.T) {
	t.Parallel()
	r, p := preempting(t)
	before := len(r.evictor.taken())
	r.sched.releases.withdraw([]*corev1.Pod{p})
	if taken := r.evictor.taken()[before:]; len(taken) != 0 || len(r.plugin.handle.NominatedPodsForNode("node-0")) != 1 {
		t.Errorf("%+v is said, and %d are nominated", taken, len(r.plugin.handle.NominatedPodsForNode("node-0")))
	}
}

// TestVictimsThatGo checks that the preemptor is retried when its victims are gone, and not
// earlier, because an earlier cycle would fail. If the victims take long, the preemptor is retried
// once so that its message names them.
func TestVictimsThatGo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		preemptors []*corev1.Pod
		key        workload.Key
	}{
		"a pod":  {preemptors: []*corev1.Pod{pod("p-0", "", "1", 5)}, key: podKey(pod("p-0", "", "1", 5))},
		"a gang": {preemptors: members("p", 2, "1", 5), key: gangKey(key("p"))},
	} {
		for _, linger := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, whose victims linger: %t", name, linger), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, nodes(2, "1")...)
				victims := []*corev1.Pod{on(pod("v-0", "", "1", 0), "node-0"), on(pod("v-1", "", "1", 0), "node-1")}
				r.create(victims...)
				r.gangOf("p", 2, 5)
				r.create(c.preemptors...)
				r.cycle()
				// An event during the cycle may cause one more retry. The eviction under way blocks
				// that retry.
				r.settles(0)
				start := time.Now()
				r.succeed(0)
				if got := r.active(); len(got) > 0 && time.Since(start) < time.Second {
					t.Fatalf("%q are to be tried with their victims there", got)
				}
				if !linger {
					// From here on, only the departure of the victims may retry the preemptors.
					r.sched.waits.Resolve(c.key, engine.Going)
				} else {
					r.eventually("it is tried again", func() bool { return len(r.active()) > 0 })
					r.cycles()
					r.eventually("it names a victim", func() bool { return strings.Contains(r.said(c.preemptors[0]), "ns/v-") })
				}
				for _, victim := range victims {
					r.remove(victim)
				}
				r.eventually("all are placed", func() bool {
					r.cycles()
					return !slices.ContainsFunc(c.preemptors, func(p *corev1.Pod) bool { return r.nodeOf(p.Name) == "" })
				})
			})
		}
	}
}

func inNamespace(namespace string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: uid}}
}
