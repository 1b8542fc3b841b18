package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestOldestPendingGang checks that a gang counts as waiting from the time when all needed members
// exist until enough members have nodes.
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

// TestPendingGangOfAnEarlierProcess checks that a process reads from the condition when a gang
// began to wait.
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
