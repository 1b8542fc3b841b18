package core

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"
)

// mostKnown is the maximum number of shared request vectors. When there are more, intern clears the
// map.
const mostKnown = 1 << 16

// intern returns a vector with the same values, shared by all pods with equal requests.
func (c *Cluster) intern(a Amounts) Amounts {
	key := make([]byte, 0, 64)
	for _, v := range a {
		key = binary.LittleEndian.AppendUint64(key, uint64(v))
	}
	if known, ok := c.known[string(key)]; ok {
		return known
	}
	if len(c.known) >= mostKnown {
		clear(c.known)
	}
	a = slices.Clone(a)
	c.known[string(key)] = a
	return a
}

// addPod adds a running pod, as a unit by itself or as a part of its group's unit.
func (c *Cluster) addPod(slot int32, rp *RunningPod) {
	pod := rp.Pod
	pod.Node, pod.Request = int(slot), c.intern(rp.Request)
	if len(pod.Budgets) > 0 {
		c.guarded++
		c.padBudgets(slices.Max(pod.Budgets) + 1)
	}
	g := rp.Group
	if g == nil || !g.isUnit() {
		u := Unit{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Priority: rp.Priority, Start: pod.Start, Toleration: rp.Toleration, Membership: rp.Membership, Since: rp.Since,
			Running: rp.Running, Static: rp.Static, Local: rp.Local, RefusedUntil: rp.RefusedUntil, MinRuntime: rp.MinRuntime, Pods: c.alone(pod),
		}
		if g != nil {
			u.MinRuntime = g.MinRuntime
			u.PodGroup, u.Priority, u.Toleration, u.Membership, u.Since = g.workload(), g.Priority, g.Toleration, g.Membership, g.Since
			u.GroupName, u.Role, u.RaisedBy = g.Name, rp.Role, g.RaisedBy
			u.Lacks, u.Stops = g.Lacks, g.Stops
		}
		at := c.newUnit(&u)
		c.onNode[slot] = append(c.onNode[slot], at)
		c.count(at, pod.Request, 1)
		return
	}
	at, ok := c.whole[g.UID]
	if !ok {
		at = c.newUnit(&Unit{
			Namespace: g.Namespace, Name: g.Name, UID: g.UID, Group: true, PodGroup: g.workload(), GroupName: g.Name,
			Priority: g.standing(), Start: g.Start, Membership: g.Membership, MinRuntime: g.MinRuntime,
		})
		c.whole[g.UID] = at
	}
	u := &c.s.Units[at]
	c.regroup(at, g)
	if !slices.Contains(c.onNode[slot], at) {
		c.onNode[slot] = append(c.onNode[slot], at)
	}
	// Sort the pods by UID. Their order decides which of them break a budget, so it must not depend
	// on the order of additions.
	i, _ := slices.BinarySearchFunc(u.Pods, pod.UID, func(p Pod, uid string) int { return strings.Compare(p.UID, uid) })
	u.Pods = slices.Insert(u.Pods, i, pod)
	c.refused(at)
	c.count(at, pod.Request, 1)
	if c.queues != nil {
		c.c.index.widen(&c.s, at)
	}
	if len(u.Pods) == 2 {
		c.spanning++
	}
	delete(c.undated, at)
	if g.Start == 0 {
		c.undated[at] = true
		u.Start = earliestStart(u.Pods)
	}
	c.disturb(u)
}

// alone returns a list with only the given pod. The one-pod lists of a node share one array, to
// save memory.
func (c *Cluster) alone(pod Pod) []Pod {
	c.side = append(c.side, pod)
	n := len(c.side)
	return c.side[n-1 : n : n]
}

// isUnit reports whether the members of the group are one unit. They are one unit if the group's
// disruption mode is PodGroup. In any mode, the members of a stale gang are one unit.
func (g *Group) isUnit() bool { return g.Whole || g.isStale() }

// isStale reports whether the gang counts as stale. The priority of a stale gang's unit is lower by
// one, so a gang with the lowest possible priority never counts as stale.
func (g *Group) isStale() bool { return g.Stale && g.Priority > math.MinInt32 }

