package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestOldestPendingGang checks when a gang counts as waiting. The wait begins when all needed
// members exist, and ends when enough members have nodes.
func TestOldestPendingGang(t *testing.T) {
	t.Parallel()
	gated := func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} }
	b := newBench(t, gangGroup(2))
	oldest := time.Unix(-1, 0)
	b.status.OldestTo(func(since time.Time) { oldest = since })
	for _, step := range []struct {
		are  string
		pods []*corev1.Pod
		want time.Time
	}{
		{are: "no pods", want: time.Unix(-1, 0)},
		{are: "one of two", pods: named("p", 1), want: time.Unix(-1, 0)},
		{are: "both, of which one is gated", pods: append(named("p", 1), named("q", 1, gated)...), want: time.Unix(-1, 0)},
		{are: "both", pods: named("p", 2), want: time.Unix(1030, 0)},
		{are: "both, later", pods: named("p", 2), want: time.Unix(1030, 0)},
		{are: "both, with nodes", pods: named("p", 2, running), want: time.Time{}},
		{are: "one that runs, and one that waits", pods: append(named("p", 1, running), named("q", 1)...), want: time.Unix(1060, 0)},
		{are: "none", want: time.Time{}},
	} {
		b.pods = step.pods
		b.reconcile()
		if !oldest.Equal(step.want) {
			t.Errorf("%s: since %v, want %v", step.are, oldest.Unix(), step.want.Unix())
		}
		b.step(10 * time.Second)
	}
}

// TestPendingGangOfAnEarlierProcess checks that a new process reads the time when a gang began to
// wait from the gang's condition.
func TestPendingGangOfAnEarlierProcess(t *testing.T) {
	t.Parallel()
	pg := gangGroup(2)
	pg.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionPodGroupScheduled, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUnschedulable,
		Message: "no room", LastTransitionTime: metav1.Unix(400, 0),
	}}
	b := newBench(t, pg)
	var oldest time.Time
	b.status.OldestTo(func(since time.Time) { oldest = since })
	b.pods = named("p", 2)
	b.reconcile()
	if oldest.Unix() != 400 {
		t.Errorf("since %v, want 400", oldest.Unix())
	}
}

// TestPendingGangEndsWithItsGroup checks that a gang does not count as waiting while its PodGroup
// is deleted or belongs to another scheduler. The wait begins again once the PodGroup is back.
func TestPendingGangEndsWithItsGroup(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		b            *bench
		lose, regain func(b *bench) error
	}{
		"deleted": {
			b:      newBench(t, gangGroup(2)),
			lose:   func(b *bench) error { return b.client.Delete(b.t.Context(), b.group()) },
			regain: func(b *bench) error { return b.client.Create(b.t.Context(), gangGroup(2)) },
		},
		"of another scheduler": {
			b:      nativeBench(t),
			lose:   func(b *bench) error { b.pods = named("p", 2, elsewhere); return nil },
			regain: func(b *bench) error { b.pods = named("p", 2); return nil },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var oldest time.Time
			c.b.status.OldestTo(func(since time.Time) { oldest = since })
			c.b.pods = named("p", 1)
			c.b.reconcile()
			c.b.pods = named("p", 2)
			for i, step := range []struct {
				change func(*bench) error
				want   time.Time
			}{
				{change: func(*bench) error { return nil }, want: time.Unix(1000, 0)},
				{change: c.lose},
				{change: c.regain, want: time.Unix(1020, 0)},
			} {
				if err := step.change(c.b); err != nil {
					t.Fatal(err)
				}
				c.b.reconcile()
				if !oldest.Equal(step.want) {
					t.Errorf("step %d: since %v, want %v", i, oldest.Unix(), step.want.Unix())
				}
				c.b.step(10 * time.Second)
			}
		})
	}
}
