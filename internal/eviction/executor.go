package eviction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// maxParallel bounds how many pods one eviction removes at the same time.
const maxParallel = 16

// Executor removes victims. Its goroutines end when their eviction is over or the context of New is done;
// Wait waits for all of them.
type Executor struct {
	ctx      context.Context
	pods     kubernetes.Interface
	groups   client.Client
	recorder events.EventRecorder
	clock    clock.PassiveClock
	running  sync.WaitGroup
}

var _ scheduler.Evictor = (*Executor)(nil)

// New returns an Executor that deletes pods with pods, marks PodGroups with groups and tells both sides with
// recorder. No call is made after ctx is done.
func New(ctx context.Context, pods kubernetes.Interface, groups client.Client, recorder events.EventRecorder, clk clock.PassiveClock) *Executor {
	return &Executor{ctx: ctx, pods: pods, groups: groups, recorder: recorder, clock: clk}
}

// Wait returns when no eviction is running any more.
func (e *Executor) Wait() { e.running.Wait() }

// Evict removes the victims of a decision, off the caller's goroutine. It calls done once.
func (e *Executor) Evict(ctx context.Context, order scheduler.EvictionOrder, done func(error)) {
	e.running.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stop := context.AfterFunc(e.ctx, cancel)
		defer stop()
		err := e.evict(ctx, &order)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Preemption failed", "preemptor", order.Decision.Preemptor.Key())
		}
		done(err)
	})
}

// evict marks all victim groups, then removes all pods. The first failure stops what has not begun.
func (e *Executor) evict(ctx context.Context, order *scheduler.EvictionOrder) error {
	d := &order.Decision
	for i := range d.Victims {
		if v := &d.Victims[i]; v.Group {
			if err := e.markGroup(ctx, d, v); err != nil {
				return fmt.Errorf("mark PodGroup %s/%s: %w", v.Namespace, v.Name, err)
			}
		}
	}
	type task struct {
		victim *core.Victim
		pod    *corev1.Pod
	}
	var tasks []task
	for i := range d.Victims {
		for _, p := range d.Victims[i].Pods {
			if pod := order.Victims[types.UID(p.UID)]; pod != nil {
				tasks = append(tasks, task{victim: &d.Victims[i], pod: pod})
			}
		}
	}
	queue := make(chan task, len(tasks))
	for _, t := range tasks {
		queue <- t
	}
	close(queue)
	errs := make([]error, min(maxParallel, len(tasks)))
	var workers sync.WaitGroup
	for w := range errs {
		workers.Go(func() {
			for t := range queue {
				if err := e.removePod(ctx, order, t.victim, t.pod); err != nil {
					errs[w] = fmt.Errorf("evict pod %s/%s: %w", t.pod.Namespace, t.pod.Name, err)
					return
				}
			}
		})
	}
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	e.tellPreemptor(d)
	return nil
}

// why says who takes a victim, and by what rule.
func why(d *core.Decision, v *core.Victim) string {
	kind := "pod"
	if d.Preemptor.Gang {
		kind = "PodGroup"
	}
	return fmt.Sprintf("preempted by %s %s (priority %d): %s, the victim's priority is %d",
		kind, d.Preemptor.Key(), d.Preemptor.Priority, v.Rule, v.Priority)
}

// markGroup records the intent to remove a whole group, before any of its pods is touched.
func (e *Executor) markGroup(ctx context.Context, d *core.Decision, v *core.Victim) error {
	var marked *v1alpha1.PodGroup
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var pg v1alpha1.PodGroup
		if err := e.groups.Get(ctx, client.ObjectKey{Namespace: v.Namespace, Name: v.Name}, &pg); err != nil {
			return client.IgnoreNotFound(err)
		}
		if string(pg.UID) != v.UID {
			return nil
		}
		changed := meta.SetStatusCondition(&pg.Status.Conditions, metav1.Condition{
			Type:               v1alpha1.ConditionDisruptionTarget,
			Status:             metav1.ConditionTrue,
			Reason:             v1alpha1.ReasonPreemptionByScheduler,
			Message:            why(d, v),
			ObservedGeneration: pg.Generation,
		})
		marked = &pg
		if !changed {
			return nil
		}
		return e.groups.Status().Update(ctx, &pg)
	})
	if err == nil && marked != nil {
		// A client leaves the kind out of what it reads, and an event needs it.
		marked.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("PodGroup"))
		e.recorder.Eventf(marked, preemptorRef(d), corev1.EventTypeNormal, "Preempted", "Preempting", "%s", why(d, v))
	}
	return err
}

// removePod turns a victim back in memory or deletes it. A victim that has gone already is no error.
func (e *Executor) removePod(ctx context.Context, order *scheduler.EvictionOrder, v *core.Victim, pod *corev1.Pod) error {
	d := &order.Decision
	if order.TurnBack(pod) {
		e.recorder.Eventf(pod, preemptorRef(d), corev1.EventTypeNormal, "Preempted", "Preempting", "%s, before it was bound", why(d, v))
		return nil
	}
	if err := e.markPod(ctx, pod, why(d, v)); err != nil {
		if isGone(err) {
			return nil
		}
		return fmt.Errorf("set condition %s: %w", corev1.DisruptionTarget, err)
	}
	err := e.pods.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !isGone(err) {
		return fmt.Errorf("delete: %w", err)
	}
	if err == nil {
		e.recorder.Eventf(pod, preemptorRef(d), corev1.EventTypeNormal, "Preempted", "Preempting", "%s", why(d, v))
	}
	return nil
}

// markPod sets the pod's DisruptionTarget condition. The UID in the patch keeps it from a pod that has taken
// the victim's name since.
func (e *Executor) markPod(ctx context.Context, pod *corev1.Pod, message string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type:               corev1.DisruptionTarget,
			Status:             corev1.ConditionTrue,
			Reason:             corev1.PodReasonPreemptionByScheduler,
			Message:            message,
			LastTransitionTime: metav1.NewTime(e.clock.Now()),
		}}},
	})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = e.pods.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// isGone tells that the pod with that UID does not exist any more; one with its name may.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || isAnotherUID(err)
}

// isAnotherUID recognises what the API server says to a patch with the UID of a pod whose name another one
// has now: that it will not change the UID.
func isAnotherUID(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}

// tellPreemptor says on the preemptor's side whom it took.
func (e *Executor) tellPreemptor(d *core.Decision) {
	names := make([]string, len(d.Victims))
	for i := range d.Victims {
		names[i] = d.Victims[i].Namespace + "/" + d.Victims[i].Name
	}
	slices.Sort(names)
	if n := len(names); n > 5 {
		names = append(names[:5], fmt.Sprintf("and %d more", n-5))
	}
	e.recorder.Eventf(preemptorRef(d), nil, corev1.EventTypeNormal, "Preempting", "Preempting",
		"%s: %v", d.Message, names)
}

// preemptorRef refers to the preemptor in events.
func preemptorRef(d *core.Decision) runtime.Object {
	if d.Preemptor.Gang {
		return &v1alpha1.PodGroup{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGroup"},
			ObjectMeta: metav1.ObjectMeta{Namespace: d.Preemptor.Namespace, Name: d.Preemptor.Name, UID: types.UID(d.Preemptor.UID)},
		}
	}
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Preemptor.Namespace, Name: d.Preemptor.Name, UID: types.UID(d.Preemptor.UID)},
	}
}
