package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// reasonMalformedToleration is the reason of events on PriorityClasses with an unreadable
// toleration.
const reasonMalformedToleration = "MalformedPreemptionToleration"

// reasonIneffectiveToleration is the reason of events on PriorityClasses whose toleration protects
// from no class with a higher priority.
const reasonIneffectiveToleration = "IneffectivePreemptionToleration"

// Tolerations reports PriorityClasses whose preemption toleration is malformed or has no effect,
// once for each change. Until it is corrected, a malformed toleration counts as none. Tolerations
// also reports PriorityClasses that running work names and that do not exist. Such work is
// protected from every preemptor below the system-critical priorities.
type Tolerations struct {
	classes  schedulinglisters.PriorityClassLister
	pods     corelisters.PodLister
	groups   gang.Source
	members  gang.Membership
	recorder events.EventRecorder
	count    func(malformed int)
	// told maps malformed and missing classes to the last report about each.
	told map[string]string
	// ineffective maps classes whose toleration protects from no higher priority to the last report
	// about each. These classes are not counted.
	ineffective map[string]string
}

var _ reconcile.Reconciler = (*Tolerations)(nil)

// NewTolerations returns a Tolerations that reports with recorder. It calls count with the number
// of malformed and missing classes each time that the number changes. Run it with one worker,
// because it remembers its reports without a lock.
func NewTolerations(classes schedulinglisters.PriorityClassLister, pods corelisters.PodLister, groups gang.Source, members gang.Membership, recorder events.EventRecorder, count func(int)) *Tolerations {
	return &Tolerations{classes: classes, pods: pods, groups: groups, members: members, recorder: recorder, count: count, told: make(map[string]string), ineffective: make(map[string]string)}
}

// Reconcile checks one PriorityClass, which may be missing.
func (r *Tolerations) Reconcile(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
	before := len(r.told)
	class, err := r.classes.Get(req.Name)
	switch {
	case apierrors.IsNotFound(err):
		pods, err := r.pods.List(labels.Everything())
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("list pods of PriorityClass %s: %w", req.Name, err)
		}
		wrong := ""
		if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && r.classOf(pod) == req.Name }) {
			wrong = fmt.Sprintf("PriorityClass %s does not exist, and pods run that name it: nothing with a priority below %d preempts them; create the class again",
				req.Name, preemptiontoleration.SystemCriticalPriority)
		}
		missing := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: req.Name}}
		delete(r.ineffective, req.Name)
		r.tell(r.told, missing, v1alpha1.ReasonPriorityClassNotFound, wrong)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("get PriorityClass %s: %w", req.Name, err)
	default:
		policy, err := preemptiontoleration.FromPriorityClass(class)
		never, neverErr := preemptiontoleration.NeverFromPriorityClass(class)
		var effects []string
		if err != nil {
			effects = append(effects, "the class has no preemption toleration")
		}
		if neverErr != nil {
			effects = append(effects, "the class does not protect groups in disruptionMode Never")
		}
		r.tell(r.told, class, reasonMalformedToleration, malformed(class, effects))
		r.tell(r.ineffective, class, reasonIneffectiveToleration, cmp.Or(
			ineffective(class, policy, preemptiontoleration.AnnotationTolerationSeconds), ineffective(class, never, preemptiontoleration.AnnotationNeverSeconds)))
	}
	if before != len(r.told) {
		r.count(len(r.told))
	}
	return reconcile.Result{}, nil
}

// maxShown is the number of characters that a message shows of the value of an annotation.
const maxShown = 40

// malformed returns a message about all malformed annotations of a class and their effects; "" if
// all annotations are valid.
func malformed(class *schedulingv1.PriorityClass, effects []string) string {
	var parts []string
	for _, fault := range preemptiontoleration.Malformed(class) {
		parts = append(parts, fmt.Sprintf("annotation %s: %.*q %s", fault.Annotation, maxShown, fault.Value, fault.Reason))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("PriorityClass %s: %s", class.Name, strings.Join(append(parts, effects...), "; "))
}

// ineffective returns a message if a toleration protects from no preemptor of a higher priority;
// otherwise "". seconds is the annotation that sets the length of the toleration.
func ineffective(class *schedulingv1.PriorityClass, policy *preemptiontoleration.Policy, seconds string) string {
	if policy == nil || policy.TolerationSeconds == 0 || int64(policy.MinimumPreemptablePriority) > int64(class.Value)+1 {
		return ""
	}
	how := fmt.Sprintf("%s: %q", preemptiontoleration.AnnotationMinimumPreemptablePriority, class.Annotations[preemptiontoleration.AnnotationMinimumPreemptablePriority])
	if _, set := class.Annotations[preemptiontoleration.AnnotationMinimumPreemptablePriority]; !set {
		how = "no " + preemptiontoleration.AnnotationMinimumPreemptablePriority
	}
	return fmt.Sprintf("PriorityClass %s has %s: %q and %s, so every priority above its value %d preempts it at once; set a minimum above %d",
		class.Name, seconds, class.Annotations[seconds],
		how, class.Value, int64(class.Value)+1)
}

// tell reports the fault of a class, unless told has the same report. wrong describes the fault; ""
// for none.
func (r *Tolerations) tell(told map[string]string, class *schedulingv1.PriorityClass, reason, wrong string) {
	switch wrong {
	case "":
		delete(told, class.Name)
	case told[class.Name]:
	default:
		told[class.Name] = wrong
		r.recorder.Eventf(class, nil, corev1.EventTypeWarning, reason, "Reading", "%s", wrong)
	}
}

// classOf returns the PriorityClass whose toleration applies to a pod. It is the class of the pod's
// PodGroup if the PodGroup has a priority, and otherwise the class of the pod.
func (r *Tolerations) classOf(pod *corev1.Pod) string {
	if key, ok := r.members.GroupOf(pod); ok {
		if g, ok := r.groups.Group(key); ok && g.Priority != nil {
			return g.PriorityClassName
		}
	}
	return pod.Spec.PriorityClassName
}

// podOfMissingClass returns a request for the PriorityClass of a pod on a node if that class does
// not exist.
func (r *Tolerations) podOfMissingClass(_ context.Context, obj client.Object) []reconcile.Request {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil
	}
	name := r.classOf(pod)
	if name == "" {
		return nil
	}
	if _, err := r.classes.Get(name); !apierrors.IsNotFound(err) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

func newTolerationController(in Inputs) (controller.Controller, error) {
	classes, pods := in.Informers.Scheduling().V1().PriorityClasses(), in.Informers.Core().V1().Pods()
	tolerations := NewTolerations(classes.Lister(), pods.Lister(), in.Source, in.membership(), in.Recorder, in.MalformedTolerations)
	return newResolveController("priorityclass-toleration", tolerations,
		&source.Informer{Informer: classes.Informer(), Handler: &handler.EnqueueRequestForObject{}},
		&source.Informer{
			Informer: pods.Informer(), Handler: handler.EnqueueRequestsFromMapFunc(tolerations.podOfMissingClass),
			Predicates: []predicate.Predicate{predicate.Funcs{UpdateFunc: hasComeToANode}},
		},
	)
}

// hasComeToANode reports whether an update shows that a pod was bound. The controller ignores other
// updates.
func hasComeToANode(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*corev1.Pod)
	after, ok2 := e.ObjectNew.(*corev1.Pod)
	return ok1 && ok2 && before.Spec.NodeName == "" && after.Spec.NodeName != ""
}
