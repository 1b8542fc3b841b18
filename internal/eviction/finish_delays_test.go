package eviction

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestRefusedRemovalIsPutOff checks a pod whose deletion is refused. The tries become rarer, down
// to one every 30 seconds, although events of the pods reconcile the group all the time. Each pod
// gets its condition once.
func TestRefusedRemovalIsPutOff(t *testing.T) {
	t.Parallel()
	f := newFinishing(t, disrupted("g-0", "leaving"), pod("g-0"), terminating(pod("leaving")))
	f.failing(errForbidden, "delete")
	start := f.clock.Now()
	var tries []float64
	for f.clock.Since(start) < 2*time.Minute {
		before := len(f.made("delete"))
		result, err := f.reconcile()
		tried, now := len(f.made("delete")) > before, f.clock.Since(start)
		if tried != (err != nil) || !tried && (result.RequeueAfter <= 0 || result.RequeueAfter > longestDelay) {
			t.Fatalf("after %v, it is tried: %t, and again after %v, error %v", now, tried, result.RequeueAfter, err)
		}
		if tried {
			tries = append(tries, now.Seconds())
		}
		f.look(f.informed)
		f.clock.Step(time.Second / 2)
	}
	if want := []float64{0, 0.5, 1, 1.5, 2, 3, 5, 8.5, 15, 28, 54, 84, 114}; !slices.Equal(tries, want) {
		t.Errorf("it is tried after %v seconds, want %v", tries, want)
	}
	if got := f.made("mark"); len(got) != 1 {
		t.Errorf("marks are %q, want one", got)
	}
}

// TestDelayEnds checks that a delay ends with its cause, and that no entry is left.
func TestDelayEnds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// change is the event that happens during the delay.
		change func(f *finishing) error
		wait   time.Duration
		// wantPods lists the pods that exist at the end.
		wantPods []string
	}{
		"it is let go": {change: func(f *finishing) error {
			f.failing(nil)
			return nil
		}, wait: firstDelay},
		"the pod goes by itself": {change: func(f *finishing) error {
			return f.pods.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "ns", "g-0")
		}},
		"the group goes": {change: func(f *finishing) error {
			return f.groups.Delete(f.t.Context(), f.group("g"))
		}, wantPods: []string{"g-0"}},
		"it is withdrawn": {change: func(f *finishing) error {
			pg := f.group("g")
			pg.Status.Disruption = nil
			return f.groups.Status().Update(f.t.Context(), pg)
		}, wantPods: []string{"g-0"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFinishing(t, disrupted("g-0"), pod("g-0"))
			f.failing(errForbidden, "delete")
			if _, err := f.reconcile(); err == nil {
				t.Fatal("it does not fail")
			}
			if n := len(f.finisher.delays.groups); n != 1 {
				t.Fatalf("%d groups wait, want one", n)
			}
			if err := tt.change(f); err != nil {
				t.Fatal(err)
			}
			f.clock.Step(tt.wait)
			f.look(f.informed)
			f.mustReconcile()
			f.expectPods(tt.wantPods...)
			if n := len(f.finisher.delays.groups); n != 0 {
				t.Errorf("%d groups wait, want none", n)
			}
		})
	}
}
