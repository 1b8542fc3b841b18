package invariants

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// group is a PodGroup with its history. It is kept after its deletion, because its pods may be
// deleted later.
type group struct {
	*v1alpha1.PodGroup

	gone bool
	// bound counts the members that stay on nodes. whole is true from the time when minCount of
	// them were bound until no bound member is left.
	bound int
	whole bool
	// forming is the time, in working time, since only a part of the gang is bound; nil if it is
	// not. excused is true if a member was deleted in the meantime.
	forming *time.Duration
	excused bool
	// since is the earliest possible start of the group's clock: the time since when minCount
	// members have had nodes, including terminating members. It is kept until each member with a
	// node terminates, because replacing members does not renew the clock.
	since *time.Time
	// again is the time, in working time, when a PodGroup of this name was created again while
	// members had nodes; nil if it was not.
	again *time.Duration
	// listed are all pods that were ever in an intent of the group.
	listed map[types.UID]bool
	// eviction is the eviction under way; nil for none. over is the last intent, which may stay in
	// the status for a while.
	eviction *groupEviction
	over     *v1alpha1.PodGroupDisruption
}

// groupEviction is the eviction of a whole group.
type groupEviction struct {
	intent *v1alpha1.PodGroupDisruption
	// pods are the names of the listed pods, by UID.
	pods map[types.UID]types.NamespacedName
	// left are the members with a node that were not listed. They must not remain.
	left map[types.UID]types.NamespacedName
	// begun is the deletion of the first pod, in working time; nil before that.
	begun *time.Duration
}

// SeeGroup processes the next state of a PodGroup.
func (c *Checker) SeeGroup(at time.Time, now *v1alpha1.PodGroup) {
	c.counts.States++
	key := keyOf(now)
	g := c.groups[key]
	switch {
	case g == nil || g.UID != now.UID:
		g = c.createAgain(at, g, now)
	case minCountOf(g.PodGroup) < minCountOf(now):
		// There may be no room for the members that the gang needs now.
		g.excused, g.forming = true, nil
	}
	g.PodGroup, g.gone = now, false
	intent := now.Status.Disruption
	switch {
	case intent == nil:
		// The intent was canceled or is completed. An eviction that has begun is checked until all
		// of its pods are gone.
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

// createAgain returns the record of a new PodGroup. before is the record of an earlier PodGroup of
// the same name; nil for none. Its members belong to the new one, and its clock continues.
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
		// The members may be too few for the new minCount, and there may be no room for more.
		g.since, g.whole, g.excused = before.since, before.whole, true
		since := c.time.at(at)
		g.again = &since
	}
	if waiting > 0 {
		delete(c.ended, preemptor{kind: v1alpha1.PreemptorPodGroup, name: keyOf(now)})
	}
	return g
}

// GroupGone processes the disappearance of a PodGroup. Its pods then belong to no group.
func (c *Checker) GroupGone(at time.Time, key types.NamespacedName) {
	c.counts.States++
	if g := c.groups[key]; g != nil {
		g.gone, g.forming, g.eviction = true, nil, nil
	}
	c.end(at, preemptor{kind: v1alpha1.PreemptorPodGroup, name: key})
}

// isAnother reports whether an intent differs from an earlier one by more than a shorter list.
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
		// An eviction that has begun continues, also for another preemptor.
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

// take sets the pods of the eviction to the listed pods.
func (e *groupEviction) take(namespace string, intent *v1alpha1.PodGroupDisruption) {
	e.intent, e.pods = intent, make(map[types.UID]types.NamespacedName)
	for _, p := range intent.Pods {
		e.pods[p.UID] = types.NamespacedName{Namespace: namespace, Name: p.Name}
	}
}

// members returns the pods of a group.
func (c *Checker) members(g *group) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range c.pods {
		if key, ok := c.groupOf(pod); ok && key.Name == g.Name && key.Namespace == g.Namespace {
			out = append(out, pod)
		}
	}
	return out
}

// follow updates the group of a pod whose state has changed. goes is true if the pod began to
// terminate.
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
		// The remaining members must wait for another member, and there may be no room for it.
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

// victimGoes processes a pod that begins to terminate.
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

// checkEviction checks a group whose eviction has begun.
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

// staying returns the names of the given pods that do not terminate.
func (c *Checker) staying(pods map[types.UID]types.NamespacedName) []string {
	var out []string
	for uid, name := range pods {
		if pod := c.pods[name]; pod != nil && pod.UID == uid && pod.DeletionTimestamp == nil {
			out = append(out, name.String())
		}
	}
	return out
}

// followClock updates the start of the group's clock. g.bound must be up to date.
func (c *Checker) followClock(g *group) {
	times, least := c.placedAt(g), minCountOf(g.PodGroup)
	switch {
	case g.bound == 0:
		g.since = nil
	case g.since == nil && least > 0 && len(times) >= least:
		g.since = ptr.To(nth(times, least))
	}
}

// startOf returns the earliest possible start of a group's clock. That is when minCount members had
// nodes, or with fewer members, when the last one had.
func (c *Checker) startOf(g *group) time.Time {
	if g.since != nil {
		return *g.since
	}
	return nth(c.placedAt(g), minCountOf(g.PodGroup))
}

// placedAt returns the times when the members with nodes were scheduled.
func (c *Checker) placedAt(g *group) []time.Time {
	var times []time.Time
	for _, pod := range c.members(g) {
		if at, ok := scheduledAt(pod); ok && hasNode(pod) {
			times = append(times, at)
		}
	}
	return times
}