// workload returns the UID of the tree that the group belongs to, or the group's own UID if it is
// in no tree.
func (g *Group) workload() string { return cmp.Or(g.Workload, g.UID) }

// standing returns the priority of the group's unit as a potential victim.
func (g *Group) standing() int32 {
	if g.isStale() {
		return g.Priority - 1
	}
	return g.Priority
}

// regroup copies the properties of a group to its unit.
func (c *Cluster) regroup(at int32, g *Group) {
	u := &c.s.Units[at]
	if priority := g.standing(); u.Priority != priority {
		c.uncount(u.Priority)
		c.c.perPriority[priority]++
	}
	if u.PodGroup != g.workload() {
		c.leaveGroup(at)
		u.PodGroup = g.workload()
		c.c.groups[u.PodGroup] = append(c.c.groups[u.PodGroup], at)
	}
	u.Namespace, u.Name, u.GroupName, u.Priority, u.Start = g.Namespace, g.Name, g.Name, g.standing(), g.Start
	u.Lacks, u.Stale, u.RaisedBy, u.Stops = g.Lacks, g.isStale(), g.RaisedBy, g.Stops
	if u.Membership != g.Membership || u.Since != g.Since {
		c.countAll(at, -1)
		c.leaveLeaf(at)
		u.Membership, u.Since = g.Membership, g.Since
		c.findLeaf(at)
		c.countAll(at, 1)
	}
	if u.MinRuntime != g.MinRuntime {
		c.c.minRuntimes.drop(u.MinRuntime)
		c.c.minRuntimes.add(g.MinRuntime)
		u.MinRuntime = g.MinRuntime
	}
	u.Toleration = g.Toleration
	c.c.having.note(at, u)
}

// findLeaf records the leaf queue of a unit.
func (c *Cluster) findLeaf(at int32) {
	if c.queues == nil {
		return
	}
	c.c.index.put(&c.s, at, c.queues.Tree.LeafOf(c.s.Units[at].queue()))
}

// leaveLeaf removes a unit from its leaf queue.
func (c *Cluster) leaveLeaf(at int32) {
	if c.queues != nil {
		c.c.index.drop(&c.s, at)
	}
}

// count adds a pod's request to the usage of its unit's queue, or subtracts it if sign is -1.
func (c *Cluster) count(at int32, request Amounts, sign int64) {
	if c.queues != nil {
		c.queues.Tree.Use(c.queues.used, c.c.index.leaves[at], request, sign)
	}
}

func (c *Cluster) countAll(at int32, sign int64) {
	for i := range c.s.Units[at].Pods {
		c.count(at, c.s.Units[at].Pods[i].Request, sign)
	}
}

// tellSurplus marks the surplus members of the gangs in uneven. Members that do not run are marked
// first, then the least important ones. It marks only members that the gang can lose and still have
// minCount members, and enough members of each role.
func (c *Cluster) tellSurplus() {
	for uid := range c.uneven {
		// Leave out groups that are evicted as one unit, because no single member of them can be
		// evicted. A group in a tree may be such a unit.
		members := slices.DeleteFunc(slices.Clone(c.c.groups[uid]), func(m int32) bool { return !elastic(&c.s.Units[m]) })
		slices.SortFunc(members, func(a, b int32) int {
			x, y := c.s.Units[a], c.s.Units[b]
			if x.Running != y.Running {
				if x.Running {
					return -1
				}
				return 1
			}
			x.Surplus, y.Surplus = false, false
			return moreImportant(&x, &y)
		})
		c.gangs.set(&c.s, uid, members)
		var left Headcount
		for _, m := range members {
			left.Add(c.s.Units[m].Role, 1)
		}
		for _, m := range slices.Backward(members) {
			u := &c.s.Units[m]
			// The lost work of each member depends on the latest checkpoint of any member of the
			// gang. So each member's entry must be computed again.
			c.c.losses.forget(m)
			c.c.losses.touch(int32(u.Pods[0].Node))
			surplus := elastic(u) && left.Spare(int(u.Membership.MinCount), u.Role) > 0
			if surplus {
				left.Add(u.Role, -1)
			}
			if surplus != u.Surplus {
				u.Surplus = surplus
				c.c.having.note(m, u)
				c.disturb(u)
			}
		}
	}
	clear(c.uneven)
}

