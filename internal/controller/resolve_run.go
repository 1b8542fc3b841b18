package controller

import (
	"context"
	"fmt"
	"slices"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// newResolveControllers returns the controllers that fill in PodGroups and Workloads.
func newResolveControllers(in Inputs) ([]controller.Controller, error) {
	classes := in.Informers.Scheduling().V1().PriorityClasses()
	waiting := waiting{in.Client}
	groups, err := newResolveController("podgroup-resolve",
		NewResolver(in.Client, classes.Lister(), in.Gangs, in.Recorder),
		source.Kind(in.Cache, &v1alpha1.PodGroup{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.PodGroup]{},
			predicate.TypedGenerationChangedPredicate[*v1alpha1.PodGroup]{}),
		source.Kind(in.Cache, &v1alpha1.Workload{}, handler.TypedEnqueueRequestsFromMapFunc(waiting.groupsOfWorkload)),
		&source.Informer{Informer: classes.Informer(), Handler: handler.EnqueueRequestsFromMapFunc(waiting.groupsForClass)},
	)
	if err != nil {
		return nil, err
	}
	workloads, err := newResolveController("workload-resolve",
		NewWorkloadResolver(in.Client, classes.Lister(), in.Recorder),
		source.Kind(in.Cache, &v1alpha1.Workload{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.Workload]{},
			predicate.TypedGenerationChangedPredicate[*v1alpha1.Workload]{}),
		&source.Informer{Informer: classes.Informer(), Handler: handler.EnqueueRequestsFromMapFunc(waiting.workloadsForClass)},
	)
	if err != nil {
		return nil, err
	}
	return []controller.Controller{groups, workloads}, nil
}

func newResolveController(name string, r reconcile.Reconciler, sources ...source.Source) (controller.Controller, error) {
	c, err := controller.NewUnmanaged(name, optionsFor(r, conflictDelay))
	if err != nil {
		return nil, fmt.Errorf("make controller %s: %w", name, err)
	}
	for _, src := range sources {
		if err := c.Watch(src); err != nil {
			return nil, fmt.Errorf("watch for %s: %w", name, err)
		}
	}
	return c, nil
}

// waiting finds PodGroups and Workloads with empty fields. After another object was created or
// changed, these fields can perhaps be filled in.
type waiting struct{ client client.Reader }

// groups returns requests for the PodGroups that have empty fields and satisfy matches.
func (w waiting) groups(ctx context.Context, matches func(*v1alpha1.PodGroup) bool, opts ...client.ListOption) []reconcile.Request {
	var list v1alpha1.PodGroupList
	// The error is ignored: reads from the cache fail only for unknown types and namespaces.
	if err := w.client.List(ctx, &list, opts...); err != nil {
		return nil
	}
	return requestsFor(list.Items, func(pg *v1alpha1.PodGroup) bool { return isOpen(&pg.Spec.PodGroupPolicy) && matches(pg) })
}

// groupsOfWorkload returns requests for the PodGroups that refer to a template of the Workload and
// have empty fields.
func (w waiting) groupsOfWorkload(ctx context.Context, made *v1alpha1.Workload) []reconcile.Request {
	return w.groups(ctx, func(pg *v1alpha1.PodGroup) bool {
		return pg.Spec.PodGroupTemplateRef != nil && pg.Spec.PodGroupTemplateRef.WorkloadName == made.Name
	}, client.InNamespace(made.Namespace))
}

// groupsForClass returns requests for the PodGroups with empty fields that name the PriorityClass
// or no class.
func (w waiting) groupsForClass(ctx context.Context, obj client.Object) []reconcile.Request {
	class, ok := obj.(*schedulingv1.PriorityClass)
	if !ok {
		return nil
	}
	return w.groups(ctx, func(pg *v1alpha1.PodGroup) bool { return isFor(class, &pg.Spec.PodGroupPolicy) })
}

// workloadsForClass returns requests for the Workloads with a template that names the PriorityClass
// or no class.
func (w waiting) workloadsForClass(ctx context.Context, obj client.Object) []reconcile.Request {
	class, ok := obj.(*schedulingv1.PriorityClass)
	if !ok {
		return nil
	}
	var list v1alpha1.WorkloadList
	if err := w.client.List(ctx, &list); err != nil {
		return nil
	}
	return requestsFor(list.Items, func(made *v1alpha1.Workload) bool {
		return slices.ContainsFunc(made.Spec.PodGroupTemplates, func(template v1alpha1.PodGroupTemplate) bool {
			return isOpen(&template.PodGroupPolicy) && isFor(class, &template.PodGroupPolicy)
		})
	})
}

// isOpen reports whether any field that the Resolver fills in is empty.
func isOpen(policy *v1alpha1.PodGroupPolicy) bool {
	return policy.SchedulingPolicy == nil || policy.Priority == nil || policy.PreemptionPolicy == nil
}

// isFor reports whether the priority of a policy may come from the class: the policy names the
// class or no class.
func isFor(class *schedulingv1.PriorityClass, policy *v1alpha1.PodGroupPolicy) bool {
	return ptr.Deref(policy.PriorityClassName, class.Name) == class.Name
}

// requestsFor returns requests for the objects that satisfy matches.
func requestsFor[T any, P interface {
	*T
	client.Object
}](objects []T, matches func(P) bool) []reconcile.Request {
	var out []reconcile.Request
	for i := range objects {
		if obj := P(&objects[i]); matches(obj) {
			out = append(out, requestFor(obj))
		}
	}
	return out
}

func requestFor(obj client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
}
