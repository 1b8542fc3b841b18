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
	// workers bounds how many of the framework's calls are under way at the same time, for each queue.
	workers = 8
	// memory is how long the Writer trusts what it wrote itself over what the scheduler knows of a pod, which
	// lags behind.
	memory = time.Minute
	// sweepInterval is how often what is too old is looked for.
	sweepInterval = 10 * time.Second
	// firstAgain and longestAgain are how long after a call that failed it is made again, doubled each time: of a pod that is
	// held back nothing more may be said, and a promise that has ended must not stand in the API.
	firstAgain, longestAgain = 15 * time.Second, 2 * time.Minute
	// mostFailures is how many failures in a row are told apart.
	mostFailures = 4
)

// holdDelay is how long a pod that has its node already has to wait for others (Permit, PreBind) before the API
// hears where. Most are bound long before, and each call would be one of the three or four that a pod takes.
const holdDelay = time.Second

// Writer keeps the status of pending pods as the scheduler says it last. Several goroutines may have something to
// write about the same pod; each of them writes what was said last. It is safe for concurrent use.
type Writer struct {
	ctx      context.Context
	pods     kubernetes.Interface
	bindings kubernetes.Interface
	limiter  flowcontrol.RateLimiter
	clock    clock.WithTicker
	// nominations and conditions have the pods that the framework has said something of. Where a pod goes must not wait for
	// what is said of many others for which there is no room.
	nominations, conditions workqueue.TypedDelayingInterface[types.UID]

	mu    sync.Mutex
	slots map[types.UID]*slot
	swept time.Time
}

// New returns a Writer that changes pods with pods and binds them with bindings. The limiter is for the changes: pods should
// have no limit of its own, which a binding could come to wait for, nor share one with bindings. No call of the framework's
// is made after ctx is done, and none of its patches before Run.
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

// Run writes what the framework says until the Writer's context is done. What has not been written by then is left to
// the next leader.
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

// work writes about one pod; false means that there will be none any more.
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
		// It is not forgotten meanwhile.
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

// again has what could not be written be tried again later, and reports false where there is no use in that. The caller is one of the
// slot's users.
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

// slotOf is the slot of a pod, of which there is something to say. The lock is held.
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

// sweep forgets what is too old to be of use. That a pod is bound has been heard everywhere by then. The lock is held.
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

// write makes the API say what was said last of a pod, and what is said while it does so. The caller is one of the slot's
// users.
func (w *Writer) write(ctx context.Context, s *slot) error {
	for {
		w.mu.Lock()
		done := len(s.missing()) == 0
		w.mu.Unlock()
		if done {
			return nil
		}
		// Before it is the pod's turn, or its binding would have to wait as well.
		if err := w.limiter.Wait(ctx); err != nil {
			return err
		}
		if err := w.call(ctx, s); err != nil {
			return err
		}
	}
}

// call makes one call, if there still is something to say.
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
		// What the API server has refused is as it was.
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
