package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestDeletedQueue checks that running work of a deleted queue keeps its quota until the timeout,
// or until the deletion is confirmed. After that, pending work of another queue must preempt this
// work.
func TestDeletedQueue(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		deleted *v1alpha1.Queue
		timeout string
		// least is the shortest time until the preemption.
		least time.Duration
	}{
		"by mistake":   {deleted: limitedQueue("a", "8"), timeout: "5s", least: 5 * time.Second},
		"with consent": {deleted: confirmed("a"), timeout: "1h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigArgs(t, "{queues: {deletedTimeout: "+tt.timeout+"}}", nodes(1, "2")...)
			own := limitedQueue("a", "8")
			own.Spec.Quota = own.Spec.Limit
			r.sched.QueueSet(own)
			r.sched.QueueSet(limitedQueue("b", "8"))
			r.create(ofQueue("a", on(pod("runs", "", "2", 0), "node-0")))
			r.eventually("the work is charged", func() bool { return r.sched.quotas.CountsFor("uid-runs") == "a" })
			began := time.Now()
			r.sched.QueueDeleted(tt.deleted)
			r.create(ofQueue("b", pod("p", "", "2", 10)))
			r.eventually("the work is preempted", func() bool {
				r.cycles()
				return len(r.evictor.orders) > 0
			})
			if took := time.Since(began); took < tt.least {
				t.Errorf("It is preempted after %v, want at least %v", took, tt.least)
			}
			if got := r.victims(); !slices.Equal(got, []string{"runs"}) {
				t.Errorf("Victims are %v", got)
			}
		})
	}
}
