package scheduler

import (
	"math"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

func tolerantClass(name, minimum, seconds string) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		preemptiontoleration.AnnotationMinimumPreemptablePriority: minimum,
		preemptiontoleration.AnnotationTolerationSeconds:          seconds,
	}}, Value: 0}
}

// classed gives a pod a class, and says when it was scheduled.
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
		// scheduled is when the group's member was, whatever the group says.
		scheduled   time.Time
		preemptor   int32
		want        core.Outcome
		wantRetryAt time.Time
	}{
		"a pod within its time":      {class: tolerantClass("c", "100", "3600"), start: now, preemptor: 10, want: core.Infeasible, wantRetryAt: now.Add(time.Hour + 1)},
		"a pod after its time":       {class: tolerantClass("c", "100", "3600"), start: now.Add(-2 * time.Hour), preemptor: 10, want: core.Preempts},
		"a pod against the minimum":  {class: tolerantClass("c", "100", "3600"), start: now, preemptor: 100, want: core.Preempts},
		"a pod, forever":             {class: tolerantClass("c", "100", "-1"), start: now.Add(-2 * time.Hour), preemptor: 10, want: core.Infeasible},
		"a malformed policy":         {class: tolerantClass("c", "100", "1h"), start: now, preemptor: 10, want: core.Preempts},
		"a class that is missing":    {class: tolerantClass("other", "100", "-1"), start: now, preemptor: 10, want: core.Preempts},
		"a group within its time":    {class: tolerantClass("c", "100", "3600"), group: true, start: now, preemptor: 10, want: core.Infeasible, wantRetryAt: now.Add(time.Hour + 1)},
		"a group after its time":     {class: tolerantClass("c", "100", "3600"), group: true, start: now.Add(-2 * time.Hour), preemptor: 10, want: core.Preempts},
		"a group that has not begun": {class: tolerantClass("c", "100", "3600"), group: true, preemptor: 10, want: core.Infeasible},
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
				// The pod's own class is another one's business.
				victim = classed(pod("v", "v", "1", 0), "none", c.scheduled)
			}
			p := pod("p", "", "1", c.preemptor)
			r.create(on(victim, "node-0"), p)
			d := r.decideFor(p)
			if d.Outcome != c.want {
				t.Errorf("%s: %s, want %s", d.Outcome, d.Message, c.want)
			}
			if want := nanos(c.wantRetryAt); d.RetryAt != want {
				t.Errorf("retry at %v, want %v", time.Unix(0, d.RetryAt), time.Unix(0, want))
			}
		})
	}
}

// TestRetriedWhenTolerationEnds: nothing else happens meanwhile.
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

// TestRetriedWhenPolicyGoes: the class gives its toleration up, whether it had an end or not.
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

// TestTolerationOfAGroupWithoutAClass: it is the default class's, as long as that is the one which the group has its
// priority from.
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

func TestNanos(t *testing.T) {
	t.Parallel()
	last := time.Unix(0, math.MaxInt64)
	for name, c := range map[string]struct {
		at   time.Time
		want int64
	}{
		"no time":              {time.Time{}, 0},
		"a time":               {time.Unix(7, 5), 7_000_000_005},
		"the last one":         {last, math.MaxInt64},
		"the one after it":     {last.Add(1), core.Forever},
		"what comes no more":   {preemptiontoleration.Forever(), core.Forever},
		"the end of calendars": {time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), core.Forever},
	} {
		if got := nanos(c.at); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
