package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Resolver fills in what users leave to Reprieve in a PodGroup's spec: the fields of the template that it
// was made from, then its priority. What cannot be resolved yet is left alone; the group's members stay
// gated meanwhile, and the status controller says why.
type Resolver struct {
	client   client.Client
	classes  schedulinglisters.PriorityClassLister
	recorder events.EventRecorder
}

var _ reconcile.Reconciler = (*Resolver)(nil)

// NewResolver returns a Resolver that writes with client, finds PriorityClasses in classes and tells of what
// cannot be filled in with recorder.
func NewResolver(c client.Client, classes schedulinglisters.PriorityClassLister, recorder events.EventRecorder) *Resolver {
	return &Resolver{client: c, classes: classes, recorder: recorder}
}

// Reconcile fills in one PodGroup.
func (r *Resolver) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var pg v1alpha1.PodGroup
	if err := r.client.Get(ctx, req.NamespacedName, &pg); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if pg.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	before := pg.DeepCopy()
	if ok, err := r.fillFromTemplate(ctx, &pg); err != nil || !ok {
		return reconcile.Result{}, err
	}
	if pg.Spec.Priority == nil {
		priority, err := r.priority(ptr.Deref(pg.Spec.PriorityClassName, ""))
		if err != nil {
			return reconcile.Result{}, err
		}
		pg.Spec.Priority = priority
	}
	if !changedSpec(before, &pg) {
		return reconcile.Result{}, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, &pg, patch); err != nil {
		if apierrors.IsInvalid(err) {
			// What the user set and what the template has do not go together: trying again does not help.
			before.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("PodGroup"))
			r.recorder.Eventf(before, nil, corev1.EventTypeWarning, "InvalidTemplate", "Resolving",
				"the fields of the template cannot be taken over: %v", err)
			return reconcile.Result{}, nil
		}
		return retryConflict(fmt.Errorf("fill in PodGroup %s: %w", req, err))
	}
	return reconcile.Result{}, nil
}

// fillFromTemplate takes over what the group leaves unset. It reports false while the template is missing.
func (r *Resolver) fillFromTemplate(ctx context.Context, pg *v1alpha1.PodGroup) (bool, error) {
	ref := pg.Spec.PodGroupTemplateRef
	if ref == nil || pg.Spec.Priority != nil {
		return true, nil
	}
	var w v1alpha1.Workload
	err := r.client.Get(ctx, client.ObjectKey{Namespace: pg.Namespace, Name: ref.WorkloadName}, &w)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get Workload %s/%s: %w", pg.Namespace, ref.WorkloadName, err)
	}
	for i := range w.Spec.PodGroupTemplates {
		t := &w.Spec.PodGroupTemplates[i]
		if t.Name != ref.PodGroupTemplateName {
			continue
		}
		takeOver(&pg.Spec.PodGroupPolicy, t.PodGroupPolicy.DeepCopy())
		return true, nil
	}
	return false, nil
}

// takeOver fills every unset field of a policy from a template's.
func takeOver(to, from *v1alpha1.PodGroupPolicy) {
	if to.SchedulingPolicy == nil {
		to.SchedulingPolicy = from.SchedulingPolicy
	}
	if to.DisruptionMode == nil {
		to.DisruptionMode = from.DisruptionMode
	}
	if to.PriorityClassName == nil {
		to.PriorityClassName = from.PriorityClassName
	}
	if to.QueueName == nil {
		to.QueueName = from.QueueName
	}
}

func changedSpec(before, after *v1alpha1.PodGroup) bool {
	return before.Spec.Priority == nil && after.Spec.Priority != nil ||
		before.Spec.SchedulingPolicy == nil && after.Spec.SchedulingPolicy != nil ||
		before.Spec.DisruptionMode == nil && after.Spec.DisruptionMode != nil ||
		before.Spec.PriorityClassName == nil && after.Spec.PriorityClassName != nil ||
		before.Spec.QueueName == nil && after.Spec.QueueName != nil
}

// priority resolves a class as Pods have it resolved: the named class, else the global default, else 0. It
// returns nil while the named class does not exist.
func (r *Resolver) priority(className string) (*int32, error) {
	if className != "" {
		class, err := r.classes.Get(className)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("get PriorityClass %q: %w", className, err)
		}
		return ptr.To(class.Value), nil
	}
	all, err := r.classes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list PriorityClasses: %w", err)
	}
	return ptr.To(globalDefault(all)), nil
}

// globalDefault is the value of the global default class. Of several, the lowest counts, as for Pods.
func globalDefault(all []*schedulingv1.PriorityClass) int32 {
	var found *int32
	for _, class := range all {
		if class.GlobalDefault && (found == nil || class.Value < *found) {
			found = &class.Value
		}
	}
	return ptr.Deref(found, 0)
}

// retryConflict asks for another try where somebody else wrote first: the cache has not caught up.
func retryConflict(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// mismatch returns a pod whose priority is not the group's, or nil.
func mismatch(pods []*corev1.Pod, priority *int32) *corev1.Pod {
	if priority == nil {
		return nil
	}
	var worst *corev1.Pod
	for _, pod := range pods {
		if ptr.Deref(pod.Spec.Priority, 0) != *priority && (worst == nil || pod.Name < worst.Name) {
			worst = pod
		}
	}
	return worst
}
