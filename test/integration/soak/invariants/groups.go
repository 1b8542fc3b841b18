package invariants

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// group is a PodGroup with its history. The Checker keeps a deleted PodGroup, because its pods may
// be deleted later.
type group struct {
	*v1alpha1.PodGroup

	gone bool
	// bound is the number of members that have a node and are not terminating. whole becomes true
	// when minCount members are bound, and false when no member is bound.
	bound int
	whole bool
	// forming is the working time since which the group has had bound members, but fewer than
	// minCount; nil if the group is in another state. excused is true if the group may stay in this
	// state: for example, a member was deleted.
	forming *time.Duration
	excused bool
	// since is the earliest possible start time of the group: since then, minCount members have had
	// nodes. Terminating members count too. since is kept until all members with a node are
	// terminating, because a replacement of members does not change the start time.
	since *time.Time
	// again is the working time when a PodGroup with this name was created again, while some
	// members had nodes. It is nil if that has not happened.
	again *time.Duration
	// listed has the UIDs of all pods that have been in an intent of the group.
	listed map[types.UID]bool
	// eviction is the eviction in progress, or nil. over is the last intent, which may still be in
	// the status.
	eviction *groupEviction
	over     *v1alpha1.PodGroupDisruption
}

// groupEviction is the eviction of a whole group.
type groupEviction struct {
	intent *v1alpha1.PodGroupDisruption
	// pods maps the UIDs of the pods in the intent to their names.
	pods map[types.UID]types.NamespacedName
	// left has the members with a node that are not in the intent. They must be evicted too.
	left map[types.UID]types.NamespacedName
	// begun is the working time when the first pod was deleted. It is nil before that.
	begun *time.Duration
}

// SeeGroup processes a new state of a PodGroup.
func (c *Checker) SeeGroup(at time.Time, now *v1alpha1.PodGroup) {
	c.counts.States++
	key := keyOf(now)
	g := c.groups[key]
	switch {
	case g == nil || g.UID != now.UID:
		g = c.createAgain(at, g, now)
	case minCountOf(g.PodGroup) < minCountOf(now):
		// Excuse the gang: with the higher minCount, it needs more members, and these may have no
		// room.
		g.excused, g.forming = true, nil
	}
	g.PodGroup, g.gone = now, false
	intent := now.Status.Disruption
	switch {
	case intent == nil:
		// The intent was either canceled or completed. If pods have been deleted, checkEviction
		// continues until all pods are deleted.
		if g.eviction != nil && g.eviction.begun == nil {
			g.eviction = nil
		}
	case g.eviction == nil && g.over != nil && !isAnother(g.over, intent):
	case g.eviction == nil || isAnother(g.eviction.intent, intent):
		c.judgeIntent(at, g, intent)
		c.beginEviction(g, intent)
	case g.eviction.begun == nil:
		g.eviction.take(now.Namespace, intent)
	}
}

// createAgain returns the record of a new PodGroup. before is the record of an earlier PodGroup
// with the same name, or nil. The members of the earlier PodGroup belong to the new one, and the
// start time is kept.
func (c *Checker) createAgain(at time.Time, before *group, now *v1alpha1.PodGroup) *group {
	g := &group{PodGroup: now, listed: make(map[types.UID]bool)}
	c.groups[keyOf(now)] = g
	if before == nil {
		return g
	}
	g.listed = before.listed
	waiting := 0
	for _, pod := range c.members(g) {
		if isStaying(pod) {
			g.bound++
		}
		if isWaiting(pod) {
			waiting++
		}
	}
	if g.bound > 0 {
		// The members may be fewer than the new minCount, and more members may have no room.
		g.since, g.whole, g.excused = before.since, before.whole, true
		since := c.time.at(at)
		g.again = &since
	}
	if waiting > 0 {
		delete(c.ended, preemptor{kind: v1alpha1.PreemptorPodGroup, name: keyOf(now)})
	}
	return g
}

// GroupGone processes the end of a PodGroup's existence. Its pods belong to no group after that.
func (c *Checker) GroupGone(at time.Time, key types.NamespacedName) {
	c.counts.States++
	if g := c.groups[key]; g != nil {
		g.gone, g.forming, g.eviction = true, nil, nil
	}
	c.end(at, preemptor{kind: v1alpha1.PreemptorPodGroup, name: key})
}

// isAnother reports whether an intent is a new one. An intent that only lists fewer pods than
// before is not new.
func isAnother(before, now *v1alpha1.PodGroupDisruption) bool {
	listed := make(map[types.UID]bool)
	for _, p := range before.Pods {
		listed[p.UID] = true
	}
	for _, p := range now.Pods {
		if !listed[p.UID] {
			return true
		}
	}
	return before.Preemptor.UID != now.Preemptor.UID || !before.Time.Equal(&now.Time)
}

func (c *Checker) beginEviction(g *group, intent *v1alpha1.PodGroupDisruption) {
	before := g.eviction
	g.eviction = &groupEviction{left: make(map[types.UID]types.NamespacedName)}
	g.eviction.take(g.Namespace, intent)
	if before != nil && before.begun != nil {
		// Keep the pods of an eviction that has begun, even if the new intent is for another
		// preemptor.
		g.eviction.begun = before.begun
		for uid, name := range before.pods {
			g.eviction.pods[uid] = name
		}
	}
	for uid := range g.eviction.pods {
		g.listed[uid] = true
	}
	for _, pod := range c.members(g) {
		if isStaying(pod) && g.eviction.pods[pod.UID] == (types.NamespacedName{}) {
			g.eviction.left[pod.UID] = keyOf(pod)
		}
	}
}

