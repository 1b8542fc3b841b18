package scheduler

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

func tolerantClass(name, minimum, seconds string) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		preemptiontoleration.AnnotationMinimumPreemptablePriority: minimum,
		preemptiontoleration.AnnotationTolerationSeconds:          seconds,
	}}, Value: 0}
}

func classed(p *corev1.Pod, class string, scheduled time.Time) *corev1.Pod {
	p.Spec.PriorityClassName = class
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(scheduled),
	}}
	return p
}

func TestTolerations(t *testing.T) {
	t.Parallel()
	now := time.Now()
	cases := map[string]struct {
		class *schedulingv1.PriorityClass
		group bool
		start time.Time
		// scheduled is the time when the group's member was scheduled. The group's status may
		// differ.
		scheduled   time.Time
		preemptor   int32
		want        core.Outcome
		wantRetryAt time.Time
		// wantFromNow is the time from the decision until the retry, if the toleration's period has
		// not begun.
		wantFromNow time.Duration
		wantSaid    string
		// unresolved is true if the group has no priority yet.
		unresolved bool
		// own is the PriorityClass of the group's member; "" stands for the class "none".
		own string
	}{
		"a group whose class has never been": {
			class: tolerantClass("none", "100", "0"), group: true, unresolved: true, start: now, scheduled: now, preemptor: 100, want: core.Preempts,
		},
		"a group whose class has never been, and its member's protects": {
			class: tolerantClass("own", "100", "3600"), group: true, unresolved: true, own: "own", start: now, scheduled: now, preemptor: 10,
			want: core.Infeasible, wantRetryAt: now.Add(time.Hour + 1),
		},
		"a group whose class has never been, with members of several classes": {
			class: tolerantClass("own", "100", "3600"), group: true, unresolved: true, own: "own", start: now, scheduled: now, preemptor: 100, want: core.Preempts,
		},
		"a group whose class has gone since its priority, and so has its member's": {
			class: tolerantClass("other", "100", "0"), group: true, start: now, scheduled: now, preemptor: 100, want: core.Infeasible, wantSaid: "PriorityClassNotFound",
		},
		"a pod within its time":           {class: tolerantClass("c", "100", "3600"), start: now, preemptor: 10, want: core.Infeasible, wantRetryAt: now.Add(time.Hour + 1)},
		"a pod after its time":            {class: tolerantClass("c", "100", "3600"), start: now.Add(-2 * time.Hour), preemptor: 10, want: core.Preempts},
		"a pod against the minimum":       {class: tolerantClass("c", "100", "3600"), start: now, preemptor: 100, want: core.Preempts},
		"a pod, forever":                  {class: tolerantClass("c", "100", "-1"), start: now.Add(-2 * time.Hour), preemptor: 10, want: core.Infeasible},
		"a malformed policy":              {class: tolerantClass("c", "100", "1h"), start: now, preemptor: 10, want: core.Preempts},
		"a class that is missing":         {class: tolerantClass("other", "100", "-1"), start: now.Add(-2 * time.Hour), preemptor: 100, want: core.Infeasible, wantSaid: "1 unit of a PriorityClass that does not exist is protected (PriorityClassNotFound)"},
		"missing, and system-critical":    {class: tolerantClass("other", "100", "-1"), start: now, preemptor: 2_000_000_000, want: core.Preempts},
		"a group whose class is missing":  {class: tolerantClass("none", "100", "0"), group: true, start: now.Add(-2 * time.Hour), scheduled: now.Add(-2 * time.Hour), preemptor: 100, want: core.Infeasible, wantSaid: "PriorityClassNotFound"},
		"a group within its time":         {class: tolerantClass("c", "100", "3600"), group: true, start: now, preemptor: 10, want: core.Infeasible, wantRetryAt: now.Add(time.Hour + 1)},
		"a group after its time":          {class: tolerantClass("c", "100", "3600"), group: true, start: now.Add(-2 * time.Hour), preemptor: 10, want: core.Preempts},
		"a group that has not begun":      {class: tolerantClass("c", "100", "3600"), group: true, preemptor: 10, want: core.Infeasible, wantFromNow: time.Hour},
		"a pod that is not scheduled yet": {class: tolerantClass("c", "100", "3600"), preemptor: 10, want: core.Infeasible, wantFromNow: time.Hour},
		"its member is within the time": {
			class: tolerantClass("c", "100", "3600"), group: true, scheduled: now, preemptor: 10, want: core.Infeasible, wantRetryAt: now.Add(time.Hour + 1),
		},
		"its member is after the time":        {class: tolerantClass("c", "100", "3600"), group: true, scheduled: now.Add(-2 * time.Hour), preemptor: 10, want: core.Preempts},
		"a pod, longer than can be counted":   {class: tolerantClass("c", "100", "9223372036"), start: now, preemptor: 10, want: core.Infeasible},
		"a group, longer than can be counted": {class: tolerantClass("c", "100", "9223372036"), group: true, start: now, preemptor: 10, want: core.Infeasible},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, append([]runtime.Object{c.class}, nodes(1, "1")...)...)
			victim := classed(pod("v", "", "1", 0), "c", c.start)
			if c.group {
				g := r.gangOf("v", 1, 0)
				g.PriorityClassName, g.StartTime, g.Whole = "c", c.start, true
				// The PriorityClass of the pod itself may differ from the class of the group.
				victim = classed(pod("v", "v", "1", 0), cmp.Or(c.own, "none"), c.scheduled)
				if c.unresolved {
					g.Priority = nil
				}
			}
			p := pod("p", "", "1", c.preemptor)
			r.create(on(victim, "node-0"), p)
			d := r.decideFor(p)
			if d.Outcome != c.want || !strings.Contains(d.Message, c.wantSaid) {
				t.Errorf("%s: %s, want %s", d.Outcome, d.Message, c.want)
			}
			want := snapshot.Nanos(c.wantRetryAt)
			if c.wantFromNow > 0 {
				want = d.Preemptor.Now + int64(c.wantFromNow) + 1
			}
			if d.RetryAt != want {
				t.Errorf("retry at %v, want %v", time.Unix(0, d.RetryAt), time.Unix(0, want))
			}
		})
	}
}

