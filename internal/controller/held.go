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

// heldTime is the time that a pod must be blocked before the block is reported. Most blocks end
// earlier.
const heldTime = 5 * time.Second

// Holds reports why a single pod is blocked, apart from the state of its group.
type Holds interface {
	gang.Bounds
	// Hold returns the reason why the group of a pod is not known yet; zero if the group is known.
	Hold(pod *corev1.Pod) gang.Verdict
}

// noneDerived implements Holds for a scheduler that derives no groups.
type noneDerived struct{ gang.Named }

// IsBounded is part of gang.Bounds.
func (noneDerived) IsBounded(types.NamespacedName) bool { return false }

// Hold is part of Holds.
func (noneDerived) Hold(*corev1.Pod) gang.Verdict { return gang.Verdict{} }

// newHeldController returns the controller that reports blocked pods; see [Held]. It also watches
// owners and groups, because a block may begin or end with a change of one of these.
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

// outranked returns a handler for PodGroups that are created or changed. It requests the pending
// members that their PodGroup outranks. The requests are delayed, because the scheduler may see the
// change later than this handler.
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

// Held reports pods that have been blocked for heldTime because they have no usable group yet. Each
// pod gets the reason in its condition PodScheduled. The pods of one owner share one event.
type Held struct {
	pods     corelisters.PodLister
	holds    Holds
	groups   gang.Source
	recorder events.EventRecorder
	say      func(*corev1.Pod, corev1.PodCondition)
	clock    clock.PassiveClock
	since    map[types.NamespacedName]time.Time
	told     sets.Set[string]
	// figure is called with a reason and the number of pods that report it, each time that number
	// changes.
	figure func(reason string, pods int)
	// reasons maps pods to the reason that they report. counts maps reasons to the number of these
	// pods.
	reasons map[types.NamespacedName]string
	counts  map[string]int
}

var _ reconcile.Reconciler = (*Held)(nil)

// NewHeld returns a Held. It writes conditions of pods with say, and passes the numbers of blocked
// pods to figure. Run it with one worker, because it remembers its reports without a lock.
func NewHeld(pods corelisters.PodLister, holds Holds, groups gang.Source, recorder events.EventRecorder, say func(*corev1.Pod, corev1.PodCondition), figure func(reason string, pods int), clk clock.PassiveClock) *Held {
	return &Held{
		pods: pods, holds: holds, groups: groups, recorder: recorder, say: say, figure: figure, clock: clk,
		since: make(map[types.NamespacedName]time.Time), told: sets.New[string](),
		reasons: make(map[types.NamespacedName]string), counts: make(map[string]int),
	}
}

// count records the reason that a pod reports; "" for none.
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

// concerned returns a request for a pod that is blocked, or whose condition says that it is
// blocked. An earlier process may have written that condition.
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

// reasonsOf returns the reasons that are outdated if they are in the condition of a pod that is not
// blocked. PodGroupNotMade is one of them only for a pod without a group. For all other pods,
// Derive clears this reason.
func (r *Held) reasonsOf(pod *corev1.Pod) []string {
	out := []string{grouping.ReasonOwnerUnknown, grouping.ReasonNotGroupable, v1alpha1.ReasonPriorityAbovePods}
	if _, ok := r.holds.GroupOf(pod); !ok {
		out = append(out, gang.ReasonPodGroupNotMade)
	}
	return out
}

// verdict returns the reason why a pod is blocked; zero if it is not.
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
	// Compute the verdict only once. The block may end at any time, and a second verdict might then
	// be zero.
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
	// Request another check, because the reason may change while the pod is blocked.
	return reconcile.Result{RequeueAfter: heldTime}, nil
}

// sayHeld writes the reason for a block into the condition PodScheduled of a pod.
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

// clearCondition replaces the condition PodScheduled of a pod without a node if the condition has
// one of these reasons. Call it when the reasons no longer apply.
func clearCondition(say func(*corev1.Pod, corev1.PodCondition), pod *corev1.Pod, reasons ...string) {
	if says(pod, reasons...) {
		sayHeld(say, pod, gang.Verdict{Reason: v1alpha1.ReasonPending, Message: "what the pod belongs to is known now"})
	}
}

// says reports whether a pod has no node and its condition PodScheduled has one of the reasons.
func says(pod *corev1.Pod, reasons ...string) bool {
	_, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
	return pod.Spec.NodeName == "" && c != nil && slices.Contains(reasons, c.Reason)
}
