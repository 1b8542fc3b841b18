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
	"k8s.io/client-go/util/workqueue"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// heldTime is the time that a pod must be blocked before this is reported. Usually, the cause ends
// within a moment.
const heldTime = 5 * time.Second

// Holds reports why single pods are blocked, regardless of the state of their group.
type Holds interface {
	gang.Bounds
	// Hold reports why the group of a pod is not known yet.
	Hold(pod *corev1.Pod) gang.Verdict
}

// noneDerived implements Holds for a process without derived groups.
type noneDerived struct{ gang.Named }

// IsBounded is part of gang.Bounds.
func (noneDerived) IsBounded(types.NamespacedName) bool { return false }

// Hold is part of Holds.
func (noneDerived) Hold(*corev1.Pod) gang.Verdict { return gang.Verdict{} }

// newHeldController returns the controller of blocked pods. A block begins and ends with changes of
// the pod's owner or group, which may happen without a change of the pod.
func newHeldController(in Inputs) (controller.Controller, error) {
	pods := in.Informers.Core().V1().Pods()
	var holds Holds = noneDerived{}
	if in.Derived != nil {
		holds = in.Derived
	}
	held := NewHeld(pods.Lister(), holds, in.Source, in.Recorder, in.SayOfPod, in.HeldPods, in.Clock)
	sources := []source.Source{
		&source.Informer{Informer: pods.Informer(), Handler: handler.EnqueueRequestsFromMapFunc(held.concerned)},
		source.Kind(in.Cache, &v1alpha1.PodGroup{}, in.outranked(), predicate.TypedGenerationChangedPredicate[*v1alpha1.PodGroup]{}),
	}
	if in.HoldChanged != nil {
		sources = append(sources, in.HoldChanged)
	}
	return newResolveController("pod-held", held, sources...)
}

// outranked returns a handler for PodGroups that are created or change. It requests the pending
// members that their PodGroup outranks. The requests are delayed because the scheduler may receive
// the change later.
func (in *Inputs) outranked() handler.TypedEventHandler[*v1alpha1.PodGroup, reconcile.Request] {
	look := func(pg *v1alpha1.PodGroup, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		g := gang.FromPodGroup(pg)
		for _, pod := range in.Members.Members(g.Key).Pending {
			if gang.Outranks(g, pod) {
				queue.AddAfter(requestFor(pod), heldTime)
			}
		}
	}
	return handler.TypedFuncs[*v1alpha1.PodGroup, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.PodGroup], queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			look(e.Object, queue)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1alpha1.PodGroup], queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			look(e.ObjectNew, queue)
		},
	}
}

// Held reports why pods are blocked before they have a usable group, once they have been blocked
// for heldTime. Each pod shows the reason in its condition PodScheduled. The pods of one owner
// share one event.
type Held struct {
	pods     corelisters.PodLister
	holds    Holds
	groups   gang.Source
	recorder events.EventRecorder
	say      func(*corev1.Pod, corev1.PodCondition)
	clock    clock.PassiveClock
	since    map[types.NamespacedName]time.Time
	told     sets.Set[string]
	// figure is called with the number of pods that show a reason, when the number changes. reasons
	// has the reason of each pod, and counts the number of pods for each reason.
	figure  func(reason string, pods int)
	reasons map[types.NamespacedName]string
	counts  map[string]int
}

var _ reconcile.Reconciler = (*Held)(nil)

// NewHeld returns a Held. It writes the conditions of pods with say, and passes the number of
// blocked pods to figure. Run it with one worker, because it remembers its reports without a lock.
func NewHeld(pods corelisters.PodLister, holds Holds, groups gang.Source, recorder events.EventRecorder, say func(*corev1.Pod, corev1.PodCondition), figure func(reason string, pods int), clk clock.PassiveClock) *Held {
	return &Held{
		pods: pods, holds: holds, groups: groups, recorder: recorder, say: say, figure: figure, clock: clk,
		since: make(map[types.NamespacedName]time.Time), told: sets.New[string](),
		reasons: make(map[types.NamespacedName]string), counts: make(map[string]int),
	}
}

// count records why a pod is blocked; "" if it is not blocked or does not exist.
func (r *Held) count(pod types.NamespacedName, reason string) {
	before := r.reasons[pod]
	if before == reason {
		return
	}
	delete(r.reasons, pod)
	if reason != "" {
		r.reasons[pod] = reason
		r.counts[reason]++
		r.figure(reason, r.counts[reason])
	}
	if before != "" {
		r.counts[before]--
		r.figure(before, r.counts[before])
	}
}

// concerned returns a request for a pod that is blocked, or whose condition says that it is.
// Another process may have written the condition.
func (r *Held) concerned(_ context.Context, obj client.Object) []reconcile.Request {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return nil
	}
	if r.verdict(pod) == (gang.Verdict{}) && !says(pod, r.reasonsOf(pod)...) {
		return nil
	}
	return []reconcile.Request{requestFor(pod)}
}

// reasonsOf returns the reasons to remove from the condition of a pod that is not blocked. Derive
// removes the reason PodGroupNotMade itself, unless the pod is no longer in a group.
func (r *Held) reasonsOf(pod *corev1.Pod) []string {
	out := []string{grouping.ReasonOwnerUnknown, grouping.ReasonNotGroupable, v1alpha1.ReasonPriorityAbovePods}
	if _, ok := r.holds.GroupOf(pod); !ok {
		out = append(out, gang.ReasonPodGroupNotMade)
	}
	return out
}

// verdict returns why a pod is blocked; zero if it is not blocked.
func (r *Held) verdict(pod *corev1.Pod) gang.Verdict {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return gang.Verdict{}
	}
	if v := r.holds.Hold(pod); v != (gang.Verdict{}) {
		return v
	}
	return gang.Outranked(r.holds, r.groups, pod)
}

// Reconcile checks one pod.
func (r *Held) Reconcile(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod, err := r.pods.Pods(req.Namespace).Get(req.Name)
	switch {
	case apierrors.IsNotFound(err):
		delete(r.since, req.NamespacedName)
		r.count(req.NamespacedName, "")
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("get pod %s: %w", req, err)
	}
	// Ask only once. The block may end at any time, and a second verdict might have no reason.
	v := r.verdict(pod)
	if v == (gang.Verdict{}) {
		delete(r.since, req.NamespacedName)
		r.count(req.NamespacedName, "")
		clearCondition(r.say, pod, r.reasonsOf(pod)...)
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
	r.count(req.NamespacedName, v.Reason)
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
	// Check again later, because the reason may change while the pod is blocked.
	return reconcile.Result{RequeueAfter: heldTime}, nil
}

// sayHeld writes into a pod's condition why the pod is blocked.
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

// clearCondition replaces the condition of a pod without a node if it has one of the reasons,
// because these do not block the pod any more.
func clearCondition(say func(*corev1.Pod, corev1.PodCondition), pod *corev1.Pod, reasons ...string) {
	if says(pod, reasons...) {
		sayHeld(say, pod, gang.Verdict{Reason: v1alpha1.ReasonPending, Message: "what the pod belongs to is known now"})
	}
}

// says reports whether a pod has no node and its condition shows one of the reasons.
func says(pod *corev1.Pod, reasons ...string) bool {
	_, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
	return pod.Spec.NodeName == "" && c != nil && slices.Contains(reasons, c.Reason)
}
