package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// WorkloadResolver fills in the priority of each template of a Workload from the template's
// PriorityClass. So all PodGroups of a template have the same priority, even if the class changes
// between their creations.
type WorkloadResolver struct {
	client     client.Client
	priorities priorities
	recorder   events.EventRecorder
}

var _ reconcile.Reconciler = (*WorkloadResolver)(nil)

// NewWorkloadResolver returns a WorkloadResolver that writes with c and finds PriorityClasses in
// classes. It reports missing classes with recorder.
func NewWorkloadResolver(c client.Client, classes schedulinglisters.PriorityClassLister, recorder events.EventRecorder) *WorkloadResolver {
	return &WorkloadResolver{client: c, priorities: priorities{classes}, recorder: recorder}
}

// Reconcile fills in the templates of one Workload. A template whose PriorityClass does not exist
// stays unchanged.
func (r *WorkloadResolver) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var w v1alpha1.Workload
	if err := r.client.Get(ctx, req.NamespacedName, &w); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if w.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	before := w.DeepCopy()
	changed := false
	for i := range w.Spec.PodGroupTemplates {
		t := &w.Spec.PodGroupTemplates[i]
		found, err := r.priorities.fill(&t.PodGroupPolicy)
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("fill in template %s of Workload %s: %w", t.Name, req, err)
		}
		if !found {
			before.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("Workload"))
			r.recorder.Eventf(before, nil, corev1.EventTypeWarning, v1alpha1.ReasonPriorityClassNotFound, actionResolving,
				"template %s waits for PriorityClass %q, which gives it its priority and does not exist",
				t.Name, ptr.Deref(t.PriorityClassName, ""))
		}
		changed = changed || changedPolicy(&before.Spec.PodGroupTemplates[i].PodGroupPolicy, &t.PodGroupPolicy)
	}
	if !changed {
		return reconcile.Result{}, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	filled := w.DeepCopy()
	err := r.client.Patch(ctx, &w, patch)
	if apierrors.IsInvalid(err) {
		named := false
		for i := range filled.Spec.PodGroupTemplates {
			policy := &filled.Spec.PodGroupTemplates[i].PodGroupPolicy
			named = withoutName(&before.Spec.PodGroupTemplates[i].PodGroupPolicy, policy) || named
		}
		if named {
			err = r.client.Patch(ctx, filled, patch)
		}
	}
	if err != nil {
		return retryConflict(fmt.Errorf("fill in the templates of Workload %s: %w", req, err))
	}
	return reconcile.Result{}, nil
}
