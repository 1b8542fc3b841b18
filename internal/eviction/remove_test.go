package eviction

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// TestConflictIsNoDeparture checks that a pod does not count as gone if a call has a conflict and
// the pod still exists.
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

// TestMarkIsKept checks that a pod that already has the condition is deleted without a further
// patch.
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

// TestGracePeriodOfVictims checks that a victim is deleted with its own grace period, or with the
// maximum if its own is longer.
func TestGracePeriodOfVictims(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ own, want *int64 }{
		"none is known":      {nil, nil},
		"a common one":       {ptr.To[int64](30), nil},
		"the longest":        {ptr.To[int64](3600), nil},
		"longer":             {ptr.To[int64](3601), ptr.To[int64](3600)},
		"beyond a duration":  {ptr.To[int64](1 << 62), ptr.To[int64](3600)},
		"killed immediately": {ptr.To[int64](0), nil},
	} {
		for by, remove := range map[string]func(t *testing.T, b *bench){
			"by an order": func(t *testing.T, b *bench) {
				t.Helper()
				o := order(victim("g", "g-0"))
				o.Victims[uidOf("g-0")].Spec.TerminationGracePeriodSeconds = tt.own
				if err := b.evict(o).Err; err != nil {
					t.Fatal(err)
				}
			},
			"by the finisher": func(t *testing.T, b *bench) {
				t.Helper()
				f := finishing{bench: b, informed: newInformed()}
				f.finisher = NewFinisher(b.executor, b.groups, corelisters.NewPodLister(f.informed.store), f.informed, func() time.Duration { return time.Minute })
				f.look(f.informed)
				f.mustReconcile()
			},
		} {
			t.Run(name+" "+by, func(t *testing.T) {
				t.Parallel()
				p, pg := pod("g-0"), group("g")
				p.Spec.TerminationGracePeriodSeconds = tt.own
				if by == "by the finisher" {
					pg = disrupted("g-0")
				}
				b := newBenchWith(t, []Option{WithMaxGracePeriod(func() time.Duration { return time.Hour })}, pg, p, pod("urgent-0"))
				remove(t, b)
				deletes := 0
				for _, action := range b.pods.Actions() {
					if deletion, ok := action.(clienttesting.DeleteAction); ok {
						deletes++
						if got := deletion.GetDeleteOptions().GracePeriodSeconds; !ptr.Equal(got, tt.want) {
							t.Errorf("Deleted with a grace period of %v, want %v", ptr.Deref(got, -1), ptr.Deref(tt.want, -1))
						}
					}
				}
				if deletes == 0 {
					t.Error("Nothing was deleted")
				}
			})
		}
	}
}
