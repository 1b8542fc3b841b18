package invariants

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// preemptor is the kind and the name of a preemptor, as conditions mention it.
type preemptor struct {
	kind v1alpha1.PreemptorKind
	name types.NamespacedName
}

// minimumPriority and tolerationSeconds are the annotations of a PriorityClass that define a
// toleration.
const (
	minimumPriority   = "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority"
	tolerationSeconds = "preemption-toleration.scheduling.x-k8s.io/toleration-seconds"
)

// end records that a preemptor needs no more room from the time at on, unless an earlier time is
// already recorded.
func (c *Checker) end(at time.Time, p preemptor) {
	if _, ok := c.ended[p]; !ok {
		c.ended[p] = c.time.at(at)
	}
}

// judgeMark checks a pod that has just been marked as a victim by a condition.
func (c *Checker) judgeMark(at time.Time, pod *corev1.Pod, message string) {
	victim := c.unitOf(pod)
	if key, ok := c.groupOf(pod); ok && c.groups[key] != nil && c.groups[key].listed[pod.UID] {
		// The pod is in an intent, which judgeIntent has checked. The eviction may continue, even
		// if its preemptor or the PodGroup no longer exists.
		return
	}
	if victim.group != nil && c.goesWhole(victim.group) {
		if again := victim.group.again; again != nil && c.time.at(at)-*again <= c.bounds.Reason {
			// The PodGroup is new: it did not exist when the eviction of the pod began.
			return
		}
		c.violate(GroupPartlyEvicted, at, "pod %s is told that it goes, and PodGroup %s has no record of that", keyOf(pod), keyOf(victim.group))
		return
	}
	found := sentence().FindStringSubmatch(message)
	if found == nil {
		c.violate(VictimWithoutCause, at, "pod %s goes, and its condition names no preemptor: %q", keyOf(pod), message)
		return
	}
	by := preemptor{kind: v1alpha1.PreemptorKind(found[1]), name: types.NamespacedName{Namespace: found[2], Name: found[3]}}
	started := c.clockOf(pod, at)
	if g := victim.group; g != nil && minCountOf(g.PodGroup) > 0 {
		// All members of a gang share one start time, even members that were created later.
		started = c.startOf(g)
	}
	c.judge(at, by, victim, "pod "+keyOf(pod).String(), started, false)
}

// judgeIntent checks an intent to evict a whole group.
func (c *Checker) judgeIntent(at time.Time, g *group, intent *v1alpha1.PodGroupDisruption) {
	by := preemptor{kind: intent.Preemptor.Kind, name: types.NamespacedName{Namespace: intent.Preemptor.Namespace, Name: intent.Preemptor.Name}}
	what := "PodGroup " + keyOf(g).String()
	if g.Status.StartTime != nil {
		what += " (its status says it is whole since " + g.Status.StartTime.UTC().Format(time.TimeOnly) + ")"
	}
	// A stale gang may also be evicted for work of equal priority.
	stale := intent.Rule == "StaleGang" && g.bound < minCountOf(g.PodGroup)
	c.judge(at, by, unit{group: g}, what, c.startOf(g), stale)
}

// sentence matches the start of the message in a victim's condition. Its groups are the kind, the
// namespace and the name of the preemptor.
func sentence() *regexp.Regexp {
	return regexp.MustCompile(`^preempted by (Pod|PodGroup) ([^/ ]+)/([^ ]+) \(priority`)
}

// judge checks whether a preemptor may evict a victim. started is the start time of the victim. If
// stale is true, the preemptor may have the same priority as the victim.
func (c *Checker) judge(at time.Time, by preemptor, victim unit, what string, started time.Time, stale bool) {
	c.counts.Judged[VictimWithoutCause]++
	if ended, ok := c.ended[by]; ok && c.time.at(at)-ended > c.bounds.Reason {
		c.violate(VictimWithoutCause, at, "%s goes for %s %s, which has had no use for it since %v", what, by.kind, by.name, (c.time.at(at) - ended).Round(time.Millisecond))
		return
	}
	taker, ok := c.find(by)
	if !ok {
		if _, was := c.ended[by]; !was {
			c.violate(VictimWithoutCause, at, "%s goes for %s %s, which there never was", what, by.kind, by.name)
		}
		// Accept the mark: the preemptor has existed, but its priority and its queue are not known
		// any more.
		return
	}
	from, to := victim.queue(), taker.queue()
	reclaim := from != "" && to != "" && from != to
	if reclaim {
		c.counts.Reclaims++
	} else if taker.priority() < c.standing(victim) || taker.priority() == c.standing(victim) && !stale {
		c.violate(VictimWithoutCause, at, "%s of priority %d goes for %s %s of priority %d", what, c.standing(victim), by.kind, by.name, taker.priority())
	}
	c.judgeProtections(at, by, taker, victim, reclaim, what, started)
}

