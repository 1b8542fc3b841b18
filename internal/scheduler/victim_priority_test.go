package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

func classOf(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}

// raisedRig returns a rig with one node, which a gang of priority 10 fills, and a waiting pod of
// priority 60. The cluster has the classes "mid" (50) and "high" (100). set changes the PodGroup of
// the gang.
func raisedRig(t *testing.T, class string) (r *rig, set func(func(*gang.Group)), waits *corev1.Pod) {
	t.Helper()
	r = newRig(t, append([]runtime.Object{classOf("mid", 50), classOf("high", 100)}, nodes(1, "1")...)...)
	set = func(change func(*gang.Group)) {
		g := &gang.Group{Key: key("v"), UID: "uid-v", MinCount: 1, Whole: true, Priority: ptr.To[int32](10), PreemptionPriorityClass: class}
		change(g)
		r.groups.set(g)
		r.sched.GroupChanged(g.Key)
	}
	set(func(*gang.Group) {})
	waits = pod("p", "", "1", 60)
	r.create(on(pod("v-0", "v", "1", 10), "node-0"), waits)
	return r, set, waits
}

// TestVictimPriorityInDecisions checks which priority a group has as a potential victim, and the
// reported verdict.
func TestVictimPriorityInDecisions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		class    string
		want     core.Outcome
		wantSaid string
	}{
		"none":                {want: core.Preempts, wantSaid: "the victim's priority is 10"},
		"below the preemptor": {class: "mid", want: core.Preempts, wantSaid: "the victim's priority is 50, raised from 10 by its preemptionPriorityClassName"},
		"above the preemptor": {class: "high", want: core.Infeasible},
		"of no class":         {class: "gone", want: core.Preempts, wantSaid: "the victim's priority is 10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _, waits := raisedRig(t, c.class)
			d := r.decideFor(waits)
			if d.Outcome != c.want {
				t.Fatalf("%s: %s, want %s", d.Outcome, d.Message, c.want)
			}
			if c.wantSaid == "" {
				return
			}
			if said := d.WhyTaken(&d.Victims[0]); !strings.HasSuffix(said, c.wantSaid) {
				t.Errorf("the victim is told %q, want %q", said, c.wantSaid)
			}
		})
	}
}

// TestRaiseCountsForVictimsOnly checks that a raised priority counts only for the group as a
// potential victim. The group preempts, and is ordered in the queue, by its scheduling priority.
func TestRaiseCountsForVictimsOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, append([]runtime.Object{classOf("high", 100)}, nodes(1, "1")...)...)
	g := r.gangOf("g", 1, 10)
	g.PreemptionPriorityClass = "high"
	member := pod("g-0", "g", "1", 10)
	r.create(on(pod("other", "", "1", 50), "node-0"), member)
	if d := r.decideFor(member); d.Outcome != core.Infeasible || d.Preemptor.Priority != 10 {
		t.Errorf("%s with priority %d: %s, want no room with 10", d.Outcome, d.Preemptor.Priority, d.Message)
	}
	if got := r.sched.PriorityOf(member); got != 10 {
		t.Errorf("the member is queued with priority %d, want 10", got)
	}
}

