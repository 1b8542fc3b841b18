package controller

import (
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// newDeriveController makes the controller of groups that are derived.
func newDeriveController(in Inputs) (controller.Controller, error) {
	return newResolveController("podgroup-derive",
		NewDerive(in.Client, in.Derived, in.Members, in.Queues.QueueNamedBy, in.Informers.Scheduling().V1().PriorityClasses().Lister(),
			in.Registry, in.Recorder, in.SayOfPod, in.Clock),
		source.Kind(in.Cache, &v1alpha1.PodGroup{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.PodGroup]{}),
		&source.Informer{Informer: in.Informers.Core().V1().Pods().Informer(), Handler: handler.EnqueueRequestsFromMapFunc(in.groupOfPod)},
		in.DerivedChanged,
	)
}
