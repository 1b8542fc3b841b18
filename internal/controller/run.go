package controller

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
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
	// Finisher finishes preemptions of groups that have begun, and ends them when they are over; nil for none.
	// Evicted is told of every group that an eviction has done with.
	Finisher reconcile.Reconciler
	Evicted  *Trigger
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
	others, err := newResolveControllers(in)
	if err != nil {
		return err
	}
	if in.Finisher != nil {
		finish, err := newFinishController(in)
		if err != nil {
			return err
		}
		others = append(others, finish)
	}
	// No profile may have asked for what the controllers read.
	in.Informers.Start(ctx.Done())
	in.Informers.WaitForCacheSync(ctx.Done())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return status.Start(ctx) })
	for _, c := range others {
		g.Go(func() error { return c.Start(ctx) })
	}
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
	for _, src := range []source.Source{
		source.Kind(in.Cache, &v1alpha1.PodGroup{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.PodGroup]{}),
		&source.Informer{Informer: in.Informers.Core().V1().Pods().Informer(), Handler: handler.EnqueueRequestsFromMapFunc(groupOfPod)},
		in.Changed,
	} {
		if err := c.Watch(src); err != nil {
			return nil, fmt.Errorf("watch for podgroup-status: %w", err)
		}
	}
	return c, nil
}
