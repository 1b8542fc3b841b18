package scheduler

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
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
type PrioritySort struct{ hub *Hub }

var _ fwk.QueueSortPlugin = (*PrioritySort)(nil)

// SortFactory makes the queue's order for a profile; register it under [SortName]. A profile can have it that
// does not have [Plugin].
func (h *Hub) SortFactory() frameworkruntime.PluginFactory {
	return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return &PrioritySort{hub: h}, nil
	}
}

// Name returns the plugin's name.
func (*PrioritySort) Name() string { return SortName }

// Less reports whether the first pod comes before the second.
func (s *PrioritySort) Less(first, second fwk.QueuedPodInfo) bool {
	a, b := s.hub.priorityOf(first.GetPodInfo().GetPod()), s.hub.priorityOf(second.GetPodInfo().GetPod())
	if a != b {
		return a > b
	}
	return first.GetTimestamp().Before(second.GetTimestamp())
}
