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
	// workers is the number of workers for each of the two queues. Each worker makes one call at a
	// time.
	workers = 8
	// memory is a duration. For that long after a write, the written status takes precedence over
	// the scheduler's cache, because the cache may be outdated.
	memory = time.Minute
	// sweepInterval is the minimum time between two sweeps of unused slots.
	sweepInterval = 10 * time.Second
	// firstAgain and longestAgain are the shortest and the longest delay of a try after a failed
	// call. Each failure doubles the delay. The tries are necessary because a gated pod may never
	// get another status, and a nomination that has ended must be removed from the API.
	firstAgain, longestAgain = 15 * time.Second, 2 * time.Minute
	// mostFailures is the maximum of slot.failures, so that the delay cannot overflow.
	mostFailures = 4
)

// holdDelay is the delay before the nomination of a pod that waits in Permit or PreBind is written.
// Most pods are bound earlier. For them, this saves one of three or four calls.
const holdDelay = time.Second

// Writer writes the status of pending pods to the API. Several goroutines may record and write the
// status of one pod; each call writes the latest recorded status. It is safe for concurrent use.
type Writer struct {
	ctx      context.Context
	pods     kubernetes.Interface
	bindings kubernetes.Interface
	limiter  flowcontrol.RateLimiter
	clock    clock.WithTicker
	// nominations and conditions are two queues of pods whose status must be written. Nominations
	// have a queue of their own so that they do not wait for the conditions of many other pods.
	nominations, conditions workqueue.TypedDelayingInterface[types.UID]

	// annotations returns the annotations that a pod gets with its binding. It may be nil.
	annotations func(types.UID) map[string]string

	mu    sync.Mutex
	slots map[types.UID]*slot
	swept time.Time
}

// New returns a Writer. It patches statuses with the client pods, limited by limiter, and creates
// bindings with the client bindings. The client pods must have no rate limiter, not even a limiter
// that the client bindings also uses. Otherwise a patch could wait for the rate limiter while the
// binding of the same pod waits for the patch.
//
// The Writer writes the framework's statuses only while Run runs, until ctx is done.
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

// Annotate sets the function that returns the annotations that a pod gets with its binding. The
// function must not block. Call Annotate before the first binding.
func (w *Writer) Annotate(annotations func(pod types.UID) map[string]string) {
	w.annotations = annotations
}

// Run writes the framework's statuses until the context passed to New is done. It leaves the
// remaining statuses to the next leader.
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

// work writes the status of the next pod in a queue. It returns false when the queue has shut down.
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
		// As a user of the slot, this worker prevents sweep from removing it.
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
// The caller must be counted in the users of the slot.
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

// slotOf returns the slot of a pod. It creates the slot if there is none. The caller must hold the
// lock.
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

// sweep removes the slots that were not used for longer than memory. By then, every goroutine knows
// whether the pod is bound. The caller must hold the lock.
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

// write makes calls until the API has the recorded status of a pod, including changes that are
// recorded during the calls. The caller must be counted in the users of the slot.
func (w *Writer) write(ctx context.Context, s *slot) error {
	for {
		w.mu.Lock()
		done := len(s.missing()) == 0
		w.mu.Unlock()
		if done {
			return nil
		}
		// Wait for the limiter before the slot is locked. Otherwise a binding of the pod would wait
		// for the limiter too.
		if err := w.limiter.Wait(ctx); err != nil {
			return err
		}
		if err := w.call(ctx, s); err != nil {
			return err
		}
	}
}

// call makes one call if the API lacks a part of the recorded status.
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
		// A refused call has not changed the pod.
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