// take replaces the intent and the pods of the eviction.
func (e *groupEviction) take(namespace string, intent *v1alpha1.PodGroupDisruption) {
	e.intent, e.pods = intent, make(map[types.UID]types.NamespacedName)
	for _, p := range intent.Pods {
		e.pods[p.UID] = types.NamespacedName{Namespace: namespace, Name: p.Name}
	}
}

// members returns the existing pods of a group.
func (c *Checker) members(g *group) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range c.pods {
		if key, ok := c.groupOf(pod); ok && key.Name == g.Name && key.Namespace == g.Namespace {
			out = append(out, pod)
		}
	}
	return out
}

// follow updates the record of a group after the state of a pod has changed. goes is true if the
// pod began to terminate.
func (c *Checker) follow(at time.Time, pod *corev1.Pod, goes bool) {
	key, ok := c.groupOf(pod)
	if !ok {
		return
	}
	g := c.groups[key]
	if g == nil || g.gone {
		return
	}
	waiting, bound := 0, 0
	for _, member := range c.members(g) {
		if isWaiting(member) {
			waiting++
		}
		if isStaying(member) {
			bound++
		}
	}
	g.bound = bound
	c.followClock(g)
	switch name := (preemptor{kind: v1alpha1.PreemptorPodGroup, name: key}); {
	case waiting > 0:
		delete(c.ended, name)
	default:
		c.end(at, name)
	}
	least := minCountOf(g.PodGroup)
	switch {
	case bound == 0:
		g.whole, g.forming, g.excused = false, nil, false
	case bound >= least:
		if !g.whole && least > 1 {
			c.counts.Whole++
			c.counts.Judged[GangPartlyBound]++
		}
		g.whole, g.forming, g.excused = true, nil, false
	case g.whole:
	case goes:
		// Excuse the gang: the remaining members wait for a replacement, which may have no room.
		g.excused, g.forming = true, nil
	case g.forming == nil && !g.excused:
		since := c.time.at(at)
		g.forming = &since
	}
}

func (c *Checker) checkForming(now time.Time, g *group) {
	if g.forming == nil || c.time.at(now)-*g.forming <= c.bounds.Gang {
		return
	}
	c.violate(GangPartlyBound, now, "PodGroup %s has %d of %d bound since %v", keyOf(g), g.bound, minCountOf(g.PodGroup), (c.time.at(now) - *g.forming).Round(time.Second))
	g.forming, g.excused = nil, true
}

// victimGoes processes a pod that has just begun to terminate.
func (c *Checker) victimGoes(at time.Time, pod *corev1.Pod) {
	if markOf(pod) == nil || c.released[pod.UID] {
		return
	}
	c.counts.Victims++
	g := c.unitOf(pod).group
	if g == nil || g.eviction == nil || g.eviction.begun != nil {
		return
	}
	if _, ok := g.eviction.pods[pod.UID]; !ok {
		return
	}
	since := c.time.at(at)
	g.eviction.begun = &since
	c.counts.Groups++
	c.counts.Judged[GroupPartlyEvicted]++
}

// checkEviction checks that a group whose eviction has begun is evicted as a whole, within the
// bound.
func (c *Checker) checkEviction(now time.Time, g *group) {
	e := g.eviction
	if e == nil || e.begun == nil {
		return
	}
	took := c.time.at(now) - *e.begun
	staying := c.staying(e.pods)
	if len(staying) > 0 && took <= c.bounds.Group {
		return
	}
	if len(staying) > 0 {
		c.violate(GroupPartlyEvicted, now, "%d of the %d pods of PodGroup %s that are to go stay after %v: %v", len(staying), len(e.pods), keyOf(g), took.Round(time.Second), staying)
	}
	if left := c.staying(e.left); len(left) > 0 {
		c.violate(GroupPartlyEvicted, now, "PodGroup %s has gone but for %v, which had a node and were not listed", keyOf(g), left)
	}
	g.eviction, g.over = nil, e.intent
}

// staying returns the names of the pods that exist and are not terminating.
func (c *Checker) staying(pods map[types.UID]types.NamespacedName) []string {
	var out []string
	for uid, name := range pods {
		if pod := c.pods[name]; pod != nil && pod.UID == uid && pod.DeletionTimestamp == nil {
			out = append(out, name.String())
		}
	}
	return out
}

// followClock updates the earliest possible start time of a group. g.bound must be up to date.
func (c *Checker) followClock(g *group) {
	times, least := c.placedAt(g), minCountOf(g.PodGroup)
	switch {
	case g.bound == 0:
		g.since = nil
	case g.since == nil && least > 0 && len(times) >= least:
		g.since = ptr.To(nth(times, least))
	}
}

// startOf returns the earliest possible start time of a group: when minCount members had nodes. If
// fewer members have nodes, it is the time when the last of them got its node.
func (c *Checker) startOf(g *group) time.Time {
	if g.since != nil {
		return *g.since
	}
	return nth(c.placedAt(g), minCountOf(g.PodGroup))
}

// placedAt returns the times when the members that have a node got it.
func (c *Checker) placedAt(g *group) []time.Time {
	var times []time.Time
	for _, pod := range c.members(g) {
		if at, ok := scheduledAt(pod); ok && hasNode(pod) {
			times = append(times, at)
		}
	}
	return times
}
