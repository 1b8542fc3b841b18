package eviction

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestConflictIsNoDeparture: a pod that is still there has not gone, whatever was in the way.
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
