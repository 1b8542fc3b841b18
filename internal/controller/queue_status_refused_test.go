package controller

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// TestOneRefusedQueueDelaysNoOther checks that a Queue whose status the API server always rejects
// does not delay other Queues. The conditions of another Queue must be written within seconds,
// because admission policies read them.
func TestOneRefusedQueueDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		object := func(name string) *v1alpha1.Queue { return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}} }
		c := interceptor.NewClient(newWithWatch(t, object("bad"), object("good")), interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				if obj.GetName() == "bad" {
					return apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("Queue").GroupKind(), "bad", nil)
				}
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			},
		})
		ledger := queue.NewLedger()
		cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
		for _, name := range []string{"bad", "good"} {
			ledger.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{Quota: cpu}})
		}
		s := NewQueueStatus(&Inputs{Client: c, QueueClient: c, Ledger: ledger, OrphanedPods: func(int) {}, Clock: clock.RealClock{}})
		ctx, cancel := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { _ = s.Start(ctx) })
		// Sleep until a time between two ticks. By then, the delay has reached its maximum.
		time.Sleep(62*time.Second + queueInterval/2)
		ledger.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "good"}, Spec: v1alpha1.QueueSpec{Quota: cpu, Parent: ptr.To("missing")}})
		changed, ready := time.Now(), func() string {
			var q v1alpha1.Queue
			if err := c.Get(ctx, types.NamespacedName{Name: "good"}, &q); err != nil {
				t.Fatal(err)
			}
			for _, condition := range q.Status.Conditions {
				if condition.Type == v1alpha1.ConditionQueueReady {
					return condition.Reason
				}
			}
			return ""
		}
		for ready() != v1alpha1.ReasonParentNotFound && time.Since(changed) < time.Minute {
			time.Sleep(queueInterval)
		}
		if took := time.Since(changed); took > 5*time.Second {
			t.Errorf("the condition of another Queue is written after %v", took)
		}
		cancel()
		loop.Wait()
	})
}
