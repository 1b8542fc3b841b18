package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/admission"
)

// SortName is the name of the queue's order in a scheduler's configuration. It takes PrioritySort's place, in
// all profiles: they share one queue.
const SortName = "ReprievePrioritySort"

// PrioritySort orders the queue as the plugin of that name does, by priority and then by time, except that for
// a member of a PodGroup the group's priority counts (KEP-5710, "Pod Group priorities"), and that workloads whose turn it is in
// their queues keep the order of their turns: each has the seat that it was given with its turn (see [admission.Seat]), and that
// pods for which room is reserved come where their creation puts them. What they came for has been cleared away, so the room is of
// no use to others, and behind thousands that have come since it would stand empty for as long as those take. The queue calls
// it, from any goroutine.
//
// Members that make a running gang whole come before other pods of equal priority.
//
// The queue is a heap, so what counts must not change while a pod is in it. A member is not, until its group's
// priority has been filled in, and that does not change then; a turn begins, and room is reserved, before the pod is in it. Only a
// PodGroup that is deleted, and made again with another priority, may find some of its members in their old places until their
// next turn, and so may a pod that does not come to its turn within ten seconds, or that loses its reservation there: those below
// it in the heap come no later than just after it. The same is true of a pod whose gang
// loses members or becomes whole meanwhile.
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

// seatOf is what counts for an entity of the queue. With upstream's pod group cycle off, which Reprieve's own takes the place of,
// each is a pod.
func (s *PrioritySort) seatOf(entity fwk.QueuedEntityInfo) admission.Seat {
	hub := s.plugins.Hub()
	if pod, ok := entity.(interface{ GetPodInfo() fwk.PodInfo }); ok && hub != nil {
		return hub.seatOf(pod.GetPodInfo().GetPod(), entity.GetTimestamp())
	}
	return admission.Seat{Priority: entity.GetPriority(), Time: entity.GetTimestamp()}
}

// seatOf is the place in the queue of a pod that came there at some time.
func (h *Hub) seatOf(pod *corev1.Pod, came time.Time) admission.Seat {
	if h.board.Used() {
		if seat, ok := h.waits.Seat(h.keyOf(pod)); ok {
			return seat
		}
	}
	switch {
	case h.isHealing(pod):
		came = time.Time{}
	case h.reserved.Has(pod.UID):
		came = pod.CreationTimestamp.Time
	}
	return admission.Seat{Priority: h.priorityOf(pod), Time: came}
}
