package controller

import (
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// newDeriveController returns the controller of derived groups.
func newDeriveController(in Inputs) (controller.Controller, error) {
	sources := append(in.memberSources(handler.EnqueueRequestsFromMapFunc(in.groupOfPod)),
		source.Kind(in.Cache, &v1alpha1.PodGroup{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.PodGroup]{}),
		in.DerivedChanged,
	)
	return newResolveController("podgroup-derive",
		NewDerive(in.Client, in.Derived, in.Members, in.Queues.QueueNamedBy, in.Informers.Scheduling().V1().PriorityClasses().Lister(),
			in.Gangs, in.Recorder, in.SayOfPod, in.HeldPods, in.Clock),
		sources...)
}
