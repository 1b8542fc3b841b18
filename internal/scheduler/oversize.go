package scheduler

// exceedsNodes reports whether a preemptor without room does not fit even on empty nodes. Then the
// deletion of a pod is no reason to retry it. Otherwise each deletion in any namespace would cost a
// cycle for each such workload of one tenant. It returns false if it cannot know: for a tree of
// groups, which is decided in parts, and while another plugin gates a member.
func (p *Plugin) exceedsNodes(made *cycleDecision) bool {
	pre := &made.pre
	if pre.keptOut != "" || pre.group != nil && pre.group.Tree != nil || !p.filtersResources() {
		return false
	}
	return made.view.Cluster.Exceeds(&made.decision.Preemptor)
}
