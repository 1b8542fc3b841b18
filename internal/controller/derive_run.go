package controller

import (
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/composite"
)

// newDeriveController returns the controller of derived groups.
func newDeriveController(in Inputs) (controller.Controller, error) {
	sources := append(in.memberSources(handler.EnqueueRequestsFromMapFunc(in.groupOfPod)),
		source.Kind(in.Cache, &v1alpha1.PodGroup{}, handler.TypedEnqueueRequestsFromMapFunc(withParent)),
		in.DerivedChanged,
	)
	c := in.Client
	if in.Composites {
		c = composite.NewEditor(c)
		sources = append(sources,
			source.Kind(in.Cache, &v1alpha1.CompositePodGroup{}, handler.TypedEnqueueRequestsFromMapFunc(treeRequests)),
			source.Kind(in.Cache, &v1alpha1.CompositePodGroup{}, handler.TypedEnqueueRequestsFromMapFunc(in.partRequests),
				predicate.TypedGenerationChangedPredicate[*v1alpha1.CompositePodGroup]{}),
		)
	}
	derive := NewDerive(c, in.Derived, in.Members, in.Queues.QueueNamedBy, in.Informers.Scheduling().V1().PriorityClasses().Lister(),
		in.Gangs, in.Recorder, in.SayOfPod, in.HeldPods, in.Clock)
	if !in.Composites {
		derive.WithoutTrees("the cluster did not serve CompositePodGroups of reprieve.dev when the scheduler started, or the scheduler may not read them")
	}
	return newResolveController("podgroup-derive", derive, sources...)
}
