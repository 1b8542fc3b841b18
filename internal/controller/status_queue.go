package controller

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Queues computes the effects of queues on a group.
type Queues interface {
	// MinRuntime returns the longest min-runtime of the group: the time that it is protected after
	// it starts.
	MinRuntime(g *gang.Group, members *gang.Members) time.Duration
	// Orphaned returns the reason why running members do not count for the queue that the group
	// names; zero if they do count. The argument before is true if the status already reports such
	// a reason.
	Orphaned(g *gang.Group, before bool) gang.Verdict
	// QueueNamedByGroup returns the queue that a group names, or else the default queue of its
	// namespace; "" for neither.
	QueueNamedByGroup(g *gang.Group) string
	// VictimPriority returns the priority of a group as a potential victim. The verdict concerns
	// its preemptionPriorityClassName, and is zero for a group without one.
	VictimPriority(g *gang.Group) (int32, gang.Verdict)
	// NeverOf returns the verdict on the disruption mode Never of a PodGroup; zero for other modes.
	NeverOf(g *gang.Group) gang.Verdict
	// QueueLabel returns the label that names the queue of a pod without a group.
	QueueLabel(pod *corev1.Pod) string
	// QueueNamedBy returns the queue that the pod itself names.
	QueueNamedBy(pod *corev1.Pod) string
}

// setQueueStatus updates the parts of the status that depend on queues. These are the end of the
// group's protection, and the fault that its members do not count for its queue.
func (s *Status) setQueueStatus(pg *v1alpha1.PodGroup, g *gang.Group, m *gang.Members, clock time.Time) {
	st := &pg.Status
	if g.APIVersion == "" {
		// PodGroups of other APIs do not have the field.
		st.ProtectedUntil = nil
		if st.StartTime != nil && !clock.IsZero() {
			st.ProtectedUntil = protectedUntil(&metav1.Time{Time: clock}, s.queues.MinRuntime(g, m))
		}
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
		Message: orphaned.Message,
	})
}

// protectedUntil returns the end of a min-runtime that began at start, rounded up to a whole
// second; nil for none. The API stores whole seconds.
func protectedUntil(start *metav1.Time, minRuntime time.Duration) *metav1.Time {
	if start == nil || minRuntime <= 0 {
		return nil
	}
	end := start.Truncate(time.Second).Add(minRuntime + time.Second - 1).Truncate(time.Second)
	return &metav1.Time{Time: end}
}