func (c *Checker) judgeProtections(at time.Time, by preemptor, taker, victim unit, reclaim bool, what string, started time.Time) {
	c.counts.Judged[ProtectionBroken]++
	if !taker.preempts() {
		c.violate(ProtectionBroken, at, "%s goes for %s %s, which is to preempt nothing", what, by.kind, by.name)
	}
	if until, ok := c.toleratesUntil(victim, taker.priority(), started); ok && (until.IsZero() || at.Before(until.Add(-c.bounds.Rounding))) {
		c.violate(ProtectionBroken, at, "%s goes for %s %s, and its class %s tolerates priority %d until %v", what, by.kind, by.name, victim.class(), taker.priority(), until)
	}
	if until, ok := c.neverUntil(victim, taker.priority()); ok && at.Before(until.Add(-c.bounds.Rounding)) {
		c.violate(ProtectionBroken, at, "%s goes for %s %s, and its disruption mode Never protects it from priority %d until %v", what, by.kind, by.name, taker.priority(), until)
	}
	if victim.group != nil && !c.goesWhole(victim.group) {
		// Surplus members have no min-runtime. Which members are surplus depends on the exact time
		// of the decision. So do not check the min-runtime of members that are evicted one by one.
		return
	}
	if least := c.minRuntime(victim.queue(), reclaim); at.Before(started.Add(least - c.bounds.Rounding)) {
		c.violate(ProtectionBroken, at, "%s goes for %s %s after %v, and queue %s guarantees %v%s", what, by.kind, by.name, at.Sub(started).Round(time.Millisecond), victim.queue(), least, c.describe(victim))
	}
}

// describe lists the pods of a victim: when each got its node and when it was deleted, and the
// terms in its seal.
func (c *Checker) describe(victim unit) string {
	pods := []*corev1.Pod{victim.pod}
	if victim.group != nil {
		pods = c.members(victim.group)
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	var text strings.Builder
	for _, pod := range pods {
		at, _ := scheduledAt(pod)
		fmt.Fprintf(&text, "; %s: created %s, scheduled %s, phase %s", pod.Name, pod.CreationTimestamp.UTC().Format(time.TimeOnly), at.UTC().Format(time.TimeOnly), pod.Status.Phase)
		if pod.DeletionTimestamp != nil {
			fmt.Fprintf(&text, ", deleted until %s", pod.DeletionTimestamp.UTC().Format(time.TimeOnly))
		}
		fmt.Fprintf(&text, ", placed as %s", pod.Annotations[v1alpha1.AnnotationPlacedAs])
	}
	return text.String()
}

// find returns the current state of a preemptor. It returns false if the preemptor does not exist.
func (c *Checker) find(by preemptor) (unit, bool) {
	if by.kind == v1alpha1.PreemptorPodGroup {
		g := c.groups[by.name]
		return unit{group: g}, g != nil && !g.gone
	}
	pod := c.pods[by.name]
	if pod == nil {
		return unit{}, false
	}
	return c.unitOf(pod), true
}

// toleratesUntil reports whether tolerations protect a victim from preemptors with the given
// priority, and returns the end of the protection. The zero time means that the protection has no
// end. The current class must protect the victim, and so must each class from the time when its
// pods got their nodes.
func (c *Checker) toleratesUntil(victim unit, priority int32, started time.Time) (time.Time, bool) {
	until, tolerates := c.classTolerates(victim.class(), priority, started)
	for _, p := range c.placements(victim) {
		at, also := c.classTolerates(p.class, priority, started)
		if tolerates = tolerates && also; until.IsZero() || !at.IsZero() && at.Before(until) {
			until = at
		}
	}
	return until, tolerates
}

// classTolerates is like toleratesUntil for a single class.
func (c *Checker) classTolerates(name string, priority int32, started time.Time) (time.Time, bool) {
	class := c.classes[name]
	if class == nil {
		return time.Time{}, false
	}
	seconds, least := tolerationOf(class)
	switch {
	case seconds == 0 || int64(priority) >= least:
		return time.Time{}, false
	case seconds < 0:
		return time.Time{}, true
	default:
		return started.Add(time.Duration(seconds) * time.Second), true
	}
}

// tolerationOf returns the toleration of a class: its duration in seconds, and the least priority
// that may still preempt. A negative duration has no end. A duration of 0 means that there is no
// toleration.
func tolerationOf(class *schedulingv1.PriorityClass) (seconds, least int64) {
	seconds, err := strconv.ParseInt(class.Annotations[tolerationSeconds], 10, 64)
	if err != nil {
		return 0, 0
	}
	least, err = strconv.ParseInt(class.Annotations[minimumPriority], 10, 64)
	if err != nil {
		least = int64(class.Value) + 1
	}
	return seconds, least
}

// minRuntime returns the min-runtime of a leaf queue: the setting of the queue, or of its nearest
// ancestor with a setting. reclaim selects the min-runtime for reclaim.
func (c *Checker) minRuntime(queue string, reclaim bool) time.Duration {
	for _, q := range c.path(queue) {
		setting := q.Spec.PreemptMinRuntime
		if reclaim {
			setting = q.Spec.ReclaimMinRuntime
		}
		if setting != nil {
			return setting.Duration
		}
	}
	return 0
}

// nth sorts the times and returns the n-th time. If there are fewer, it returns the last time.
func nth(times []time.Time, n int) time.Time {
	if len(times) == 0 {
		return time.Time{}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times[max(0, min(n, len(times))-1)]
}
