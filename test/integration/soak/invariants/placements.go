package invariants

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// placement has facts about a pod from the time when it got its node. Users may change labels and
// PodGroups later. The pod must still count for its old queue and group, and must not become better
// protected.
type placement struct {
	// group is the name of the pod's PodGroup, or empty if it had none.
	group types.NamespacedName
	queue string
	// class and priority are from the PodGroup, or from the pod if it had no PodGroup.
	class    string
	priority int32
	// whole is true if the disruption mode of the PodGroup was PodGroup.
	whole bool
	// never is the PriorityClass that bounded the mode Never of the PodGroup, or empty if the mode
	// had no effect.
	never string
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
		p.never = c.neverClassOf(u.group.PodGroup)
		c.placeTree(pod, u.group.PodGroup)
	}
	c.placed[pod.UID] = p
}

// groupOf returns the name of a pod's PodGroup, and whether it has one. For a pod with a node, it
// is the PodGroup that the pod named when it got the node.
func (c *Checker) groupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	if p, ok := c.placed[pod.UID]; ok {
		return p.group, p.group.Name != ""
	}
	name := pod.Labels[v1alpha1.LabelPodGroup]
	return types.NamespacedName{Namespace: pod.Namespace, Name: name}, name != ""
}

// placements returns the placements of a unit. If the unit has a PodGroup, these are the placements
// of all members with a node.
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

// standing returns the lowest priority of a victim: now, or when its pods got their nodes.
func (c *Checker) standing(victim unit) int32 {
	lowest := victim.priority()
	for _, p := range c.placements(victim) {
		lowest = min(lowest, p.priority)
	}
	return lowest
}

// goesWhole reports whether a group must be evicted as a whole. This requires that its disruption
// mode is PodGroup now, and was PodGroup when each member got its node.
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

// clockOf returns the earliest possible start time of a pod. If its PodGroup has an earlier start
// time, it returns that time, even if the PodGroup has been deleted.
func (c *Checker) clockOf(pod *corev1.Pod, at time.Time) time.Time {
	started, ok := scheduledAt(pod)
	if !ok {
		// The pod has not been scheduled. Its min-runtime begins now at the earliest.
		started = at
	}
	if key, ok := c.groupOf(pod); ok {
		if g := c.groups[key]; g != nil && g.since != nil && g.since.Before(started) {
			return *g.since
		}
	}
	return started
}
