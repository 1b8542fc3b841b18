package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// heldTime is how long a pod waits for what it belongs to before it hears of that: mostly it is a moment.
const heldTime = 5 * time.Second

// newDeriveControllers makes the controllers of groups that are derived.
func newDeriveControllers(in Inputs) ([]controller.Controller, error) {
	pods := in.Informers.Core().V1().Pods()
	groups, err := newResolveController("podgroup-derive",
		NewDerive(in.Client, in.Derived, in.Members, in.Queues.QueueNamedBy, in.Informers.Scheduling().V1().PriorityClasses().Lister(),
			in.Registry, in.Recorder, in.SayOfPod),
		source.Kind(in.Cache, &v1alpha1.PodGroup{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.PodGroup]{}),
		&source.Informer{Informer: pods.Informer(), Handler: handler.EnqueueRequestsFromMapFunc(in.groupOfPod)},
		in.DerivedChanged,
	)
	if err != nil {
		return nil, err
	}
	held := NewHeld(pods.Lister(), in.Derived, in.Source, in.Recorder, in.SayOfPod, in.Clock)
	pending := func(_ context.Context, obj client.Object) []reconcile.Request {
		if pod, ok := obj.(*corev1.Pod); ok && held.verdict(pod) != (gang.Verdict{}) {
			return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(pod)}}
		}
		return nil
	}
	tell, err := newResolveController("pod-held", held,
		&source.Informer{Informer: pods.Informer(), Handler: handler.EnqueueRequestsFromMapFunc(pending)})
	if err != nil {
		return nil, err
	}
	return []controller.Controller{groups, tell}, nil
}

// Held tells pods that have waited for a while why it is not known to which group they belong: each by its condition PodScheduled, and the
// pods of one owner by one event.
type Held struct {
	pods     corelisters.PodLister
	derived  Derived
	groups   gang.Source
	recorder events.EventRecorder
	say      func(*corev1.Pod, corev1.PodCondition)
	clock    clock.PassiveClock
	since    map[types.NamespacedName]time.Time
	told     sets.Set[string]
}

var _ reconcile.Reconciler = (*Held)(nil)

// NewHeld returns a Held, which writes the conditions of pods with the function say. It must be run with one worker: it keeps what it has told.
func NewHeld(pods corelisters.PodLister, derived Derived, groups gang.Source, recorder events.EventRecorder, say func(*corev1.Pod, corev1.PodCondition), clk clock.PassiveClock) *Held {
	return &Held{pods: pods, derived: derived, groups: groups, recorder: recorder, say: say, clock: clk, since: make(map[types.NamespacedName]time.Time), told: sets.New[string]()}
}

// verdict is why a pod is held back; zero for one that is not.
func (r *Held) verdict(pod *corev1.Pod) gang.Verdict {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return gang.Verdict{}
	}
	if v := r.derived.Hold(pod); v != (gang.Verdict{}) {
		return v
	}
	return gang.Outranked(r.derived, r.groups, pod)
}

// Reconcile looks at one pod.
func (r *Held) Reconcile(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod, err := r.pods.Pods(req.Namespace).Get(req.Name)
	switch {
	case apierrors.IsNotFound(err):
		delete(r.since, req.NamespacedName)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("get pod %s: %w", req, err)
	case r.verdict(pod) == (gang.Verdict{}):
		delete(r.since, req.NamespacedName)
		takeBackHeld(r.say, pod, grouping.ReasonOwnerUnknown, grouping.ReasonNotGroupable, v1alpha1.ReasonPriorityAbovePods)
		return reconcile.Result{}, nil
	}
	since, ok := r.since[req.NamespacedName]
	if !ok {
		since = r.clock.Now()
		r.since[req.NamespacedName] = since
	}
	if left := heldTime - r.clock.Now().Sub(since); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	v := r.verdict(pod)
	sayHeld(r.say, pod, v)
	about := string(pod.UID)
	if owner := metav1.GetControllerOf(pod); owner != nil {
		about = string(owner.UID)
	}
	if about += " " + v.Message; !r.told.Has(about) {
		if len(r.told) >= mostMislabeled {
			r.told = sets.New[string]()
		}
		r.told.Insert(about)
		r.recorder.Eventf(pod, nil, corev1.EventTypeWarning, v.Reason, "Grouping", "the pod waits: %s", v.Message)
	}
	// What it waits for may become another thing.
	return reconcile.Result{RequeueAfter: heldTime}, nil
}

// sayHeld has a pod say why it is held back.
func sayHeld(say func(*corev1.Pod, corev1.PodCondition), pod *corev1.Pod, v gang.Verdict) {
	_, before := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
	if before != nil && before.Reason == v.Reason && before.Message == v.Message {
		return
	}
	say(pod, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: v.Reason, Message: v.Message,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation, corev1.PodScheduled),
	})
}

// takeBackHeld has a pod that is not held back for some reasons any more, and waits all the same, not say so.
func takeBackHeld(say func(*corev1.Pod, corev1.PodCondition), pod *corev1.Pod, reasons ...string) {
	_, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
	if pod.Spec.NodeName == "" && c != nil && slices.Contains(reasons, c.Reason) {
		sayHeld(say, pod, gang.Verdict{Reason: v1alpha1.ReasonPending, Message: "what the pod belongs to is known now"})
	}
}
