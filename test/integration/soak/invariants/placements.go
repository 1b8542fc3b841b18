package invariants

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// placement has the facts about a pod when it got its node. A user may change labels and PodGroups
// later. The pod counts for its queue and group as before, and is not better protected.
type placement struct {
	// group is the pod's PodGroup; empty for none.
	group types.NamespacedName
	queue string
	// class and priority belong to the group, or to a pod without a group.
	class    string
	priority int32
	// whole is true if the group was disrupted as a whole.
	whole bool
}

// place records the facts about a pod that has just got its node.
func (c *Checker) place(pod *corev1.Pod) {
	u := c.unitOf(pod)
	p := placement{queue: u.queue(), class: u.class(), priority: u.priority()}
	if key, ok := c.groupOf(pod); ok {
		p.group = key
	}
	if u.group != nil {
		p.whole = isWhole(u.group.PodGroup)
	}
	c.placed[pod.UID] = p
}

// groupOf returns the PodGroup of a pod, and whether it has one. A pod with a node belongs to the
// PodGroup that it named when it got the node.
func (c *Checker) groupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	if p, ok := c.placed[pod.UID]; ok {
		return p.group, p.group.Name != ""
	}
	name := pod.Labels[v1alpha1.LabelPodGroup]
	return types.NamespacedName{Namespace: pod.Namespace, Name: name}, name != ""
}

// placements returns the placements of a unit: of its pod, or of the members of its group that have
// a node.
func (c *Checker) placements(u unit) []placement {
	pods := []*corev1.Pod{u.pod}
	if u.group != nil {
		pods = c.members(u.group)
	}
	var out []placement
	for _, pod := range pods {
		if p, ok := c.placed[pod.UID]; ok && hasNode(pod) {
			out = append(out, p)
		}
	}
	return out
}

// standing returns the priority of a victim: the lowest that it had and has.
func (c *Checker) standing(victim unit) int32 {
	lowest := victim.priority()
	for _, p := range c.placements(victim) {
		lowest = min(lowest, p.priority)
	}
	return lowest
}

// goesWhole reports whether a group can only be evicted as a whole. A group that was evicted pod by
// pod when its members got their nodes still is.
func (c *Checker) goesWhole(g *group) bool {
	if !isWhole(g.PodGroup) {
		return false
	}
	for _, p := range c.placements(unit{group: g}) {
		if !p.whole {
			return false
		}
	}
	return true
}

// clockOf returns the earliest possible start of the clock of a pod without a group. If its group
// was deleted, the clock of the group continues.
func (c *Checker) clockOf(pod *corev1.Pod, at time.Time) time.Time {
	started, ok := scheduledAt(pod)
	if !ok {
		// The pod's clock has not begun, which protects the pod.
		started = at
	}
	if key, ok := c.groupOf(pod); ok {
		if g := c.groups[key]; g != nil && g.since != nil && g.since.Before(started) {
			return *g.since
		}
	}
	return started
}
