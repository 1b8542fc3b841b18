package snapshot

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// group converts a PodGroup to the form of the core. It returns nil if the group does not exist, or
// if its pods are preempted one by one with the priorities of the pods.
func (s *Sources) group(key types.NamespacedName) *core.Group {
	g, ok := s.Groups.Group(key)
	if !ok || g.PodPriorities && !g.Whole {
		return nil
	}
	of := s.workloadOf(g)
	run := s.Groups.RunOf(of)
	// Ignore run.Sealed in a tree, because it covers the members of all groups. Members of another
	// group that are evicted one by one must not split this group.
	run.Sealed.Split = run.Sealed.Split && of == g
	whole := g.Whole && !run.Sealed.Split
	if g.PodPriorities && !whole {
		return nil
	}
	start := run.Start
	var placed []*corev1.Pod
	if g.Priority == nil || start.IsZero() {
		placed = s.Groups.Placed(key)
	}
	priority, since := standingPriority(g, placed), start
	if run.Sealed.Known && g.Priority != nil {
		priority = min(priority, run.Sealed.Priority)
	}
	if since.IsZero() {
		// The group is not whole, so its run has no start. Without a start, the protection would
		// have no end, so let it begin when the last member was scheduled.
		since = lastScheduled(placed)
	}
	since = run.Guaranteed(since)
	degraded := s.degraded(g, of)
	if at := degraded.Since; !at.IsZero() && since.After(at) {
		// The gang has lost a member before, and the replacement was scheduled last. A replacement
		// must not restart the protection.
		since = at
	}
	queue, counts := s.queueOfGroup(g, &run.Sealed), priority
	if !degraded.Stale {
		// A stale gang counts with its scheduling priority. If its priority as a victim were
		// raised, two stale gangs could wait for each other, because neither could preempt the
		// other.
		counts = s.Groups.VictimPriority(g, priority, queue)
	}
	out := &core.Group{
		Namespace: key.Namespace, Name: key.Name, UID: string(g.UID), Priority: counts, RaisedBy: int64(counts) - int64(priority), Whole: whole,
		Lacks: int32(degraded.Lacks), Stale: degraded.Stale, Start: Nanos(start), Since: Nanos(since), Toleration: s.groupToleration(g, &run, placed, since, whole),
		MinRuntime: s.Profiles.MinRuntimeOfGroup(key), Stops: core.Stops{Count: g.Stops, Last: Nanos(g.StoppedAt)},
	}
	out.Workload = workloadUID(g, of)
	t := core.QueueMembership{Queue: queue}
	if !whole && !degraded.Stale {
		t.MinCount = int32(sealedMinCount(g, &run.Sealed))
	}
	if t != (core.QueueMembership{}) {
		out.Membership = &t
	}
	return out
}

// groupToleration returns the toleration of a group: by the PriorityClasses that its members were
// placed with, or by the disruption mode Never. placed is the same as in standingPriority.
func (s *Sources) groupToleration(g *gang.Group, run *engine.Run, placed []*corev1.Pod, since time.Time, whole bool) *core.Toleration {
	out := s.sealedToleration(&run.Sealed, g, s.standingToleration(g, placed, since), since)
	if never, ok := s.Groups.NeverGroup(g.Key); ok && !whole {
		out = longer(out, s.never(never, never, since))
	}
	return out
}

// workloadOf returns the group that the members of a group are scheduled with: the group itself, or
// the group of its tree. The clock of a tree also applies to each group in the tree.
func (s *Sources) workloadOf(g *gang.Group) *gang.Group {
	if w, ok := s.Groups.WorkloadOf(g.Key); ok && w.Key != g.Key {
		return w
	}
	return g
}

// workloadUID returns the UID of the workload that a group is a part of. It is "" if the group
// itself is a workload, or if an ancestor of the group is missing.
func workloadUID(g, of *gang.Group) string {
	if of == g || of.Flaw.Reason == v1alpha1.ReasonParentNotFound {
		return ""
	}
	return string(of.UID)
}

// degraded returns the members that a gang lacks. It is zero for a group in a tree, because only
// the whole workload can be degraded.
func (s *Sources) degraded(g, of *gang.Group) Degraded {
	if of != g {
		return Degraded{}
	}
	return s.Groups.Degraded(g)
}

// standingPriority returns the priority of a group as a potential victim. It is the priority of the
// group or, if that is unknown, the highest priority of its placed members. If neither is known,
// the result is the maximum, so that the group is never preempted.
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

