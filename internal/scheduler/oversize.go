package scheduler

// exceedsNodes reports whether a preemptor without room does not fit even on empty nodes. Such a
// preemptor is not retried when a pod is deleted. Otherwise, each deletion in any namespace would
// cost one cycle for every oversized workload of a tenant.
//
// exceedsNodes returns false if it cannot know the result:
//
//   - for a tree of groups, because parts of the tree are decided separately
//   - for a gang with a member that another plugin gates
//   - in a profile that does not check resources
func (p *Plugin) exceedsNodes(made *cycleDecision) bool {
	pre := &made.pre
	if pre.keptOut != "" || pre.group != nil && pre.group.Tree != nil || !p.filtersResources() {
		return false
	}
	return made.view.Cluster.Exceeds(&made.decision.Preemptor)
}
