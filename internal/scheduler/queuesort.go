package scheduler

import (
	fwk "k8s.io/kube-scheduler/framework"
)

// SortName is the name of the queue's order in a scheduler's configuration. It takes PrioritySort's place, in
// all profiles: they share one queue.
const SortName = "ReprievePrioritySort"

// PrioritySort orders the queue as the plugin of that name does, by priority and then by time, except that for
// a member of a PodGroup the group's priority counts (KEP-5710, "Pod Group priorities"). The queue calls it,
// from any goroutine.
//
// The queue is a heap, so a priority must not change while a pod is in it. A member is not, until its group's
// priority has been filled in, and that does not change then. Only a PodGroup that is deleted, and made again
// with another priority, may find some of its members in their old places until their next turn.
type PrioritySort struct{ plugins *Plugins }

var _ fwk.QueueSortPlugin = (*PrioritySort)(nil)

// Name returns the plugin's name.
func (*PrioritySort) Name() string { return SortName }

// Less reports whether the first entity of the queue comes before the second.
func (s *PrioritySort) Less(first, second fwk.QueuedEntityInfo) bool {
	a, b := s.priorityOf(first), s.priorityOf(second)
	if a != b {
		return a > b
	}
	return first.GetTimestamp().Before(second.GetTimestamp())
}

// priorityOf is the priority that counts for an entity of the queue. With upstream's pod group cycle off, which Reprieve's
// own takes the place of, each is a pod.
func (s *PrioritySort) priorityOf(entity fwk.QueuedEntityInfo) int32 {
	hub := s.plugins.Hub()
	if pod, ok := entity.(interface{ GetPodInfo() fwk.PodInfo }); ok && hub != nil {
		return hub.priorityOf(pod.GetPodInfo().GetPod())
	}
	return entity.GetPriority()
}