// standingToleration returns the toleration of the class of a group. If the group has no priority
// yet, the result combines the tolerations of all its placed members. In that case, a missing class
// gives the group no protection, because the class may never have existed.
func (s *Sources) standingToleration(g *gang.Group, placed []*corev1.Pod, since time.Time) *core.Toleration {
	if g.Priority != nil {
		return s.Tolerations.OfGroup(g, *g.Priority, since)
	}
	var all *core.Toleration
	for _, pod := range placed {
		switch t := s.Tolerations.OfPod(pod); {
		case t == nil:
		case all == nil:
			// Several pods may share a toleration, so change a copy.
			one := *t
			all = &one
		default:
			all.Below, all.Until, all.Lasts = max(all.Below, t.Below), max(all.Until, t.Until), max(all.Lasts, t.Lasts)
			all.ClassNotFound = all.ClassNotFound || t.ClassNotFound
		}
	}
	return all
}

// lastScheduled returns the time when the last of the pods was scheduled; zero if it is unknown. It
// is also zero while any of the pods is being bound, because the protection of all pods begins with
// the last one.
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

// queueOfGroup returns the queue of the running members of a group. The members stay in the queue
// that their seals record, even if their PodGroup now names another queue; see [gang.SealOf].
func (s *Sources) queueOfGroup(g *gang.Group, sealed *engine.Sealed) string {
	now := s.Queues.QueueOfGroup(g)
	if sealed.Queue == "" || sealed.Queue == now {
		return now
	}
	for _, pod := range s.Groups.Placed(g.Key) {
		if one, ok := gang.SealOf(pod); ok && one.Queue == sealed.Queue {
			return s.Queues.QueueOf(pod)
		}
	}
	return now
}

// sealedToleration returns the toleration of a group whose members may have been placed with other
// classes than the present one. The result gives only the protection that all these classes have in
// common.
func (s *Sources) sealedToleration(sealed *engine.Sealed, g *gang.Group, now *core.Toleration, since time.Time) *core.Toleration {
	if now == nil || !sealed.Known || g.Priority == nil || sealed.Class == g.PriorityClassName && !sealed.Mixed {
		return now
	}
	if !sealed.Mixed {
		return weaker(now, s.Tolerations.OfClass(sealed.Class, since))
	}
	classes := map[string]bool{g.PriorityClassName: true}
	for _, pod := range s.Groups.Placed(g.Key) {
		if one, ok := gang.SealOf(pod); ok && !classes[one.Class] {
			classes[one.Class] = true
			now = weaker(now, s.Tolerations.OfClass(one.Class, since))
		}
	}
	return now
}

// sealSingle corrects the facts about a pod whose group no longer exists. Such a pod counts as a
// single pod, but its protection must not be stronger than the protection in its seal. The seal
// records the settings that applied when the pod was placed.
func (s *Sources) sealSingle(rp *core.RunningPod, pod *corev1.Pod) {
	sealed, ok := gang.SealOf(pod)
	if !ok {
		return
	}
	rp.Priority = min(rp.Priority, sealed.Priority)
	since, earlier := preemptiontoleration.ScheduledAt(pod), false
	if at := sealed.Since; at != nil && at.Time.Before(since) {
		since, earlier = at.Time, true
		rp.Since = Nanos(since)
	}
	if rp.Toleration != nil && (earlier || sealed.Class != pod.Spec.PriorityClassName) {
		rp.Toleration = weaker(rp.Toleration, s.Tolerations.OfClass(sealed.Class, since))
	}
}

// weaker returns a toleration that protects only as far as both tolerations do; nil for no
// protection.
func weaker(a, b *core.Toleration) *core.Toleration {
	if a == nil || b == nil {
		return nil
	}
	out := *a
	if endsBefore(b, a) {
		out = *b
	}
	out.Below = min(a.Below, b.Below)
	return &out
}

// endsBefore reports whether toleration a ends before toleration b. A toleration that has not begun
// has a length (Lasts) but no end, except if it lasts forever.
func endsBefore(a, b *core.Toleration) bool {
	switch forever := (*core.Toleration).IsForever; {
	case forever(a) || forever(b):
		return !forever(a)
	case a.Lasts > 0 && b.Lasts > 0:
		return a.Lasts < b.Lasts
	case a.Lasts > 0 || b.Lasts > 0:
		return b.Lasts > 0
	default:
		return a.Until < b.Until
	}
}

// sealedMinCount returns the minCount that applies to running members: the lower of the value in
// their seals and the value of the PodGroup.
func sealedMinCount(g *gang.Group, sealed *engine.Sealed) int {
	needs := g.MinCount
	if g.Tree != nil {
		// Leave out the groups that are evicted as a whole, because the result must count only
		// members that are evicted one by one.
		needs = min(needs, g.Tree.LeastSingle())
	}
	if !sealed.Known {
		return needs
	}
	return min(needs, sealed.MinCount)
}