// TestRetriedWhenTolerationEnds checks that the preemptor is retried when the toleration ends,
// without any other event.
func TestRetriedWhenTolerationEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, append([]runtime.Object{tolerantClass("c", "100", "10")}, nodes(1, "1")...)...)
	p := pod("p", "", "1", 10)
	r.create(on(classed(pod("v", "", "1", 0), "c", time.Now()), "node-0"), p)
	r.cycle()
	if n := len(r.evictor.orders); n != 0 {
		t.Fatalf("%d evictions within the toleration", n)
	}
	r.eventually("the pod is tried again", func() bool { return slices.Contains(r.active(), "p") })
	r.cycle()
	if n := len(r.evictor.orders); n != 1 {
		t.Errorf("%d evictions after the toleration, want 1", n)
	}
}

// TestRetriedWhenAClockThatHasBegunSinceEnds checks a toleration whose period begins after the
// decision. The decision did not know when the victim was scheduled. The preemptor must be retried
// when the period ends.
func TestRetriedWhenAClockThatHasBegunSinceEnds(t *testing.T) {
	t.Parallel()
	const seconds = 3
	r := newRig(t, append([]runtime.Object{tolerantClass("c", "100", strconv.Itoa(seconds))}, nodes(1, "1")...)...)
	p, victim := pod("p", "", "1", 10), on(pod("v", "", "1", 0), "node-0")
	victim.Spec.PriorityClassName = "c"
	r.create(victim, p)
	r.cycle()
	decided := time.Now()
	r.eventually("a second has passed since", func() bool { return time.Since(decided) > time.Second })
	began := time.Now().Truncate(time.Second)
	if _, err := r.client.CoreV1().Pods("ns").UpdateStatus(t.Context(), classed(victim, "c", began), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the victim goes", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
	if took := time.Since(began); took < seconds*time.Second {
		t.Errorf("it went %v after it was scheduled, within its toleration", took)
	}
}

// TestOneClockForAGang checks a gang that was never complete. The toleration protects all its
// members from the time when the last member was scheduled. Later reads of single nodes do not
// change that time.
func TestOneClockForAGang(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]bool{"taken whole": true, "taken one by one": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, append([]runtime.Object{tolerantClass("c", "100", "3600")}, nodes(2, "2")...)...)
			g := r.gangOf("g", 3, 0)
			g.PriorityClassName, g.Whole = "c", whole
			m, p := members("g", 2, "1", 0), pod("p", "", "2", 10)
			now := time.Now().Truncate(time.Second)
			r.create(on(classed(m[0], "c", now.Add(-2*time.Hour)), "node-0"), on(pod("other", "", "2", 50), "node-1"), p)
			if d := r.decideFor(p); d.Outcome != core.Preempts {
				t.Fatalf("%s: %s, want to preempt what was scheduled long ago", d.Outcome, d.Message)
			}
			r.remove(pod("other", "", "2", 50))
			r.create(on(classed(m[1], "c", now), "node-1"))
			if d := r.decideFor(p); d.Outcome != core.Infeasible || d.RetryAt != snapshot.Nanos(now.Add(time.Hour))+1 {
				t.Errorf("%s, retry at %v: %s; want to wait for an hour", d.Outcome, time.Unix(0, d.RetryAt), d.Message)
			}
		})
	}
}

