package crash

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// A world with queues has two of them. All initial work is in one queue, which borrows the room of
// the other one until that queue's gang arrives. The victims are exactly the work of the borrower
// above its quota.
const (
	lender, borrower = "lender", "borrower"

	lenderQuota   = nodeCount * neededCPUs
	borrowerQuota = nodeCount * (nodeCPUs - neededCPUs)
)

// TestCrashOfReclaim kills the scheduler during evictions by which a queue reclaims its share.
//
//nolint:tparallel // The points are one after the other: there is one scheduler to kill.
func TestCrashOfReclaim(t *testing.T) {
	t.Parallel()
	const cuts = 4
	c := newCluster(t)
	c.queued = true
	scheduler := c.startScheduler(t, "first", alone)
	worlds := c.worlds(t, "w", cuts)
	for _, w := range worlds {
		w.verifyShare(t, borrower, lenderQuota+borrowerQuota)
	}
	for i, w := range worlds {
		p := w.spread(uint64(200+i), i, cuts)
		p.apiServer, p.preemptorGone, p.recreated = i == 2, i == 1, i == 3
		w.restartAt(t, p, scheduler)
		if t.Failed() {
			return
		}
		if !p.preemptorGone {
			w.verifyShare(t, lender, lenderQuota)
		}
		w.verifyShare(t, borrower, lenderQuota+borrowerQuota-sizeOf(w.gone))
	}
	verifyAll(t, worlds)
}

// shared returns the resource that pods request and nodes have in a world with queues. Queues are
// cluster-scoped, so each world has a resource of its own.
func (w *world) shared() corev1.ResourceName {
	return corev1.ResourceName("test.reprieve.dev/shared-" + w.ns)
}

// addShared adds to a node an amount of the resource that is equal to its CPUs.
func addShared(node *corev1.Node, name corev1.ResourceName) {
	for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
		list[name] = list[corev1.ResourceCPU]
	}
}

// askShared makes a pod request an amount of the resource, and nothing else.
func askShared(pod *corev1.Pod, name corev1.ResourceName, amount int64) {
	list := corev1.ResourceList{name: *resource.NewQuantity(amount, resource.DecimalSI)}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
}

func (w *world) queueName(short string) string { return w.ns + "-" + short }

func (w *world) createQueues(ctx context.Context) error {
	for short, quota := range map[string]int64{lender: lenderQuota, borrower: borrowerQuota} {
		q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: w.queueName(short)}}
		q.Spec.Quota = corev1.ResourceList{w.shared(): *resource.NewQuantity(quota, resource.DecimalSI)}
		if err := w.Objects.Create(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// enqueue puts a PodGroup, or a pod without a PodGroup, into its queue.
func (w *world) enqueue(o client.Object, name string) {
	queue := w.queueName(borrower)
	if strings.HasPrefix(name, "urgent") {
		queue = w.queueName(lender)
	}
	switch o := o.(type) {
	case *v1alpha1.PodGroup:
		o.Spec.QueueName = &queue
	case *corev1.Pod:
		metav1.SetMetaDataLabel(&o.ObjectMeta, v1alpha1.LabelQueue, queue)
	}
}

// sizeOf returns the total request of initial pods.
func sizeOf(names []string) int64 {
	sum := int64(0)
	for _, name := range names {
		sum += 2
		if strings.HasPrefix(name, "single-") || strings.HasPrefix(name, "mid-") {
			sum--
		}
	}
	return sum
}

// verifyShare waits until a queue uses the given amount. The amount must be at least the borrower's
// quota, so that reclaim never takes room within the quota.
func (w *world) verifyShare(t *testing.T, short string, want int64) {
	t.Helper()
	if quota := int64(borrowerQuota); short == borrower && want < quota {
		t.Errorf("%s is to have %d, less than its quota of %d", w.queueName(short), want, quota)
	}
	w.at(t).Eventually(fmt.Sprintf("queue %s has %d", w.queueName(short), want), func(ctx context.Context) string {
		var q v1alpha1.Queue
		if err := w.Objects.Get(ctx, client.ObjectKey{Name: w.queueName(short)}, &q); err != nil {
			return err.Error()
		}
		if has := q.Status.Allocated[w.shared()]; has.Value() != want {
			return "it has " + has.String()
		}
		return ""
	})
}
