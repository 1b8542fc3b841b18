package controller

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Inputs are what the controllers work with.
type Inputs struct {
	// Client reads the types of reprieve.dev from Cache and writes to the API server.
	Client client.Client
	// Cache holds PodGroups and Workloads. It must be running.
	Cache cache.Cache
	// Informers are the scheduler's; Pods and PriorityClasses are read from there.
	Informers informers.SharedInformerFactory
	// Members lists the Pods of a group.
	Members Members
	// Registry says what the scheduler thinks of a gang; Changed is told when that changes.
	Registry *gang.Registry
	Changed  *Trigger
	// Recorder writes events.
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
}

// Run runs all controllers until ctx is done, or one of them fails.
func Run(ctx context.Context, in Inputs) error {
	status, err := newStatusController(in)
	if err != nil {
		return err
	}
	resolve, err := newResolveController(in)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return status.Start(ctx) })
	g.Go(func() error { return resolve.Start(ctx) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("run controllers: %w", err)
	}
	return nil
}

func newStatusController(in Inputs) (controller.Controller, error) {
	c, err := controller.NewUnmanaged("podgroup-status", controller.Options{
		Reconciler:              NewStatus(in.Client, in.Members, in.Registry, in.Recorder, in.Clock),
		MaxConcurrentReconciles: 1,
		// One process holds one leader; tests run several.
		SkipNameValidation: ptr.To(true),
	})
	if err != nil {
		return nil, fmt.Errorf("make controller podgroup-status: %w", err)
	}
	toGroup := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		if pod, ok := obj.(*corev1.Pod); ok {
			if key, ok := gang.GroupOf(pod); ok {
				return []reconcile.Request{{NamespacedName: key}}
			}
		}
		return nil
	})
	for _, src := range []source.Source{
		source.Kind(in.Cache, &v1alpha1.PodGroup{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.PodGroup]{}),
		&source.Informer{Informer: in.Informers.Core().V1().Pods().Informer(), Handler: toGroup},
		in.Changed,
	} {
		if err := c.Watch(src); err != nil {
			return nil, fmt.Errorf("watch for podgroup-status: %w", err)
		}
	}
	return c, nil
}

func newResolveController(in Inputs) (controller.Controller, error) {
	classes := in.Informers.Scheduling().V1().PriorityClasses()
	c, err := controller.NewUnmanaged("podgroup-resolve", controller.Options{
		Reconciler:         NewResolver(in.Client, classes.Lister(), in.Recorder),
		SkipNameValidation: ptr.To(true),
	})
	if err != nil {
		return nil, fmt.Errorf("make controller podgroup-resolve: %w", err)
	}
	unresolved := func(ctx context.Context, matches func(*v1alpha1.PodGroup) bool, opts ...client.ListOption) []reconcile.Request {
		var list v1alpha1.PodGroupList
		if err := in.Client.List(ctx, &list, opts...); err != nil {
			return nil
		}
		var out []reconcile.Request
		for i := range list.Items {
			if pg := &list.Items[i]; pg.Spec.Priority == nil && matches(pg) {
				out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}})
			}
		}
		return out
	}
	onClass := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		class, ok := obj.(*schedulingv1.PriorityClass)
		if !ok {
			return nil
		}
		return unresolved(ctx, func(pg *v1alpha1.PodGroup) bool {
			return ptr.Deref(pg.Spec.PriorityClassName, class.Name) == class.Name
		})
	})
	onWorkload := handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, w *v1alpha1.Workload) []reconcile.Request {
		return unresolved(ctx, func(pg *v1alpha1.PodGroup) bool {
			return pg.Spec.PodGroupTemplateRef != nil && pg.Spec.PodGroupTemplateRef.WorkloadName == w.Name
		}, client.InNamespace(w.Namespace))
	})
	for _, src := range []source.Source{
		source.Kind(in.Cache, &v1alpha1.PodGroup{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.PodGroup]{}),
		source.Kind(in.Cache, &v1alpha1.Workload{}, onWorkload),
		&source.Informer{Informer: classes.Informer(), Handler: onClass},
	} {
		if err := c.Watch(src); err != nil {
			return nil, fmt.Errorf("watch for podgroup-resolve: %w", err)
		}
	}
	return c, nil
}
