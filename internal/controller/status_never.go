package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// setNever sets the condition that shows the effect of the disruption mode Never.
func (s *Status) setNever(pg *v1alpha1.PodGroup, g *gang.Group) {
	v := s.queues.NeverOf(g)
	if v == (gang.Verdict{}) {
		meta.RemoveStatusCondition(&pg.Status.Conditions, v1alpha1.ConditionDisruptionModeNever)
		return
	}
	status := metav1.ConditionFalse
	if v.Reason == v1alpha1.ReasonNeverBounded {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&pg.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionDisruptionModeNever, Status: status, Reason: v.Reason, Message: v.Message, ObservedGeneration: pg.Generation,
	})
}

// neverGroups returns requests for the PodGroups with the disruption mode Never. A PriorityClass
// has changed, and the class of a tree sets the length of their protection.
func (w waiting) neverGroups(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.PodGroupList
	// The error is ignored: reads from the cache fail only for unknown types and namespaces.
	if err := w.client.List(ctx, &list); err != nil {
		return nil
	}
	return requestsFor(list.Items, func(pg *v1alpha1.PodGroup) bool {
		return ptr.Deref(pg.Spec.DisruptionMode, "") == v1alpha1.DisruptionModeNever
	})
}
