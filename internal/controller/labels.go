package controller

import (
	"context"
	"fmt"
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
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// mostMislabeled is the maximum number of reports that Labels remembers. When it is reached, Labels
// forgets all of them.
const mostMislabeled = 10000

// Labels reports pods with labels or annotations of reprieve.dev that have no effect: keys that no
// code reads, such as reprieve.dev/podgroup, or invalid values. It sends one report for all pods of
// an owner. The scheduler schedules such pods as if the key were missing.
type Labels struct {
	pods       corelisters.PodLister
	profiles   sets.Set[string]
	queueLabel func(*corev1.Pod) string
	recorder   events.EventRecorder
	clock      clock.PassiveClock
	// bad is called with the key of each annotation whose value is reported. It may be nil.
	bad func(key string)
	// begun is the start of this process. Pods that were created earlier and have a node get no
	// report about keys, because an earlier process sent it. The values of their annotations are
	// checked again, because users may have changed the values since then.
	begun time.Time
	told  sets.Set[mislabeled]
}

// mislabeled identifies a report: about the pods of one owner, or about one pod without an owner.
type mislabeled struct {
	of    types.UID
	about topic
}

// topic is the subject of a report: keys or values.
type topic int

const (
	aboutKeys topic = iota
	aboutValues
)

var _ reconcile.Reconciler = (*Labels)(nil)

// NewLabels returns a Labels for the pods of some profiles. queueLabel returns the label that names
// the queue of a pod. bad receives the key of each annotation whose value is reported; it may be
// nil. Run the Labels with one worker, because it remembers its reports without a lock.
func NewLabels(
	pods corelisters.PodLister, profiles sets.Set[string], queueLabel func(*corev1.Pod) string, recorder events.EventRecorder,
	clock clock.PassiveClock, bad func(key string),
) *Labels {
	return &Labels{
		pods: pods, profiles: profiles, queueLabel: queueLabel, recorder: recorder, clock: clock, bad: bad,
		begun: clock.Now(), told: sets.New[mislabeled](),
	}
}

// Reconcile checks one pod.
func (r *Labels) Reconcile(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod, err := r.pods.Pods(req.Namespace).Get(req.Name)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get pod %s: %w", req, err)
	}
	if !r.profiles.Has(pod.Spec.SchedulerName) {
		return reconcile.Result{}, nil
	}
	if bad := gang.BadValues(pod.Annotations, r.clock.Now()); len(bad) > 0 && r.isNew(pod, aboutValues) {
		r.reportValues(pod, bad)
	}
	if pod.Spec.NodeName != "" && pod.CreationTimestamp.Time.Before(r.begun) {
		return reconcile.Result{}, nil
	}
	queue := r.queueLabel(pod)
	unread, annotations := UnreadKeys(pod.Labels, false, queue), UnreadKeys(pod.Annotations, true, queue)
	if len(unread)+len(annotations) == 0 || !r.isNew(pod, aboutKeys) {
		return reconcile.Result{}, nil
	}
	if len(annotations) > 0 {
		r.recorder.Eventf(pod, nil, corev1.EventTypeWarning, "UnknownAnnotation", "Reading", "nothing reads the annotation %s; the annotations are %s",
			strings.Join(annotations, ", "), strings.Join(KnownKeys(true, queue), ", "))
	}
	if len(unread) > 0 {
		r.recorder.Eventf(pod, nil, corev1.EventTypeWarning, "UnknownLabel", "Reading",
			"nothing reads the label %s; a pod joins a PodGroup by %s, and one without a PodGroup names its queue by %s",
			strings.Join(unread, ", "), v1alpha1.LabelPodGroup, queue)
	}
	return reconcile.Result{}, nil
}

// reportValues reports and counts values of annotations that have no effect.
func (r *Labels) reportValues(pod *corev1.Pod, bad []*gang.BadValue) {
	messages := make([]string, 0, len(bad))
	for _, value := range bad {
		messages = append(messages, value.Error())
		if r.bad != nil {
			r.bad(value.Key)
		}
	}
	r.recorder.Eventf(pod, nil, corev1.EventTypeWarning, "InvalidAnnotation", "Reading", "%s; it counts as if it was not there", strings.Join(messages, "; "))
}

// isNew reports whether there is no report yet about this topic for the pods of this pod's owner.
// It records that there is one now.
func (r *Labels) isNew(pod *corev1.Pod, about topic) bool {
	report := mislabeled{of: pod.UID, about: about}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		report.of = owner.UID
	}
	if r.told.Has(report) {
		return false
	}
	if len(r.told) >= mostMislabeled {
		r.told = sets.New[mislabeled]()
	}
	r.told.Insert(report)
	return true
}

// KnownKeys returns the keys of reprieve.dev that Reprieve reads on any kind of object: annotations
// or labels. queueLabel is the label that names the queue of a pod.
func KnownKeys(annotations bool, queueLabel string) []string {
	if !annotations {
		return []string{v1alpha1.LabelLedBy, v1alpha1.LabelPodGroup, queueLabel}
	}
	return []string{
		v1alpha1.AnnotationCheckpointInterval, v1alpha1.AnnotationClassOf, v1alpha1.AnnotationDisruptionMode, v1alpha1.AnnotationGang,
		v1alpha1.AnnotationGangPer, v1alpha1.AnnotationLastCheckpoint, v1alpha1.AnnotationLeads, v1alpha1.AnnotationPriorityClass,
		v1alpha1.AnnotationPreemptionClassOf, v1alpha1.AnnotationPreemptionPriorityClass,
		v1alpha1.AnnotationQueue, v1alpha1.AnnotationQueueOf, v1alpha1.AnnotationRestartCost,
		v1alpha1.AnnotationTopologyKey, v1alpha1.AnnotationPreferredTopologyKey,
	}
}

// ownKeys returns the annotations that Reprieve itself writes.
func ownKeys() []string {
	return []string{annotationMadeFrom, gang.AnnotationUnsupported, native.AnnotationWorkloadRef, v1alpha1.AnnotationPlacedAs}
}

// UnreadKeys returns the keys of reprieve.dev in a map of labels or annotations that no code reads,
// sorted.
func UnreadKeys(of map[string]string, annotations bool, queueLabel string) []string {
	known := KnownKeys(annotations, queueLabel)
	if annotations {
		known = append(known, ownKeys()...)
	}
	var out []string
	for key := range of {
		if strings.HasPrefix(key, v1alpha1.GroupName+"/") && !slices.Contains(known, key) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// InvalidAnnotations returns a message for each invalid value of an annotation about lost work.
func InvalidAnnotations(annotations map[string]string) []string {
	_, err := gang.ProgressOf(annotations)
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func newLabelController(in Inputs) (controller.Controller, error) {
	pods := in.Informers.Core().V1().Pods()
	labeled := func(_ context.Context, obj client.Object) []reconcile.Request {
		// A profile may use another queue label, which this filter does not know. So the filter
		// accepts queue labels too, and Reconcile checks them.
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil
		}
		unread := len(UnreadKeys(pod.Labels, false, v1alpha1.LabelPodGroup)) + len(UnreadKeys(pod.Annotations, true, ""))
		if unread+len(gang.BadValues(pod.Annotations, in.Clock.Now())) == 0 {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(pod)}}
	}
	return newResolveController("pod-labels",
		NewLabels(pods.Lister(), in.Profiles, in.Queues.QueueLabel, in.Recorder, in.Clock, in.BadAnnotation),
		&source.Informer{Informer: pods.Informer(), Handler: handler.EnqueueRequestsFromMapFunc(labeled)},
	)
}
