package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// NewComposites returns the CompositePodGroups of c, and adds a handler for them to c. Call
// NewComposites before c runs.
func NewComposites(ctx context.Context, c cache.Cache, handlers GroupHandlers) (*Groups, error) {
	return newGroups(ctx, c, &v1alpha1.CompositePodGroup{}, gang.FromComposite, handlers)
}

// CompositeResolver fills in the priority of CompositePodGroups from their PriorityClass. If the
// class of a group does not exist, the group's priority stays empty, and the tree of the group is
// not scheduled.
type CompositeResolver struct {
	client     client.Client
	priorities priorities
	gangs      *engine.Gangs
	recorder   events.EventRecorder
}

var _ reconcile.Reconciler = (*CompositeResolver)(nil)

// NewCompositeResolver returns a CompositeResolver that writes with c and finds PriorityClasses in
// classes. If a priority cannot be filled in, the CompositeResolver records the reason in gangs and
// reports it to users with recorder.
func NewCompositeResolver(c client.Client, classes schedulinglisters.PriorityClassLister, gangs *engine.Gangs, recorder events.EventRecorder) *CompositeResolver {
	return &CompositeResolver{client: c, priorities: priorities{classes}, gangs: gangs, recorder: recorder}
}

// Reconcile fills in the priority of one CompositePodGroup.
func (r *CompositeResolver) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	key := gang.KeyOf(gang.TreeKey(req.Namespace, req.Name))
	var cpg v1alpha1.CompositePodGroup
	if err := r.client.Get(ctx, req.NamespacedName, &cpg); err != nil {
		if apierrors.IsNotFound(err) {
			r.gangs.SetUnresolved(key, gang.Verdict{})
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if cpg.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	before := cpg.DeepCopy()
	policy := v1alpha1.PodGroupPolicy{PriorityClassName: cpg.Spec.PriorityClassName, Priority: cpg.Spec.Priority, PreemptionPolicy: cpg.Spec.PreemptionPolicy}
	found, err := r.priorities.fill(&policy)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("fill in CompositePodGroup %s: %w", req, err)
	}
	lacks := gang.Verdict{}
	if !found {
		lacks = gang.Verdict{
			Reason: v1alpha1.ReasonPriorityClassNotFound,
			Message: fmt.Sprintf("CompositePodGroup %s waits for PriorityClass %q, which gives it its priority and does not exist",
				req, ptr.Deref(cpg.Spec.PriorityClassName, "")),
		}
	}
	cpg.Spec.PriorityClassName, cpg.Spec.Priority, cpg.Spec.PreemptionPolicy = policy.PriorityClassName, policy.Priority, policy.PreemptionPolicy
	if before.Spec.Priority == nil && cpg.Spec.Priority != nil || before.Spec.PreemptionPolicy == nil && cpg.Spec.PreemptionPolicy != nil {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.client.Patch(ctx, &cpg, patch); err != nil {
			return retryConflict(fmt.Errorf("fill in CompositePodGroup %s: %w", req, err))
		}
	}
	if r.gangs.SetUnresolved(key, lacks) && lacks != (gang.Verdict{}) {
		// Set the kind, because an event needs the kind of its object, and a client leaves the kind
		// of an object empty.
		before.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("CompositePodGroup"))
		r.recorder.Eventf(before, nil, corev1.EventTypeWarning, lacks.Reason, actionResolving, "%s", lacks.Message)
	}
	return reconcile.Result{}, nil
}

// newCompositeController returns the controller that fills in CompositePodGroups.
func newCompositeController(in Inputs) (controller.Controller, error) {
	classes := in.Informers.Scheduling().V1().PriorityClasses()
	return newResolveController("compositepodgroup-resolve",
		NewCompositeResolver(in.Client, classes.Lister(), in.Gangs, in.Recorder),
		source.Kind(in.Cache, &v1alpha1.CompositePodGroup{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.CompositePodGroup]{},
			predicate.TypedGenerationChangedPredicate[*v1alpha1.CompositePodGroup]{}),
		&source.Informer{Informer: classes.Informer(), Handler: handler.EnqueueRequestsFromMapFunc(waiting{in.Client}.compositesForClass)},
	)
}

// compositesForClass returns requests for the CompositePodGroups whose empty priority may come from
// a PriorityClass: they name this class or no class.
func (w waiting) compositesForClass(ctx context.Context, obj client.Object) []reconcile.Request {
	class, ok := obj.(*schedulingv1.PriorityClass)
	if !ok {
		return nil
	}
	var list v1alpha1.CompositePodGroupList
	// The error is ignored: reads from the cache fail only for unknown types and namespaces.
	if err := w.client.List(ctx, &list); err != nil {
		return nil
	}
	return requestsFor(list.Items, func(c *v1alpha1.CompositePodGroup) bool {
		return c.Spec.Priority == nil && ptr.Deref(c.Spec.PriorityClassName, class.Name) == class.Name
	})
}

// treeRequests returns the request for the tree of a CompositePodGroup.
func treeRequests(_ context.Context, c *v1alpha1.CompositePodGroup) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: gang.TreeKey(c.Namespace, c.Name)}}
}

// partsOf returns requests for the groups of a pod that is in a tree: its PodGroup and each group
// above it. key is the group that the pod is a member of; see [gang.Membership]. For a pod outside
// of a tree, the only request is for key.
func (in *Inputs) partsOf(pod *corev1.Pod, key types.NamespacedName) []reconcile.Request {
	if in.Trees == nil {
		return []reconcile.Request{{NamespacedName: key}}
	}
	named, ok := in.Trees.PodGroupOf(pod)
	if !ok || key != named && !gang.IsTree(key) {
		return []reconcile.Request{{NamespacedName: key}}
	}
	var out []reconcile.Request
	for _, part := range in.Trees.KeysOf(named) {
		out = append(out, reconcile.Request{NamespacedName: part})
	}
	if gang.IsTree(key) {
		// The trees do not list an ancestor that does not exist, so add its key.
		out = append(out, reconcile.Request{NamespacedName: key})
	}
	return out
}
