package podstatus

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	schedulerutil "k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

const (
	// workers bounds how many of the framework's calls are under way at the same time.
	workers = 16
	// memory is how long the Writer trusts what it wrote itself over what the scheduler knows of a pod, which
	// lags behind.
	memory = time.Minute
	// sweepInterval is how often what is too old is looked for.
	sweepInterval = 10 * time.Second
)

// holdDelay is how long a pod that has its node already has to wait for others (Permit, PreBind) before the API
// hears where. Most are bound long before, and each call would be one of the three or four that a pod takes.
const holdDelay = time.Second

// Writer keeps the status of pending pods as the scheduler says it last. Several goroutines may have something to
// write about the same pod; whoever comes to it writes what was said last. It is safe for concurrent use.
type Writer struct {
	ctx      context.Context
	pods     kubernetes.Interface
	bindings kubernetes.Interface
	clock    clock.WithTicker
	// queue has the pods that the framework has said something of.
	queue workqueue.TypedDelayingInterface[types.UID]

	mu    sync.Mutex
	slots map[types.UID]*slot
	swept time.Time
}

// New returns a Writer that changes pods with pods and binds them with bindings. They should not share a limit of
// calls: statuses of many pods for which there is no room must not keep the others from being bound. No call of the
// framework's is made after ctx is done, and none of its patches before Run.
func New(ctx context.Context, pods, bindings kubernetes.Interface, clk clock.WithTicker) *Writer {
	w := &Writer{
		ctx: ctx, pods: pods, bindings: bindings, clock: clk, slots: make(map[types.UID]*slot),
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.UID]{Clock: clk}),
	}
	context.AfterFunc(ctx, w.queue.ShutDown)
	return w
}

// Run writes what the framework says until the Writer's context is done. What has not been written by then is left to
// the next leader.
func (w *Writer) Run() {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for w.next() {
			}
		})
	}
	running.Wait()
}

// next writes about one pod; false means that there will be none any more.
func (w *Writer) next() bool {
	ctx := w.ctx
	uid, shutdown := w.queue.Get()
	if shutdown {
		return false
	}
	defer w.queue.Done(uid)
	w.mu.Lock()
	s := w.slots[uid]
	w.mu.Unlock()
	if s == nil || ctx.Err() != nil {
		return true
	}
	err := retry.OnError(retry.DefaultBackoff, schedulerutil.Retriable, func() error { return w.write(ctx, s) })
	switch {
	case err == nil || ctx.Err() != nil:
	case apierrors.IsNotFound(err) || IsAnotherPod(err):
		w.forget(uid)
	default:
		klog.FromContext(ctx).Error(err, "Left the status of a pod as it is in the API")
	}
	return true
}

// Claim is a nomination that the API may not know of.
type Claim struct {
	// Pod is the pod as the scheduler knew it.
	Pod  *corev1.Pod
	slot *slot
}

// Nominate takes note of nominations, and returns those that are the caller's to write: with Write, or Drop for those
// that it leaves. It makes no call.
func (w *Writer) Nominate(nominations []scheduler.Nomination) []Claim {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweep()
	var claims []Claim
	for _, n := range nominations {
		s, ok := w.slots[n.Pod.UID]
		if !ok {
			if n.Pod.Status.NominatedNodeName == n.Node {
				continue
			}
			s = w.add(n.Pod)
		}
		s.wanted, s.used = n.Node, w.clock.Now()
		if n.ByFramework {
			continue
		}
		if s.written != s.wanted || s.users > 0 {
			s.users++
			claims = append(claims, Claim{Pod: n.Pod, slot: s})
		}
	}
	return claims
}

// Write makes the API say what was said last of a pod.
func (w *Writer) Write(ctx context.Context, c Claim) error {
	defer w.release(c)
	return w.write(ctx, c.slot)
}

// Drop gives claims back that are not going to be written.
func (w *Writer) Drop(claims []Claim) {
	for _, c := range claims {
		w.release(c)
	}
}

func (w *Writer) release(c Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.slot.users--
	c.slot.used = w.clock.Now()
}

// add makes the slot of a pod. The lock is held.
func (w *Writer) add(pod *corev1.Pod) *slot {
	s := &slot{
		namespace: pod.Namespace, name: pod.Name, uid: pod.UID, writing: make(chan struct{}, 1),
		wanted: pod.Status.NominatedNodeName, written: pod.Status.NominatedNodeName, said: scheduledCondition(&pod.Status),
	}
	w.slots[pod.UID] = s
	return s
}

func (w *Writer) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.slots, uid)
}

// sweep forgets what is too old to be of use. The lock is held.
func (w *Writer) sweep() {
	now := w.clock.Now()
	if now.Sub(w.swept) < sweepInterval {
		return
	}
	w.swept = now
	maps.DeleteFunc(w.slots, func(_ types.UID, s *slot) bool { return s.users == 0 && now.Sub(s.used) > memory })
}

// write makes the API say what was said last of a pod, if it does not.
func (w *Writer) write(ctx context.Context, s *slot) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	w.mu.Lock()
	status, node, condition := s.missing()
	w.mu.Unlock()
	if len(status) == 0 {
		return nil
	}
	if err := Patch(ctx, w.pods, s.namespace, s.name, s.uid, status); err != nil {
		return fmt.Errorf("%s: %w", s.describe(status), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.wrote(node, condition)
	return nil
}
