package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/admission"
)

// SortName is the name of the plugin that orders the queue. It must replace PrioritySort in all
// profiles, because the profiles share one queue.
const SortName = "ReprievePrioritySort"

// PrioritySort orders the queue by priority and then by time, like the in-tree plugin of that name.
// There are four exceptions:
//
//   - For a member of a PodGroup, the priority of the group counts (KEP-5710, "Pod Group
//     priorities").
//   - Workloads that have been admitted from their Queues are in the order of their turns, which
//     internal/admission determines.
//   - Pods with a reservation are ordered by their creation time. Otherwise, the reserved room
//     could stay unused for long, while thousands of newer pods come first.
//   - Members that complete a running gang come before other pods of equal priority.
//
// Any goroutine may call it.
//
// The queue is a heap, so the order of a pod must not change while the pod is in the heap. Normally
// it does not: the priority of the group is resolved, the turn has begun, and the room is reserved
// before the pod enters the heap. The order of these pods may still change in the heap:
//
//   - members of a PodGroup that was deleted and created again with another priority
//   - a pod that is not tried within ten seconds of its turn
//   - a pod that loses its reservation
//   - a pod whose gang loses members or becomes complete
//
// Until such a pod leaves the heap, pods that should come before it may come directly after it.
type PrioritySort struct{ plugins *Plugins }

var _ fwk.QueueSortPlugin = (*PrioritySort)(nil)

// Name returns the plugin's name.
func (*PrioritySort) Name() string { return SortName }

// Less reports whether the first entity of the queue comes before the second.
func (s *PrioritySort) Less(first, second fwk.QueuedEntityInfo) bool {
	a, b := s.seatOf(first), s.seatOf(second)
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.Time.Before(b.Time)
}

// seatOf returns the sort key of an entity of the queue. Each entity is a pod, because Reprieve
// replaces kube-scheduler's cycle for pod groups.
func (s *PrioritySort) seatOf(entity fwk.QueuedEntityInfo) admission.Position {
	sched := s.plugins.Scheduler()
	if pod, ok := entity.(interface{ GetPodInfo() fwk.PodInfo }); ok && sched != nil {
		return sched.positionOf(pod.GetPodInfo().GetPod(), entity.GetTimestamp())
	}
	return admission.Position{Priority: entity.GetPriority(), Time: entity.GetTimestamp()}
}

// positionOf returns the sort key of a pod that entered the queue at the time came.
func (h *Scheduler) positionOf(pod *corev1.Pod, came time.Time) admission.Position {
	if h.quotas.Used() {
		if seat, ok := h.turns.Position(h.index.KeyOf(pod)); ok {
			return seat
		}
	}
	switch {
	case h.lost.isHealing(pod):
		came = time.Time{}
	case h.reserved.Has(string(pod.UID)):
		came = pod.CreationTimestamp.Time
	}
	return admission.Position{Priority: h.index.PriorityOf(pod), Time: came}
}
