package invariants

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// checkForgotten finds work that has had room for longer than Bounds.Forgotten, without
// interruption. A short wait is normal, because other work may use the room first.
func (c *Checker) checkForgotten(now time.Time) {
	could := c.couldRun()
	maps.DeleteFunc(c.able, func(what string, _ time.Time) bool { _, still := could[what]; return !still })
	for what, how := range could {
		since, before := c.able[what]
		if !before {
			c.able[what] = now
			continue
		}
		if now.Sub(since) > c.bounds.Forgotten {
			c.violate(WorkForgotten, now, "%s waits since %v, and %s", what, now.Sub(since).Round(time.Second), how)
			// Do not report the work again during the run.
			c.able[what] = now.Add(24 * time.Hour)
		}
	}
}

// couldRun returns the waiting work that has room, by name, with a description of the room. The
// room is either free, or used by pods that the work may certainly preempt.
func (c *Checker) couldRun() map[string]string {
	out := make(map[string]string)
	all := c.free()
	for _, pod := range c.pods {
		if !isWaiting(pod) {
			continue
		}
		free := c.freeFor(pod, all)
		u := c.unitOf(pod)
		need, surplus := 1, false
		if key, ok := c.groupOf(pod); ok {
			if u.group == nil {
				continue
			}
			minCount := minCountOf(u.group.PodGroup)
			if need = minCount - u.group.bound; need > c.waiting(u.group) {
				continue
			}
			// The members of a group with the basic policy are placed one by one.
			need, surplus = max(need, 1), minCount > 0 && need <= 0
			if need > 1 && out["PodGroup "+key.String()] != "" {
				continue
			}
		}
		c.counts.Judged[WorkForgotten]++
		what := "pod " + keyOf(pod).String()
		if need > 1 {
			what = "PodGroup " + keyOf(u.group).String()
		}
		how := c.freeRoomFor(u, need, free)
		if how == "" && !surplus {
			how = c.roomOfOthersFor(u, need, free)
		}
		if how != "" {
			out[what] = how
		}
	}
	return out
}

func (c *Checker) waiting(g *group) int {
	n := 0
	for _, pod := range c.members(g) {
		if isWaiting(pod) {
			n++
		}
	}
	return n
}

// freeRoomFor returns a description of the free room, if it suffices for "need" pods like the pod
// of the unit. Otherwise it returns "".
func (c *Checker) freeRoomFor(u unit, need int, free map[string]int64) string {
	if n := count(free, requested(u.pod, corev1.ResourceCPU)); n >= need && c.withinLimits(u, need) {
		return fmt.Sprintf("there is free room for %d", n)
	}
	return ""
}

// roomOfOthersFor is like freeRoomFor, but counts the room of pods that the unit may preempt as
// free.
func (c *Checker) roomOfOthersFor(u unit, need int, free map[string]int64) string {
	if u.queue() != "" || !u.preempts() {
		return ""
	}
	withVictims := maps.Clone(free)
	for _, pod := range c.pods {
		if _, usable := free[pod.Spec.NodeName]; usable && c.isPrey(u, pod) {
			withVictims[pod.Spec.NodeName] += requested(pod, corev1.ResourceCPU)
		}
	}
	if n := count(withVictims, requested(u.pod, corev1.ResourceCPU)); n >= need {
		return fmt.Sprintf("there is room for %d where lower priorities are", n)
	}
	return ""
}

// withinLimits reports whether the limits of the unit's queue and its ancestors permit "need" more
// pods like the pod of the unit.
func (c *Checker) withinLimits(u unit, need int) bool {
	size := int64(need) * requested(u.pod, corev1.ResourceCPU)
	for _, q := range c.path(u.queue()) {
		if limit, ok := q.Spec.Limit[corev1.ResourceCPU]; ok && c.used(q, corev1.ResourceCPU)+size > limit.MilliValue() {
			return false
		}
	}
	return true
}

// isPrey reports whether a preemptor without a queue may evict the pod alone, without evicting
// other pods. Only pods without a queue and without protection count.
func (c *Checker) isPrey(by unit, pod *corev1.Pod) bool {
	victim := c.unitOf(pod)
	if !isStaying(pod) || victim.queue() != "" || victim.priority() >= by.priority() || victim.group != nil && isWhole(victim.group.PodGroup) {
		return false
	}
	_, tolerates := c.toleratesUntil(victim, by.priority(), time.Time{})
	return !tolerates
}

func count(free map[string]int64, size int64) int {
	n := int64(0)
	for _, room := range free {
		n += max(room, 0) / max(size, 1)
	}
	return int(n)
}

// free maps each usable node to its free milli-CPUs.
func (c *Checker) free() map[string]int64 {
	out := make(map[string]int64)
	for name, node := range c.nodes {
		if isUsable(node) {
			out[name] = node.Status.Allocatable.Cpu().MilliValue()
		}
	}
	for _, pod := range c.pods {
		if _, ok := out[pod.Spec.NodeName]; ok && hasNode(pod) {
			out[pod.Spec.NodeName] -= requested(pod, corev1.ResourceCPU)
		}
	}
	return out
}

// freeFor returns the elements of free whose nodes the pod's node selector selects.
func (c *Checker) freeFor(pod *corev1.Pod, free map[string]int64) map[string]int64 {
	out := make(map[string]int64, len(free))
	for name, room := range free {
		if isFor(c.nodes[name], pod) {
			out[name] = room
		}
	}
	return out
}

// isFor reports whether the node selector of a pod selects the node.
func isFor(node *corev1.Node, pod *corev1.Pod) bool {
	return labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels))
}

func isUsable(node *corev1.Node) bool {
	if node.Spec.Unschedulable || node.DeletionTimestamp != nil {
		return false
	}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Effect != corev1.TaintEffectPreferNoSchedule {
			return false
		}
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