// TestRetriedWhenVictimPriorityFalls checks when a waiting preemptor is retried: only after the
// priority of a potential victim has fallen below the preemptor's priority.
func TestRetriedWhenVictimPriorityFalls(t *testing.T) {
	t.Parallel()
	highest := func(class string) *v1alpha1.Queue {
		return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: v1alpha1.QueueSpec{MaxPriorityClass: &class}}
	}
	for name, c := range map[string]struct {
		fall func(r *rig, set func(func(*gang.Group)))
		// queued is true if the victim is in a queue whose maximum is the class "high".
		queued bool
		stays  bool
	}{
		"the field is removed": {fall: func(_ *rig, set func(func(*gang.Group))) {
			set(func(g *gang.Group) { g.PreemptionPriorityClass = "" })
		}},
		"the field names a lower class": {fall: func(_ *rig, set func(func(*gang.Group))) {
			set(func(g *gang.Group) { g.PreemptionPriorityClass = "mid" })
		}},
		"it is deleted without a running member": {stays: true, fall: func(r *rig, _ func(func(*gang.Group))) {
			r.groups.set(&gang.Group{Key: key("w"), UID: "uid-w", MinCount: 1, Priority: ptr.To[int32](10), PreemptionPriorityClass: "high"})
			r.sched.GroupChanged(key("w"))
			r.groups.drop(key("w"))
			r.sched.GroupChanged(key("w"))
		}},
		"something else changes": {stays: true, fall: func(_ *rig, set func(func(*gang.Group))) {
			set(func(g *gang.Group) { g.StartTime = time.Now() })
		}},
		"the class is deleted": {fall: func(r *rig, _ func(func(*gang.Group))) {
			if err := r.client.SchedulingV1().PriorityClasses().Delete(r.t.Context(), "high", metav1.DeleteOptions{}); err != nil {
				r.t.Fatal(err)
			}
		}},
		"the class has another value": {fall: func(r *rig, _ func(func(*gang.Group))) {
			if _, err := r.client.SchedulingV1().PriorityClasses().Update(r.t.Context(), classOf("high", 55), metav1.UpdateOptions{}); err != nil {
				r.t.Fatal(err)
			}
		}},
		"the queue accepts less": {queued: true, fall: func(r *rig, _ func(func(*gang.Group))) { r.sched.QueueSet(highest("mid")) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, set, _ := raisedRig(t, "high")
			if c.queued {
				r.eventually("the classes are known", func() bool {
					_, mid := r.sched.tolerations.ValueOf("mid")
					_, high := r.sched.tolerations.ValueOf("high")
					return mid && high
				})
				r.sched.QueueSet(highest("high"))
				set(func(g *gang.Group) { g.Queue = "q" })
			}
			r.cycles()
			if n := len(r.evictor.orders); n != 0 {
				t.Fatalf("%d evictions by a lower priority", n)
			}
			if slices.Contains(r.active(), "p") {
				t.Fatal("the pod is active already")
			}
			c.fall(r, set)
			if c.stays {
				r.never("the pod is tried again", 300*time.Millisecond, func() bool { return slices.Contains(r.active(), "p") })
				return
			}
			r.eventually("the pod is tried again", func() bool { return slices.Contains(r.active(), "p") })
			r.eventually("the gang goes", func() bool { r.cycles(); return len(r.evictor.orders) == 1 })
		})
	}
}

// TestRaisedSinceTheDecision checks an eviction by priority that has not begun. It must not begin
// if the priority of the potential victim was raised to the preemptor's priority after the
// decision.
func TestRaisedSinceTheDecision(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule  core.Rule
		class string
		want  bool
	}{
		"raised above":         {core.RuleLowerPriority, "high", true},
		"raised to less":       {core.RuleLowerPriority, "mid", false},
		"not raised":           {core.RuleLowerPriority, "", false},
		"taken back by queues": {core.RuleReclaim, "high", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, set, waits := raisedRig(t, "")
			d := r.decideFor(waits)
			if d.Outcome != core.Preempts {
				t.Fatalf("%s: %s", d.Outcome, d.Message)
			}
			d.Victims[0].Rule = c.rule
			member, ok := r.sched.index.PodOf(podKey(pod("v-0", "v", "1", 10)))
			if !ok {
				t.Fatal("the member is not known")
			}
			order := eviction.Order{
				Decision: *d, Victims: map[types.UID]*corev1.Pod{member.UID: member},
				Groups: r.sched.index.GroupsOf([]*corev1.Pod{member}), Seen: r.sched.runs.Settle(r.sched.index.Groups, r.sched.clock.Now()),
			}
			set(func(g *gang.Group) { g.PreemptionPriorityClass = c.class })
			if got := r.plugin.RunsAnew(&order, key("v")); got != c.want {
				t.Errorf("outdated: %t, want %t", got, c.want)
			}
		})
	}
}

// TestRaisedGangsThatLackMembers checks that a stale gang has its scheduling priority as a
// potential victim. Otherwise, two stale gangs with raised priorities would wait for each other.
func TestRaisedGangsThatLackMembers(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, "{gang: {staleTimeout: 1s}}", append([]runtime.Object{classOf("high", 100)}, nodes(2, "1")...)...)
	g := r.gangOf("a", 3, 5)
	g.Scheduled, g.PreemptionPriorityClass = true, "high"
	for n, member := range members("a", 2, "1", 5) {
		member.Status.Phase = corev1.PodRunning
		r.create(on(member, "node-"+string(rune('0'+n))))
	}
	equal := pod("equal", "", "1", 5)
	r.create(equal)
	r.eventually("it is stale", func() bool { return r.sched.stale.degradedBy(g).Stale })
	if d := r.decideFor(equal); d.Outcome != core.Preempts || d.Victims[0].Rule != core.RuleStaleGang || d.Victims[0].RaisedBy != 0 {
		t.Errorf("of equal priority: %s: %s, victims %+v; want the gang as a whole", d.Outcome, d.Message, d.Victims)
	}
}
