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

// These constants describe the two queues of a world with queues. All initial work is in the queue
// borrower. This work uses the quota of the queue lender until the gang of lender arrives. The
// victims are exactly the work of borrower above its quota.
const (
	lender, borrower = "lender", "borrower"

	lenderQuota   = nodeCount * neededCPUs
	borrowerQuota = nodeCount * (nodeCPUs - neededCPUs)
)

// TestCrashOfReclaim kills the scheduler during evictions that reclaim room for a queue.
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

// shared returns the name of the resource that nodes have and pods request in a world with queues.
// Each world has its own resource, because queues are cluster-scoped and each world needs separate
// quotas.
func (w *world) shared() corev1.ResourceName {
	return corev1.ResourceName("test.reprieve.dev/shared-" + w.ns)
}

// addShared adds the resource to a node. Its amount equals the number of CPUs.
func addShared(node *corev1.Node, name corev1.ResourceName) {
	for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
		list[name] = list[corev1.ResourceCPU]
	}
}

// askShared makes a pod request an amount of the resource, and no other resource.
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

// enqueue sets the queue of a PodGroup, or of a pod without a PodGroup.
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

// sizeOf returns the sum of the requests of initial pods, given their names.
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

// verifyShare waits until a queue uses the amount want. For the borrower, want must be at least its
// quota, because reclaim must leave each queue its quota.
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
