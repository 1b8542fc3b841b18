package peers

import (
	"math"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// snapshot converts the present state of the game to a snapshot of the core.
func (g *game) snapshot() *core.Snapshot {
	s := &core.Snapshot{Resources: g.c.Resources}
	for i := range g.c.Nodes {
		n := &g.c.Nodes[i]
		s.Nodes = append(s.Nodes, core.Node{Name: n.Name, Free: slices.Clone(n.Amounts), Allocatable: n.Amounts})
	}
	for _, p := range g.work {
		var pods []core.Pod
		for i, node := range p.on {
			if node < 0 {
				continue
			}
			add(s.Nodes[node].Free, p.Requests[i], -1)
			name := podName(p.Name, i)
			pods = append(pods, core.Pod{Namespace: "ns", Name: name, UID: name, Node: node, Request: p.Requests[i], Start: p.began})
		}
		switch {
		case len(pods) == 0:
		case p.leaves:
			s.Leaving = append(s.Leaving, pods...)
		default:
			s.Units = append(s.Units, p.units(pods)...)
		}
	}
	if g.tree.Len() > 0 {
		s.Queues = &core.Queues{Tree: g.tree, Shares: g.shares()}
	}
	return s
}

// units returns the preemption units of a running workload. A gang is one unit if it has no surplus
// members or is stale. In any other gang, each member is a unit.
func (p *player) units(pods []core.Pod) []core.Unit {
	unit := core.Unit{Namespace: "ns", Name: p.Name, UID: p.Name, Priority: p.Priority, Start: p.began, Since: p.began}
	if p.Fixed {
		unit.Toleration = &core.Toleration{Below: math.MaxInt32, Until: core.Forever}
	}
	unit.Membership = &core.QueueMembership{Queue: p.Queue}
	if len(p.Requests) == 1 {
		unit.Name, unit.UID, unit.Pods, unit.Running = pods[0].Name, pods[0].UID, pods, true
		return []core.Unit{unit}
	}
	unit.PodGroup, unit.GroupName = p.Name, p.Name
	if p.MinCount == len(p.Requests) || p.Stale {
		unit.Group, unit.Stale, unit.Pods = true, p.Stale, pods
		if p.Stale {
			unit.Priority--
			unit.Lacks = int32(p.MinCount - len(pods))
		}
		return []core.Unit{unit}
	}
	unit.Membership.MinCount = int32(p.MinCount)
	var out []core.Unit
	for i := range pods {
		member := unit
		member.Name, member.UID, member.Pods = pods[i].Name, pods[i].UID, pods[i:i+1]
		member.Running, member.Surplus = true, i >= p.MinCount
		out = append(out, member)
	}
	return out
}

// preemptor converts the pending pods of a workload to a preemptor of the core.
func (g *game) preemptor(p *player) *core.Preemptor {
	pre := &core.Preemptor{
		Namespace: "ns", Name: p.Name, UID: p.Name, Priority: p.Priority, Queue: p.Queue, MinCount: p.missing(),
		Now: math.MaxInt32 + g.decisions,
	}
	if len(p.Requests) > 1 {
		pre.Gang, pre.PodGroup = true, p.Name
	}
	for i, node := range p.on {
		if node >= 0 && !p.leaves {
			continue
		}
		at := slices.IndexFunc(pre.Classes, func(c core.Class) bool { return slices.Equal(c.Request, p.Requests[i]) })
		if at < 0 {
			at = len(pre.Classes)
			pre.Classes = append(pre.Classes, core.Class{Request: p.Requests[i]})
		}
		name := podName(p.Name, i)
		pre.Classes[at].Members = append(pre.Classes[at].Members, core.Member{Name: name, UID: name, Rank: i})
	}
	return pre
}
