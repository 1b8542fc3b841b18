package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// firstFinishDelay is the delay before the first retry of a preemption that could not be
	// completed.
	firstFinishDelay = 50 * time.Millisecond
	// finishWorkers is the number of groups that are processed concurrently. After a crash, many
	// groups may have interrupted preemptions.
	finishWorkers = 8
)

// newFinishController returns the controller that completes interrupted preemptions of groups.
func newFinishController(in Inputs) (controller.Controller, error) {
	options := optionsFor(in.Finisher, firstFinishDelay)
	options.MaxConcurrentReconciles = finishWorkers
	c, err := controller.NewUnmanaged("podgroup-disruption", options)
	if err != nil {
		return nil, fmt.Errorf("make controller podgroup-disruption: %w", err)
	}
	for _, src := range append(in.groupSources(),
		&source.Informer{Informer: in.Informers.Core().V1().Pods().Informer(), Handler: handler.EnqueueRequestsFromMapFunc(in.groupOfPod)},
		in.Evicted,
	) {
		if err := c.Watch(src); err != nil {
			return nil, fmt.Errorf("watch for podgroup-disruption: %w", err)
		}
	}
	return c, nil
}

// groupOfPod returns requests for the group of a pod, and for the groups above it in a tree.
func (in *Inputs) groupOfPod(_ context.Context, obj client.Object) []reconcile.Request {
	if pod, ok := obj.(*corev1.Pod); ok {
		if key, ok := in.membership().GroupOf(pod); ok {
			return in.partsOf(pod, key)
		}
	}
	return nil
}
