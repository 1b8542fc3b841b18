package queues

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestLimitsUnderLoad runs concurrent clients that create and delete pods and gangs, and kills the
// scheduler several times. The usage of a queue must never exceed its limit.
func TestLimitsUnderLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	limits := map[string]int64{"top": 10, "a": 3, "b": 3}
	most := make(map[string]int64)
	b := c.follow(func(b *ledger) {
		used := make(map[string]int64)
		for queue, a := range b.accounts(gpusOf) {
			used[queue] = a.allocated
			used["top"] += a.allocated
		}
		for queue, limit := range limits {
			if most[queue] = max(most[queue], used[queue]); used[queue] > limit {
				c.Errorf("queue %s has %d, its limit is %d", queue, used[queue], limit)
			}
		}
	})
	c.queue("top", "limit: {nvidia.com/gpu: 10}")
	c.queue("a", "parent: top", "limit: {nvidia.com/gpu: 3}")
	c.queue("b", "parent: top", "limit: {nvidia.com/gpu: 3}")
	c.queue("c", "parent: top")
	c.known("top", "a", "b", "c")
	g, ctx := errgroup.WithContext(t.Context())
	for i := range 6 {
		g.Go(func() error {
			cust := customer{c: c, id: i, rng: rand.New(rand.NewPCG(6, uint64(i)))}
			for range 120 {
				if err := cust.step(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range 3 {
		c.restart()
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	// At the end, each queue requests more than its limit, so its usage must reach the limit.
	for _, queue := range []string{"a", "b", "c"} {
		c.pods(queue+"-last", queue, 12, 1, "")
	}
	c.Eventually("the limits are used up", func(context.Context) string {
		var reached map[string]int64
		b.at(func() { reached = maps.Clone(most) })
		if !maps.Equal(reached, limits) {
			return fmt.Sprintf("at most %v have been used, want %v", reached, limits)
		}
		return ""
	})
}

// customer is a client that creates and deletes work at random.
type customer struct {
	c    *cluster
	id   int
	rng  *rand.Rand
	made int
	work []work
}

// work is a single pod, or a gang of two.
type work struct {
	name string
	gang bool
}

// step creates new work, or deletes some earlier work.
func (cu *customer) step(ctx context.Context) error {
	if n := len(cu.work); n > 8 || n > 0 && cu.rng.IntN(2) == 0 {
		i := cu.rng.IntN(n)
		w := cu.work[i]
		cu.work[i] = cu.work[n-1]
		cu.work = cu.work[:n-1]
		return cu.end(ctx, w)
	}
	queue := string(rune('a' + cu.rng.IntN(3)))
	w := work{name: fmt.Sprintf("%s-%d-%d", queue, cu.id, cu.made), gang: cu.rng.IntN(2) == 0}
	cu.made++
	cu.work = append(cu.work, w)
	if w.gang {
		return cu.c.pair(ctx, w.name, queue)
	}
	q := corev1.ResourceList{gpu: *resource.NewQuantity(1+cu.rng.Int64N(2), resource.DecimalSI)}
	_, err := cu.c.Kube.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: map[string]string{v1alpha1.LabelQueue: queue}},
		Spec: corev1.PodSpec{
			SchedulerName: "reprieve-scheduler",
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/work", Resources: corev1.ResourceRequirements{Requests: q, Limits: q},
			}},
		},
	}, metav1.CreateOptions{})
	return err
}

// end deletes work, which may have been evicted already. It deletes the pods before their PodGroup:
// without a PodGroup, the pods would be in no queue.
func (cu *customer) end(ctx context.Context, w work) error {
	names := []string{w.name}
	if w.gang {
		names = []string{w.name + "-0", w.name + "-1"}
	}
	for _, name := range names {
		now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
		if err := cu.c.Kube.CoreV1().Pods("default").Delete(ctx, name, now); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if !w.gang {
		return nil
	}
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: w.name}}
	return client.IgnoreNotFound(cu.c.client.Delete(ctx, pg))
}
