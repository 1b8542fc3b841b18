package scheduler

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/reporter"
)

// TestMembersThatHoldForOneHeldBack checks that a gang is retried if its leader is gated until more
// members exist. The new members wait for the leader, and no cluster event would retry the leader.
func TestMembersThatHoldForOneHeldBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "1")...)
	r.gangOf("g", 2, 0)
	all := members("g", 3, "1", 0)
	r.create(all[:2]...)
	r.cycle()
	reason := func() string { return r.sched.gangs.Verdict(gangKey(key("g"))).Reason }
	if got := reason(); got != v1alpha1.ReasonUnschedulable {
		t.Fatalf("The verdict is %s, want two members without room", got)
	}
	r.gangOf("g", 3, 0)
	r.sched.GroupChanged(key("g"))
	r.eventually("a member is missing", func() bool { return reason() == v1alpha1.ReasonNotEnoughMembers })
	r.create(all[2])
	r.eventually("it is tried with all three", func() bool {
		r.cycles()
		return reason() == v1alpha1.ReasonUnschedulable
	})
}

// TestTurnAfterTheGate checks that the gate's verdict does not stay in the gang's condition while
// the gang waits for its turn.
func TestTurnAfterTheGate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ said, want string }{
		"nothing":                  {"", v1alpha1.ReasonPending},
		"what held it at the gate": {v1alpha1.ReasonNotEnoughMembers, v1alpha1.ReasonPending},
		"what came of a decision":  {v1alpha1.ReasonUnschedulable, v1alpha1.ReasonUnschedulable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := detached(&Inputs{Groups: &gang.Store{}, Metrics: metrics.New()})
			h.engine.Step(time.Time{}, engine.GroupArrives{Group: gangKey(key("g"))})
			h.gangs.SetVerdict(gangKey(key("g")), gang.Verdict{Reason: c.said})
			h.turns.Enter(admission.Waiter{Key: gangKey(key("g")), Queue: "a"}, h.clock.Now().Add(-time.Hour))
			h.reporter.ReportTurns()
			if v := h.gangs.Verdict(gangKey(key("g"))); v.Reason != c.want || (c.want == v1alpha1.ReasonPending) != strings.HasPrefix(v.Message, reporter.HoldForTurn) {
				t.Errorf("it says %+v, want %s", v, c.want)
			}
		})
	}
}

// TestTurnOfABasicGroupThatHasGone checks that pods of a deleted basic group give up their turns,
// so that other workloads need not wait for them.
func TestTurnOfABasicGroupThatHasGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.sched.QueueSet(limitedQueue("a", "8"))
	r.queuedGang("g", "a", 0)
	p := pod("g-0", "g", "1", 0)
	r.create(p)
	r.eventually("it has its turn", func() bool { return r.sched.turns.TurnOf(podKey(p), "a") == admission.Admitted })
	r.groups.drop(key("g"))
	if r.sched.gates.pod(p).IsSuccess() {
		t.Fatal("it passes the gate")
	}
	if turn := r.sched.turns.TurnOf(podKey(p), "a"); turn != admission.NotEntered {
		t.Errorf("it keeps its turn: %v", turn)
	}
}

// TestHeldBackWorkKeepsNoRoom checks that a workload that becomes blocked loses its reservations,
// and that its evictions stop. Most of these causes come without an event.
func TestHeldBackWorkKeepsNoRoom(t *testing.T) {
	t.Parallel()
	refuse := func(r *rig, pods ...*corev1.Pod) {
		for _, p := range pods {
			p.Annotations = map[string]string{refusedBy: "before the queue"}
			if _, err := r.client.CoreV1().Pods("ns").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	for name, c := range map[string]struct {
		minCount   int
		bounded    bool
		happens    func(r *rig, pods []*corev1.Pod)
		wantReason string
	}{
		"no gang, and its PodGroup goes": {happens: func(r *rig, _ []*corev1.Pod) {
			r.groups.drop(key("g"))
			r.sched.GroupChanged(key("g"))
		}},
		"a gang that gets a member for another scheduler": {minCount: 2, happens: func(r *rig, _ []*corev1.Pod) {
			other := pod("other", "g", "1", 10)
			other.Spec.SchedulerName = "other"
			if _, err := r.client.CoreV1().Pods("ns").Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		}, wantReason: v1alpha1.ReasonMixedSchedulerNames},
		"a gang that is made for pods, and gets one of a lower class": {minCount: 2, bounded: true, happens: func(r *rig, _ []*corev1.Pod) {
			r.create(pod("low", "g", "1", 0))
		}, wantReason: v1alpha1.ReasonPriorityAbovePods},
		"a gang all of whose members another plugin holds back": {minCount: 2, happens: func(r *rig, pods []*corev1.Pod) { refuse(r, pods...) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "2"))
			r.create(on(pod("v", "", "2", 0), "node-0"))
			r.gangOf("g", c.minCount, 10).Bounded = c.bounded
			pods := members("g", max(c.minCount, 1), "1", 10)
			r.create(pods...)
			r.cycles()
			if len(r.evictor.orders) != 1 || !r.wants(0) || r.sched.reserved.Empty() {
				t.Fatal("Nothing is evicted")
			}
			c.happens(r, pods)
			r.eventually("the room is not wanted any more", func() bool { return !r.wants(0) })
			r.finish(0, eviction.Outcome{})
			r.eventually("nothing is promised any more", func() bool { r.cycles(); return r.sched.reserved.Empty() })
			if c.wantReason != "" {
				r.eventually("it says why", func() bool { return r.sched.gangs.Verdict(gangKey(key("g"))).Reason == c.wantReason })
			}
		})
	}
}

// TestJudgedAsItLeft checks that no state of a gang remains if the gate checks it after its last
// member was deleted.
func TestJudgedAsItLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "2"))
	r.gangOf("g", 2, 0)
	p := pod("g-0", "g", "1", 0)
	r.create(p)
	r.eventually("it lacks a member", func() bool { return r.sched.gangs.Len() == 1 })
	r.remove(p)
	r.eventually("it is forgotten", func() bool { return r.sched.gangs.Len() == 0 })
	r.sched.gates.pod(p)
	if n := r.sched.engine.Len(); n > 0 {
		t.Errorf("%d facts are left about a gang whose last member is gone", n)
	}
}