// TestRetriedWhenTheClassIsBack checks that the preemptor is retried when a deleted class is
// created again without a toleration.
func TestRetriedWhenTheClassIsBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "1")...)
	p := pod("p", "", "1", 10)
	r.create(on(classed(pod("v", "", "1", 0), "c", time.Now()), "node-0"), p)
	r.cycle()
	class := tolerantClass("c", "", "")
	class.Annotations = nil
	if _, err := r.client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the pod is tried again", func() bool { return slices.Contains(r.active(), "p") })
	r.cycle()
	if n := len(r.evictor.orders); n != 1 {
		t.Errorf("%d evictions, want 1", n)
	}
}

// TestRetriedWhenPolicyGoes checks that the preemptor is retried when the toleration is removed
// from the class.
func TestRetriedWhenPolicyGoes(t *testing.T) {
	t.Parallel()
	for name, seconds := range map[string]string{"with an end": "3600", "without one": "-1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, append([]runtime.Object{tolerantClass("c", "100", seconds)}, nodes(1, "1")...)...)
			p := pod("p", "", "1", 10)
			r.create(on(classed(pod("v", "", "1", 0), "c", time.Now()), "node-0"), p)
			r.cycle()
			plain := tolerantClass("c", "100", seconds)
			plain.Annotations = nil
			if _, err := r.client.SchedulingV1().PriorityClasses().Update(t.Context(), plain, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			r.eventually("the pod is tried again", func() bool { return slices.Contains(r.active(), "p") })
			r.cycle()
			if n := len(r.evictor.orders); n != 1 {
				t.Errorf("%d evictions after the policy has gone, want 1", n)
			}
		})
	}
}

// TestTolerationOfAGroupWithoutAClass checks a group that names no class. The toleration of the
// global default class protects it as long as the group's priority is the value of that class.
func TestTolerationOfAGroupWithoutAClass(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value     int32
		isDefault bool
		want      core.Outcome
	}{
		"the default class":      {value: 3, isDefault: true, want: core.Infeasible},
		"another one by now":     {value: 4, isDefault: true, want: core.Preempts},
		"a class of that value":  {value: 3, want: core.Preempts},
		"some other, no default": {value: 4, want: core.Preempts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			class := tolerantClass("c", "100", "-1")
			class.Value, class.GlobalDefault = c.value, c.isDefault
			r := newRig(t, append([]runtime.Object{class}, nodes(1, "1")...)...)
			r.gangOf("v", 1, 3).StartTime = time.Now()
			p := pod("p", "", "1", 10)
			r.create(on(pod("v", "v", "1", 3), "node-0"), p)
			if d := r.decideFor(p); d.Outcome != c.want {
				t.Errorf("%s: %s, want %s", d.Outcome, d.Message, c.want)
			}
		})
	}
}

// TestNominatedPodsTolerateNothing checks that a toleration protects only scheduled pods. A pod of
// higher standing may use the room that is reserved for a tolerant pod.
func TestNominatedPodsTolerateNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, append([]runtime.Object{tolerantClass("tolerant", "100", "-1")}, nodes(1, "1")...)...)
	victim, nominated, urgent := on(pod("v", "", "1", 0), "node-0"), pod("nominated", "", "1", 5), pod("urgent", "", "1", 10)
	nominated.Spec.PriorityClassName = "tolerant"
	r.create(victim, nominated)
	r.cycle()
	r.succeed(0)
	if node, kept := r.reservedOn(nominated.UID); !kept || node != "node-0" {
		t.Fatalf("Room is kept on %q: %t", node, kept)
	}
	r.create(urgent)
	r.cycles()
	r.remove(victim)
	r.waitBound("urgent")
	if node := r.nodeOf("nominated"); node != "" {
		t.Errorf("The nominated pod is on %s", node)
	}
}

// TestScheduledPodsTolerate checks that a scheduled pod with a toleration is not evicted. The
// preemptor is the same as in TestNominatedPodsTolerateNothing.
func TestScheduledPodsTolerate(t *testing.T) {
	t.Parallel()
	r := newRig(t, append([]runtime.Object{tolerantClass("tolerant", "100", "-1")}, nodes(1, "1")...)...)
	urgent := pod("urgent", "", "1", 10)
	r.create(on(classed(pod("scheduled", "", "1", 5), "tolerant", time.Now()), "node-0"), urgent)
	if d := r.decideFor(urgent); d.Outcome != core.Infeasible {
		t.Errorf("%s: %s, want %s", d.Outcome, d.Message, core.Infeasible)
	}
}
