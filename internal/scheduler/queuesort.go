package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/admission"
)

// SortName is the name of the queue's order in a scheduler's configuration. The order replaces
// PrioritySort in all profiles, because the profiles share one queue.
const SortName = "ReprievePrioritySort"

// PrioritySort orders the queue by priority and then by time, like the in-tree plugin of that name,
// except:
//
//   - For a member of a PodGroup, the priority of the group counts (KEP-5710, "Pod Group
//     priorities").
//   - Workloads with a turn in their queues keep the order of their turns. The admission package
//     sets that order.
//   - Pods with a reservation are ordered by their creation time. Their victims are gone and others
//     cannot use the room. Behind thousands of newer pods the room would stay empty for long.
//   - Members that complete a running gang come before other pods of equal priority.
//
// The queue calls it, from any goroutine.
//
// The queue is a heap, so the order of a pod must not change while the pod is in it. Members are
// not in the heap before their group's priority is resolved, and that priority does not change
// later. Turns begin, and room is reserved, before the pod is in the heap. Some pods may still keep
// an old place in the heap until their next turn:
//
//   - members of a PodGroup that was deleted and created again with another priority
//   - a pod that does not come to its turn within ten seconds
//   - a pod that loses its reservation in the heap
//   - a pod whose gang loses members or becomes complete meanwhile
//
// If such a pod is in the heap, pods that should come before it may come directly after it.
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

// positionOf returns the sort key of an entity of the queue. Each entity is a pod, because
// upstream's pod group cycle is off: Reprieve replaces it.
func (s *PrioritySort) seatOf(entity fwk.QueuedEntityInfo) admission.Position {
	sched := s.plugins.Scheduler()
	if pod, ok := entity.(interface{ GetPodInfo() fwk.PodInfo }); ok && sched != nil {
		return sched.positionOf(pod.GetPodInfo().GetPod(), entity.GetTimestamp())
	}
	return admission.Position{Priority: entity.GetPriority(), Time: entity.GetTimestamp()}
}

// positionOf returns the sort key of a pod that came to the queue at the given time.
func (h *Scheduler) positionOf(pod *corev1.Pod, came time.Time) admission.Position {
	if h.quotas.Used() {
		if seat, ok := h.turns.Position(h.keyOf(pod)); ok {
			return seat
		}
	}
	switch {
	case h.isHealing(pod):
		came = time.Time{}
	case h.reserved.Has(string(pod.UID)):
		came = pod.CreationTimestamp.Time
	}
	return admission.Position{Priority: h.priorityOf(pod), Time: came}
}
