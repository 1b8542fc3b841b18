package eviction

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestConflictIsNoDeparture checks that a pod that still exists does not count as gone after a
// conflict.
func TestConflictIsNoDeparture(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(corev1.Resource("pods"), "it", errors.New("the object has been modified"))
	for _, call := range []string{"mark g-0", "delete g-0", "nominate urgent-0"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, append(whole("g"), pod("urgent-0"))...)
			b.failing(conflict, call)
			if err := b.evict(order(victim("g", "g-0", "g-1"))).Err; !apierrors.IsConflict(err) || errors.Is(err, ErrOutdated) {
				t.Errorf("Failed with %v", err)
			}
		})
	}
	t.Run("the preemptor has been replaced", func(t *testing.T) {
		t.Parallel()
		another := pod("urgent-0")
		another.UID = "another"
		b := newBench(t, append(whole("g"), another)...)
		b.failing(conflict, "nominate")
		if err := b.evict(order(victim("g", "g-0", "g-1"))).Err; !errors.Is(err, ErrOutdated) {
			t.Errorf("Failed with %v", err)
		}
	})
}

// TestMarkIsKept checks that a pod that has the condition is not marked again, and is deleted.
func TestMarkIsKept(t *testing.T) {
	t.Parallel()
	set := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, Message: "why",
	}
	tests := map[string]struct {
		change    func(c *corev1.PodCondition)
		wantMarks int
	}{
		"it says so":            {func(*corev1.PodCondition) {}, 0},
		"another type":          {func(c *corev1.PodCondition) { c.Type = corev1.PodReady }, 1},
		"taken back":            {func(c *corev1.PodCondition) { c.Status = corev1.ConditionFalse }, 1},
		"another reason":        {func(c *corev1.PodCondition) { c.Reason = "EvictionByEvictionAPI" }, 1},
		"another message":       {func(c *corev1.PodCondition) { c.Message = "why else" }, 1},
		"set at another moment": {func(c *corev1.PodCondition) { c.LastTransitionTime = metav1.Unix(1, 0) }, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, pod("p"))
			seen := set
			tt.change(&seen)
			became, err := b.executor.remover.remove(t.Context(), victimPod{
				namespace: "ns", name: "p", uid: uidOf("p"), message: "why", conditions: []corev1.PodCondition{seen},
			}, func() bool { return true })
			if err != nil || became != accepted {
				t.Errorf("it is %v, error %v", became, err)
			}
			if got := len(b.made("mark")); got != tt.wantMarks {
				t.Errorf("%d marks, want %d", got, tt.wantMarks)
			}
			b.expectPods()
		})
	}
}
