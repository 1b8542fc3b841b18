package podstatus

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	schedulerutil "k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/utils/clock"
)

const (
	// workers is the number of parallel calls for each of the two queues.
	workers = 8
	// memory is the time that the Writer relies on its own writes rather than on the scheduler's
	// cache, which may be late.
	memory = time.Minute
	// sweepInterval is the shortest interval between two searches for old slots.
	sweepInterval = 10 * time.Second
	// firstAgain and longestAgain bound the delay after a failed call. Each failure doubles it.
	// Retries are necessary: a gated pod may never get another status, and an ended nomination must
	// not stay in the API.
	firstAgain, longestAgain = 15 * time.Second, 2 * time.Minute
	// mostFailures bounds the count of failures, so that the delay does not overflow.
	mostFailures = 4
)

// holdDelay is the time that the Writer waits before it writes the nomination of a pod that waits
// for other pods in Permit or PreBind. Most pods are bound earlier, which saves one of the three or
// four calls for each pod.
const holdDelay = time.Second

// Writer writes the latest status of pending pods. Several goroutines may write about the same pod.
// Each of them writes the latest status. It is safe for concurrent use.
type Writer struct {
	ctx      context.Context
	pods     kubernetes.Interface
	bindings kubernetes.Interface
	limiter  flowcontrol.RateLimiter
	clock    clock.WithTicker
	// nominations and conditions queue the pods with a status to write. Nominations have a queue of
	// their own, because they must not wait for the conditions of many other pods.
	nominations, conditions workqueue.TypedDelayingInterface[types.UID]

	// annotations returns the annotations to add to a pod with its binding.
	annotations func(types.UID) map[string]string

	mu    sync.Mutex
	slots map[types.UID]*slot
	swept time.Time
}

// New returns a Writer that changes pods with the client pods and binds them with the client
// bindings. The limiter limits the changes. The client pods must have no limit of its own, because
// a binding could wait for it, and must not share a limit with bindings. After ctx is done, the
// Writer makes no call for the framework. It makes no patch for the framework before Run.
func New(ctx context.Context, pods, bindings kubernetes.Interface, limiter flowcontrol.RateLimiter, clk clock.WithTicker) *Writer {
	queue := func() workqueue.TypedDelayingInterface[types.UID] {
		q := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.UID]{Clock: clk})
		context.AfterFunc(ctx, q.ShutDown)
		return q
	}
	return &Writer{
		ctx: ctx, pods: pods, bindings: bindings, limiter: limiter, clock: clk, slots: make(map[types.UID]*slot),
		nominations: queue(), conditions: queue(),
	}
}

// Annotate sets the function that returns the annotations to add to a pod with its binding; nil for
// none. Call it before the first binding. The function must not block.
func (w *Writer) Annotate(annotations func(pod types.UID) map[string]string) {
	w.annotations = annotations
}

// Run writes the framework's statuses until the Writer's context is done. The next leader writes
// the remaining ones.
func (w *Writer) Run() {
	var running sync.WaitGroup
	for _, queue := range []workqueue.TypedInterface[types.UID]{w.nominations, w.conditions} {
		for range workers {
			running.Go(func() {
				for w.work(queue) {
				}
			})
		}
	}
	running.Wait()
}

// work writes the status of one pod. It returns false when the queue has shut down.
func (w *Writer) work(queue workqueue.TypedInterface[types.UID]) bool {
	uid, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(uid)
	w.mu.Lock()
	s := w.slots[uid]
	if s != nil {
		s.queued = false
		// A slot with a user is not swept.
		s.users++
	}
	w.mu.Unlock()
	if s == nil {
		return true
	}
	defer w.release(s)
	err := retry.OnError(retry.DefaultBackoff, schedulerutil.Retriable, func() error { return w.write(w.ctx, s) })
	if err != nil && w.again(s, err) {
		klog.FromContext(w.ctx).Error(err, "Left the status of a pod as it is in the API for now", "pod", s.ref())
	}
	return true
}

// again schedules another try after a failed write. It returns false if another try cannot succeed.
// The caller must be a user of the slot.
func (w *Writer) again(s *slot, err error) bool {
	if w.ctx.Err() != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if apierrors.IsNotFound(err) || IsAnotherPod(err) {
		delete(w.slots, s.uid)
		return false
	}
	if s.queued || len(s.missing()) == 0 {
		return true
	}
	s.queued = true
	queue := w.conditions
	if s.node != s.writtenNode {
		queue = w.nominations
	}
	queue.AddAfter(s.uid, min(firstAgain<<s.failures, longestAgain))
	s.failures = min(s.failures+1, mostFailures)
	return true
}

func (w *Writer) release(s *slot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.users--
	s.used = w.clock.Now()
}

// slotOf returns the slot of a pod and creates it if necessary. The caller holds the lock.
func (w *Writer) slotOf(pod *corev1.Pod) *slot {
	now := w.clock.Now()
	s, ok := w.slots[pod.UID]
	if !ok {
		s = newSlot(pod.Namespace, pod.Name, pod.UID)
		w.slots[pod.UID] = s
	}
	if s.isIdle() && now.Sub(s.written) > memory {
		s.see(pod, now)
	}
	s.used = now
	return s
}

// sweep removes slots that were not used for longer than memory. All goroutines know of a binding
// by then. The caller holds the lock.
func (w *Writer) sweep() {
	now := w.clock.Now()
	if now.Sub(w.swept) < sweepInterval {
		return
	}
	w.swept = now
	maps.DeleteFunc(w.slots, func(_ types.UID, s *slot) bool {
		return s.users == 0 && !s.queued && now.Sub(s.used) > memory
	})
}

// write writes the recorded status of a pod, including changes that are recorded meanwhile. The
// caller must be a user of the slot.
func (w *Writer) write(ctx context.Context, s *slot) error {
	for {
		w.mu.Lock()
		done := len(s.missing()) == 0
		w.mu.Unlock()
		if done {
			return nil
		}
		// Wait for the limiter before the slot is locked. Otherwise the pod's binding would wait as
		// well.
		if err := w.limiter.Wait(ctx); err != nil {
			return err
		}
		if err := w.call(ctx, s); err != nil {
			return err
		}
	}
}

// call makes one call if a part of the status is missing in the API.
func (w *Writer) call(ctx context.Context, s *slot) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	w.mu.Lock()
	s.bring()
	status, node, next := s.missing(), s.node, s.next()
	sure := !s.unsure
	s.unsure = s.unsure || len(status) > 0
	w.mu.Unlock()
	if len(status) == 0 {
		return nil
	}
	err := Patch(ctx, w.pods, s.namespace, s.name, s.uid, status, metav1.PatchOptions{})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		// A refused call changed nothing.
		s.unsure = !sure || !IsRefused(err)
		return fmt.Errorf("%s: %w", s.describe(status), err)
	}
	s.unsure, s.writtenNode, s.written, s.failures = false, node, w.clock.Now(), 0
	for _, c := range next {
		s.writtenConditions = setCondition(s.writtenConditions, c)
	}
	klog.FromContext(ctx).V(6).Info("Wrote the status of a pod", "pod", s.ref(), "node", node, "conditions", len(next))
	return nil
}
