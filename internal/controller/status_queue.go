package controller

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Queues says what the queues have to do with a group.
type Queues interface {
	// MinRuntime is how long min-runtimes guard the group, at most, once it runs.
	MinRuntime(g *gang.Group, members *gang.Members) time.Duration
	// Orphaned says why members that run are not in the queue that the group names; the zero Verdict where they
	// are. Before is whether that was said already.
	Orphaned(g *gang.Group, before bool) gang.Verdict
	// QueueLabel is the label by which a pod that has no group names its queue.
	QueueLabel(pod *corev1.Pod) string
	// QueueNamedBy is the queue that a pod names by itself.
	QueueNamedBy(pod *corev1.Pod) string
}

// setQueueStatus brings what depends on queues level: until when the group is protected, and whether its queue has gone.
func (s *Status) setQueueStatus(pg *v1alpha1.PodGroup, g *gang.Group, m *gang.Members) {
	st := &pg.Status
	if g.APIVersion == "" {
		// PodGroups of other APIs have no such field.
		st.ProtectedUntil = protectedUntil(st.StartTime, s.queues.MinRuntime(g, m))
	}
	orphaned := gang.Verdict{}
	if len(m.Assigned) > 0 {
		orphaned = s.queues.Orphaned(g, meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionQueueOrphaned))
	}
	if orphaned == (gang.Verdict{}) {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionQueueOrphaned)
		return
	}
	meta.SetStatusCondition(&st.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionQueueOrphaned, Status: metav1.ConditionTrue, Reason: orphaned.Reason, ObservedGeneration: pg.Generation,
		Message: orphaned.Message + "; the members that run go on, and count for no queue",
	})
}

// protectedUntil is the end of a min-runtime in the API's whole seconds, of which the last one counts.
func protectedUntil(start *metav1.Time, minRuntime time.Duration) *metav1.Time {
	if start == nil || minRuntime <= 0 {
		return nil
	}
	end := start.Truncate(time.Second).Add(minRuntime + time.Second - 1).Truncate(time.Second)
	return &metav1.Time{Time: end}
}
