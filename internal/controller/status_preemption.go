package controller

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// setPreemptionPriority sets the condition and the status field that show the effect of a group's
// preemptionPriorityClassName.
func (s *Status) setPreemptionPriority(pg *v1alpha1.PodGroup, g *gang.Group) {
	_, v := s.queues.VictimPriority(g)
	if v == (gang.Verdict{}) {
		meta.RemoveStatusCondition(&pg.Status.Conditions, v1alpha1.ConditionPreemptionPriority)
		return
	}
	status := metav1.ConditionFalse
	switch v.Reason {
	case v1alpha1.ReasonPreemptionPriorityCounts, v1alpha1.ReasonLimitedByQueue:
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&pg.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionPreemptionPriority, Status: status, Reason: v.Reason, Message: v.Message, ObservedGeneration: pg.Generation,
	})
}
