package scheduler

import (
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
		class       *schedulingv1.PriorityClass
		group       bool
		start       time.Time
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
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, append([]runtime.Object{c.class}, nodes(1, "1")...)...)
			victim := classed(pod("v", "", "1", 0), "c", c.start)
			if c.group {
				g := r.gangOf("v", 1, 0)
				g.PriorityClassName, g.StartTime, g.Whole = "c", c.start, true
				// The pod's own class and time are another one's business.
				victim = classed(pod("v", "v", "1", 0), "none", now.Add(-2*time.Hour))
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
	r := newRig(t, append([]runtime.Object{tolerantClass("c", "100", "3")}, nodes(1, "1")...)...)
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

// TestRetriedWhenPolicyGoes: the class gives its toleration up.
func TestRetriedWhenPolicyGoes(t *testing.T) {
	t.Parallel()
	r := newRig(t, append([]runtime.Object{tolerantClass("c", "100", "3600")}, nodes(1, "1")...)...)
	p := pod("p", "", "1", 10)
	r.create(on(classed(pod("v", "", "1", 0), "c", time.Now()), "node-0"), p)
	r.cycle()
	plain := tolerantClass("c", "100", "3600")
	plain.Annotations = nil
	if _, err := r.client.SchedulingV1().PriorityClasses().Update(t.Context(), plain, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the pod is tried again", func() bool { return slices.Contains(r.active(), "p") })
	r.cycle()
	if n := len(r.evictor.orders); n != 1 {
		t.Errorf("%d evictions after the policy has gone, want 1", n)
	}
}
