package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TestStaleGangGivesItsRoomUp checks two gangs that have each lost a member, with room for only one
// replacement. After the timeout, one order evicts the younger gang as a whole. There is no
// eviction without a timeout, or if the gangs were never complete.
func TestStaleGangGivesItsRoomUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout string
		// placed is true if the gangs were complete before they lost a member.
		placed bool
		whole  bool
		want   string
	}{
		"mode Pod":                    {timeout: "1s", placed: true, want: "b-0 b-1"},
		"mode PodGroup":               {timeout: "1s", placed: true, whole: true, want: "b-0 b-1"},
		"turned off":                  {timeout: "0s", placed: true},
		"placed for the first time":   {timeout: "1s"},
		"the timeout has not run out": {timeout: "1h", placed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, "{gang: {staleTimeout: "+c.timeout+"}}", nodes(4, "1")...)
			begun := time.Now()
			for i, name := range []string{"a", "b"} {
				g := r.gangOf(name, 3, 0)
				g.Scheduled, g.Whole = c.placed, c.whole
				for n, member := range members(name, 3, "1", 0) {
					if n < 2 {
						member.Status.Phase = corev1.PodRunning
						member.Status.StartTime = &metav1.Time{Time: time.Unix(int64(1000+i), 0)}
						on(member, "node-"+string(rune('0'+2*i+n)))
					}
					r.create(member)
				}
			}
			r.cycles()
			// On a busy machine, the timeout may have passed already.
			if got := len(r.evictor.orders); got > 0 && time.Since(begun) < time.Second {
				t.Fatalf("%d orders at once: %v", got, r.victims())
			}
			if c.want == "" {
				r.never("somebody goes", 2500*time.Millisecond, func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
				return
			}
			r.eventually("the room of a gang is taken", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
			r.never("the other one goes too", 1500*time.Millisecond, func() bool { r.cycles(); return len(r.evictor.orders) > 1 })
			got := r.victims()
			slices.Sort(got)
			if strings.Join(got, " ") != c.want {
				t.Errorf("%v go, want %s", got, c.want)
			}
		})
	}
}

// TestStaleGangGoesForOthers checks that a waiting pod of equal priority evicts a whole stale gang.
// A pod of lower priority does not.
func TestStaleGangGoesForOthers(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, "{gang: {staleTimeout: 1s}}", nodes(2, "1")...)
	g := r.gangOf("a", 3, 5)
	g.Scheduled = true
	for n, member := range members("a", 2, "1", 5) {
		member.Status.Phase = corev1.PodRunning
		r.create(on(member, "node-"+string(rune('0'+n))))
	}
	low, equal := pod("low", "", "1", 4), pod("equal", "", "1", 5)
	r.create(low, equal)
	r.eventually("it is stale", func() bool { return r.sched.stale.degradedBy(g).Stale })
	if d := r.decideFor(low); d.Outcome != core.Infeasible {
		t.Errorf("of lower priority: %s, want no room", d.Outcome)
	}
	d := r.decideFor(equal)
	if d.Outcome != core.Preempts || len(d.Victims) != 1 || !d.Victims[0].Group || len(d.Victims[0].Pods) != 2 || d.Victims[0].Rule != core.RuleStaleGang {
		t.Errorf("of equal priority: %s, victims %+v; want the gang as a whole", d.Outcome, d.Victims)
	}
}

// TestRaisedWithoutLeader checks a running gang whose minCount was raised while no scheduler led.
// The status still shows the old minCount. The gang has lost no member, so it keeps its room.
func TestRaisedWithoutLeader(t *testing.T) {
	t.Parallel()
	for name, observed := range map[string]int64{"the status is older": 1, "the status is newer: a member was lost": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, "{gang: {staleTimeout: 1s}}", nodes(2, "1")...)
			g := gang.FromPodGroup(&v1alpha1.PodGroup{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "uid-g", Generation: 2},
				Spec: v1alpha1.PodGroupSpec{PodGroupPolicy: v1alpha1.PodGroupPolicy{
					Priority: ptr.To[int32](5), SchedulingPolicy: &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 3}},
				}},
				Status: v1alpha1.PodGroupStatus{Scheduled: 2, Conditions: []metav1.Condition{{
					Type: v1alpha1.ConditionPodGroupScheduled, Status: metav1.ConditionTrue, ObservedGeneration: observed,
				}}},
			})
			r.groups.set(g)
			for n, member := range members("g", 2, "1", 5) {
				member.Status.Phase = corev1.PodRunning
				r.create(on(member, "node-"+string(rune('0'+n))))
			}
			r.create(pod("g-2", "g", "1", 5), pod("equal", "", "1", 5))
			if observed == 2 {
				r.eventually("the gang is evicted", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
				return
			}
			r.never("the gang is evicted", 2500*time.Millisecond, func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
			if since := r.sched.gangs.DegradedSince(gangKey(g.Key)); !since.IsZero() {
				t.Errorf("It is degraded since %v", since)
			}
		})
	}
}
