package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// TestQueuesDue checks that conditions are written at once. While the quota ledger keeps changing,
// numbers are written for a few Queues at a time, in turns. Once the ledger stops changing, all
// numbers are written.
func TestQueuesDue(t *testing.T) {
	const queues = 2*queueFigures + 6
	ledger := queue.NewLedger()
	var all []v1alpha1.Queue
	for i := range queues {
		q := v1alpha1.Queue{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("q%03d", i)},
			Spec:       v1alpha1.QueueSpec{Quota: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}
		ledger.SetQueue(&q)
		all = append(all, q)
	}
	pods := 0
	charge := func() *queue.Snapshot {
		for i := range all {
			pods++
			ledger.Charge(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(pods), Namespace: "default", UID: types.UID(fmt.Sprint(pods))},
				Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
				}}}},
			}, all[i].Name)
		}
		return ledger.Snapshot(ledger.Resources())
	}
	clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	s := &QueueStatus{ledger: ledger, clock: clk}
	// write does what update does for the Queues that are due, and returns their names.
	write := func(standing *queue.Snapshot) map[string]bool {
		clk.Step(time.Second)
		due, _ := s.due(all, standing)
		s.last = standing
		names := make(map[string]bool)
		for _, u := range due {
			names[u.before.Name] = true
			*u.before = *u.after
		}
		return names
	}
	if got := len(write(charge())); got != queues {
		t.Fatalf("%d queues get their first conditions, want all %d", got, queues)
	}
	seen := make(map[string]bool)
	for round, want := range []int{queueFigures, queueFigures, queueFigures} {
		due := write(charge())
		if len(due) != want {
			t.Fatalf("round %d: %d are due, want %d", round, len(due), want)
		}
		for name := range due {
			seen[name] = true
		}
	}
	if len(seen) != queues {
		t.Errorf("%d queues have had their turn in three rounds, want all %d", len(seen), queues)
	}
	last := charge()
	write(last)
	if got, want := len(write(last)), queues-queueFigures; got != want {
		t.Errorf("%d are due once the books are still, want the %d that are left", got, want)
	}
	if got := len(write(last)); got != 0 {
		t.Errorf("%d are due although all are level", got)
	}
}

// TestQueueStatusThatIsRefused checks that rejected writes are retried with growing delays, up to
// longestDelay. A successful write resets the delay.
func TestQueueStatusThatIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var taken atomic.Bool
		var tries []time.Duration
		c := interceptor.NewClient(newWithWatch(t, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "q"}}), interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				tries = append(tries, time.Since(start))
				if !taken.Load() {
					return apierrors.NewForbidden(v1alpha1.Resource("queues"), obj.GetName(), errors.New("a policy says no"))
				}
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			},
		})
		ledger := queue.NewLedger()
		cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
		ledger.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: v1alpha1.QueueSpec{Quota: cpu}})
		s := NewQueueStatus(&Inputs{Client: c, QueueClient: c, Ledger: ledger, OrphanedPods: func(int) {}, Clock: clock.RealClock{}})
		ctx, cancel := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() {
			if err := s.Start(ctx); err != nil {
				t.Error(err)
			}
		})
		// Sleep until a time between two ticks.
		time.Sleep(100*time.Second + queueInterval/2)
		taken.Store(true)
		time.Sleep(100 * time.Second)
		taken.Store(false)
		ledger.Charge(named("r", 1, running, func(pod *corev1.Pod) {
			pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpu}}}
		})[0], "q")
		time.Sleep(5 * time.Second)
		cancel()
		loop.Wait()
		var want []time.Duration
		for _, seconds := range []float64{0, 1, 3, 7, 15, 31, 61, 91, 121, 200.5, 201.5, 203.5} {
			want = append(want, time.Duration(seconds*float64(time.Second)))
		}
		if !slices.Equal(tries, want) {
			t.Errorf("it is tried after %v, want %v", tries, want)
		}
	})
}
