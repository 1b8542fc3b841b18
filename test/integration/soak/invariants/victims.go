package invariants

import (
	"regexp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// preemptor names one, as conditions do.
type preemptor struct {
	kind v1alpha1.PreemptorKind
	name types.NamespacedName
}

// The annotations of preemption tolerations.
const (
	minimumPriority   = "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority"
	tolerationSeconds = "preemption-toleration.scheduling.x-k8s.io/toleration-seconds"
)

// end says that a preemptor has no more use for room, unless it had none before.
func (c *Checker) end(at time.Time, p preemptor) {
	if _, ok := c.ended[p]; !ok {
		c.ended[p] = c.time.at(at)
	}
}

// judgeMark is for a pod that is told that it goes.
func (c *Checker) judgeMark(at time.Time, pod *corev1.Pod, message string) {
	victim := c.unitOf(pod)
	if victim.group != nil && (isWhole(victim.group.PodGroup) || victim.group.listed[pod.UID]) {
		if !victim.group.listed[pod.UID] {
			c.violate(GroupPartlyEvicted, at, "pod %s is told that it goes, and PodGroup %s has no record of that", keyOf(pod), keyOf(victim.group))
		}
		// Why it goes has been judged when that was written down. What has begun goes on, whatever becomes of the reason.
		return
	}
	found := sentence().FindStringSubmatch(message)
	if found == nil {
		c.violate(VictimWithoutCause, at, "pod %s goes, and its condition names no preemptor: %q", keyOf(pod), message)
		return
	}
	by := preemptor{kind: v1alpha1.PreemptorKind(found[1]), name: types.NamespacedName{Namespace: found[2], Name: found[3]}}
	started, ok := scheduledAt(pod)
	if !ok {
		// Its clock has not begun, which protects.
		started = at
	}
	if g := victim.group; g != nil && minCountOf(g.PodGroup) > 0 {
		// A gang has one clock, also for a member that has come later.
		started = c.startOf(g)
	}
	c.judge(at, by, victim, "pod "+keyOf(pod).String(), started, false)
}

// judgeIntent is for a group that is told that it goes.
func (c *Checker) judgeIntent(at time.Time, g *group, intent *v1alpha1.PodGroupDisruption) {
	by := preemptor{kind: intent.Preemptor.Kind, name: types.NamespacedName{Namespace: intent.Preemptor.Namespace, Name: intent.Preemptor.Name}}
	what := "PodGroup " + keyOf(g).String()
	if g.Status.StartTime != nil {
		what += " (its status says it is whole since " + g.Status.StartTime.UTC().Format(time.TimeOnly) + ")"
	}
	// Work of equal priority may take a gang that has lacked members for too long.
	stale := intent.Rule == "StaleGang" && g.bound < minCountOf(g.PodGroup)
	c.judge(at, by, unit{group: g}, what, c.startOf(g), stale)
}

// sentence is how conditions begin.
func sentence() *regexp.Regexp {
	return regexp.MustCompile(`^preempted by (Pod|PodGroup) ([^/ ]+)/([^ ]+) \(priority`)
}

// judge is for a victim whose clock began at some time. A stale one may be taken by work of equal priority.
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
		// It has just gone, and how it stood is not known any more.
		return
	}
	from, to := victim.queue(), taker.queue()
	reclaim := from != "" && to != "" && from != to
	if reclaim {
		c.counts.Reclaims++
	} else if taker.priority() < victim.priority() || taker.priority() == victim.priority() && !stale {
		c.violate(VictimWithoutCause, at, "%s of priority %d goes for %s %s of priority %d", what, victim.priority(), by.kind, by.name, taker.priority())
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
	if victim.group != nil && !isWhole(victim.group.PodGroup) {
		// What it has past minCount is not protected, and which of its pods those are is a matter of the moment.
		return
	}
	if least := c.minRuntime(victim.queue(), reclaim); at.Before(started.Add(least - c.bounds.Rounding)) {
		c.violate(ProtectionBroken, at, "%s goes for %s %s after %v, and queue %s guarantees %v", what, by.kind, by.name, at.Sub(started).Round(time.Millisecond), victim.queue(), least)
	}
}

// find is a preemptor as it stands now.
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

// toleratesUntil is until when a victim is protected from a priority: the zero time for good. It is false where it never was.
func (c *Checker) toleratesUntil(victim unit, priority int32, started time.Time) (time.Time, bool) {
	class := c.classes[victim.class()]
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

// tolerationOf reads a class: for how many seconds, and from what priority on not.
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

// minRuntime is that of a leaf queue: its own setting, or the next one above.
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

// nth is the n-th of some times, or the last of fewer.
func nth(times []time.Time, n int) time.Time {
	if len(times) == 0 {
		return time.Time{}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times[max(0, min(n, len(times))-1)]
}