// refused sets RefusedUntil of a group's unit to the latest RefusedUntil of its pods.
func (c *Cluster) refused(at int32) {
	u, latest := &c.s.Units[at], int64(0)
	for i := range u.Pods {
		latest = max(latest, u.Pods[i].RefusedUntil)
	}
	if u.RefusedUntil != latest {
		u.RefusedUntil = latest
		c.c.having.note(at, u)
	}
}

// uncount records that there is one unit less with the given priority.
func (c *Cluster) uncount(priority int32) {
	if c.c.perPriority[priority]--; c.c.perPriority[priority] == 0 {
		delete(c.c.perPriority, priority)
	}
}

// earliestStart returns the earliest start of the pods; 0 if none has started.
func earliestStart(pods []Pod) int64 {
	first := int64(0)
	for i := range pods {
		if s := pods[i].Start; s != 0 && (first == 0 || s < first) {
			first = s
		}
	}
	return first
}

// disturb marks the nodes of a unit as dirty, because the unit's position among the units of each
// node may have changed.
func (c *Cluster) disturb(u *Unit) {
	for i := range u.Pods {
		c.dirty[int32(u.Pods[i].Node)] = true
	}
}

func (c *Cluster) newUnit(u *Unit) int32 {
	var at int32
	if n := len(c.idleUnits); n > 0 {
		at, c.idleUnits = c.idleUnits[n-1], c.idleUnits[:n-1]
	} else {
		at = int32(len(c.s.Units))
		if at == int32(cap(c.s.Units)) {
			// Grow by a sixteenth only. append would grow by at least a quarter, which is much
			// memory: nearly every pod of the cluster is a unit.
			c.s.Units = append(make([]Unit, 0, at+at/16+64), c.s.Units...)
		}
		c.s.Units = append(c.s.Units, Unit{})
	}
	c.s.Units[at] = *u
	c.findLeaf(at)
	if elastic(u) {
		c.uneven[u.PodGroup] = true
	}
	c.c.having.note(at, u)
	c.c.minRuntimes.add(u.MinRuntime)
	c.c.perPriority[u.Priority]++
	if u.PodGroup != "" {
		c.c.groups[u.PodGroup] = append(c.c.groups[u.PodGroup], at)
	}
	return at
}

// empty removes all pods from a node.
func (c *Cluster) empty(slot int32) {
	for _, at := range c.onNode[slot] {
		u := &c.s.Units[at]
		before := len(u.Pods)
		u.Pods = slices.DeleteFunc(u.Pods, func(p Pod) bool {
			here := p.Node == int(slot)
			if here {
				c.count(at, p.Request, -1)
				if len(p.Budgets) > 0 {
					c.guarded--
				}
			}
			return here
		})
		if before > 1 && len(u.Pods) <= 1 {
			c.spanning--
		}
		if len(u.Pods) == 0 {
			c.dropUnit(at)
			continue
		}
		if c.undated[at] {
			u.Start = earliestStart(u.Pods)
		}
		c.refused(at)
		c.disturb(u)
	}
	c.onNode[slot] = nil
	if _, ok := c.going[slot]; ok {
		delete(c.going, slot)
		c.goingChange = true
	}
}

func (c *Cluster) dropUnit(at int32) {
	u := &c.s.Units[at]
	c.uncount(u.Priority)
	if elastic(u) {
		c.uneven[u.PodGroup] = true
	}
	c.c.having.drop(at)
	c.c.minRuntimes.drop(u.MinRuntime)
	c.leaveLeaf(at)
	if u.Group {
		delete(c.whole, u.UID)
		delete(c.undated, at)
	}
	c.leaveGroup(at)
	*u = Unit{}
	c.idleUnits = append(c.idleUnits, at)
}

// leaveGroup removes a unit from the index of its workload.
func (c *Cluster) leaveGroup(at int32) {
	group := c.s.Units[at].PodGroup
	if group == "" {
		return
	}
	left := slices.DeleteFunc(c.c.groups[group], func(x int32) bool { return x == at })
	if c.c.groups[group] = left; len(left) == 0 {
		delete(c.c.groups, group)
	}
}
