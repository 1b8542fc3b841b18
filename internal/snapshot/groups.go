package snapshot

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// group returns a PodGroup in the core's form. It returns nil if the group does not exist, or if
// its pods are preempted one by one with their own priorities.
func (s *Sources) group(key types.NamespacedName) *core.Group {
	g, ok := s.Groups.Group(key)
	if !ok || g.PodPriorities && !g.Whole {
		return nil
	}
	start := s.Groups.StartOf(g)
	var placed []*corev1.Pod
	if g.Priority == nil || start.IsZero() {
		placed = s.Groups.Placed(key)
	}
	priority, since := standingPriority(g, placed), start
	if since.IsZero() {
		// The group is not whole, and its protection must end nonetheless.
		since = lastScheduled(placed)
	}
	degraded := s.Groups.Degraded(g)
	if at := degraded.Since; !at.IsZero() && since.After(at) {
		// A member that was replaced does not restart the clock of a gang that lacks others.
		since = at
	}
	out := &core.Group{
		Namespace: key.Namespace, Name: key.Name, UID: string(g.UID), Priority: priority, Whole: g.Whole,
		Lacks: int32(degraded.Lacks), Stale: degraded.Stale, Start: Nanos(start), Since: Nanos(since), Toleration: s.standingToleration(g, placed, since),
		MinRuntime: s.Profiles.MinRuntimeOfGroup(key),
	}
	t := core.QueueMembership{Queue: s.Queues.QueueOfGroup(g)}
	if !g.Whole && !degraded.Stale {
		t.MinCount = int32(g.MinCount)
	}
	if t != (core.QueueMembership{}) {
		out.Membership = &t
	}
	return out
}

// standingPriority returns the priority for preempting a group: its own or, if unknown, the highest
// of its placed members. A group without known members is never preempted.
func standingPriority(g *gang.Group, placed []*corev1.Pod) int32 {
	switch {
	case g.Priority != nil:
		return *g.Priority
	case len(placed) == 0:
		return math.MaxInt32
	}
	highest := corev1helpers.PodPriority(placed[0])
	for _, pod := range placed[1:] {
		highest = max(highest, corev1helpers.PodPriority(pod))
	}
	return highest
}

// standingToleration returns the toleration of a group's class. If the group has no priority yet,
// it combines the protections of all its placed members. A missing class may never have existed, so
// it does not protect a group without a priority from it.
func (s *Sources) standingToleration(g *gang.Group, placed []*corev1.Pod, since time.Time) *core.Toleration {
	if g.Priority != nil {
		return s.Tolerations.OfGroup(g, *g.Priority, since)
	}
	var all *core.Toleration
	for _, pod := range placed {
		switch t := s.Tolerations.OfPod(pod); {
		case t == nil:
		case all == nil:
			// Tolerations may be shared, so copy it.
			one := *t
			all = &one
		default:
			all.Below, all.Until, all.Lasts = max(all.Below, t.Below), max(all.Until, t.Until), max(all.Lasts, t.Lasts)
			all.ClassNotFound = all.ClassNotFound || t.ClassNotFound
		}
	}
	return all
}

// lastScheduled returns when the last of the pods was scheduled. It is zero if that is unknown, or
// if one of them is being bound: that pod starts a clock that protects all of them.
func lastScheduled(pods []*corev1.Pod) time.Time {
	var last time.Time
	for _, pod := range pods {
		if pod.Spec.NodeName == "" {
			return time.Time{}
		}
		if at := preemptiontoleration.ScheduledAt(pod); at.After(last) {
			last = at
		}
	}
	return last
}
