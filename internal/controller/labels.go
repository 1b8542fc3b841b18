package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// mostMislabeled bounds what is remembered of pods that have been told; past it, remembering starts over.
const mostMislabeled = 10000

// Labels tells of pods with labels of reprieve.dev that nothing reads, such as reprieve.dev/podgroup: once for the pods of one
// owner. They are scheduled as if they had no such label.
type Labels struct {
	pods       corelisters.PodLister
	profiles   sets.Set[string]
	queueLabel func(*corev1.Pod) string
	recorder   events.EventRecorder
	// begun is when looking began: pods that had a node by then have been told, if there was anyone to tell them.
	begun time.Time
	told  sets.Set[types.UID]
}

var _ reconcile.Reconciler = (*Labels)(nil)

// NewLabels returns a Labels for the pods of some profiles, in which queueLabel is the label that names a pod's queue. It must be
// run with one worker: it keeps what it has told.
func NewLabels(pods corelisters.PodLister, profiles sets.Set[string], queueLabel func(*corev1.Pod) string, recorder events.EventRecorder, begun time.Time) *Labels {
	return &Labels{pods: pods, profiles: profiles, queueLabel: queueLabel, recorder: recorder, begun: begun, told: sets.New[types.UID]()}
}

// Reconcile looks at one pod.
func (r *Labels) Reconcile(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod, err := r.pods.Pods(req.Namespace).Get(req.Name)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get pod %s: %w", req, err)
	}
	if !r.profiles.Has(pod.Spec.SchedulerName) || pod.Spec.NodeName != "" && pod.CreationTimestamp.Time.Before(r.begun) {
		return reconcile.Result{}, nil
	}
	queue := r.queueLabel(pod)
	unread := slices.DeleteFunc(ourLabels(pod), func(key string) bool { return key == v1alpha1.LabelPodGroup || key == queue })
	about := pod.UID
	if owner := metav1.GetControllerOf(pod); owner != nil {
		about = owner.UID
	}
	if len(unread) == 0 || r.told.Has(about) {
		return reconcile.Result{}, nil
	}
	if len(r.told) >= mostMislabeled {
		r.told = sets.New[types.UID]()
	}
	r.told.Insert(about)
	r.recorder.Eventf(pod, nil, corev1.EventTypeWarning, "UnknownLabel", "Reading",
		"nothing reads the label %s; a pod joins a PodGroup by %s, and one without a PodGroup names its queue by %s",
		strings.Join(unread, ", "), v1alpha1.LabelPodGroup, queue)
	return reconcile.Result{}, nil
}

// ourLabels are the keys of a pod's labels under reprieve.dev.
func ourLabels(pod *corev1.Pod) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(pod.Labels)) {
		if strings.HasPrefix(key, v1alpha1.GroupName+"/") {
			out = append(out, key)
		}
	}
	return out
}

func newLabelController(in Inputs) (controller.Controller, error) {
	pods := in.Informers.Core().V1().Pods()
	labeled := func(_ context.Context, obj client.Object) []reconcile.Request {
		// Few pods have others than these two, which most queues are named by.
		if pod, ok := obj.(*corev1.Pod); ok && len(ourLabels(pod)) > 0 {
			return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(pod)}}
		}
		return nil
	}
	return newResolveController("pod-labels",
		NewLabels(pods.Lister(), in.Profiles, in.Queues.QueueLabel, in.Recorder, in.Clock.Now()),
		&source.Informer{Informer: pods.Informer(), Handler: handler.EnqueueRequestsFromMapFunc(labeled)},
	)
}
