package main

// reason says why the cases whose name matches a pattern cannot pass.
type reason struct {
	Pattern, Reason string
}

// skips are the cases that do not run. The first pattern that matches applies.
func skips() []reason {
	const (
		composite = "CompositePodGroup is not implemented"
		plugin    = "the case checks calls of a Go plugin that it compiles into kube-scheduler"
		gate      = "the gates of the API server are the same for all cases"
		stepped   = "the case steps the loop of kube-scheduler in its own process"
	)
	return []reason{
		{`^Test(CPG|Composite)`, composite},
		{`CompositePodGroup|CPG|[Cc]omposite`, composite},
		{`^TestPodGroupPreemption/.*PodGroupPreemptionPolicy_disabled`, gate},
		{`^TestPodGroupPreemption/Reserve_plugins_are_called`, plugin},
		{`^TestWorkloadAwarePreemptionInvocation`, plugin},
		{`^TestPostFilterNotCalled`, plugin},
		{`^TestPodGroupPostFilterIteration`, plugin},
		{`^TestPodGroupCycleStatePreserved`, plugin},
		{`^TestPodGroupPreemption_NominatedNodeNameRespected`, plugin},
		{`^TestPodGroupSequentialQueueing`, stepped},
		{`^TestPodGroupRequeueRemainingOnSchedulingSuccess`, stepped},
	}
}
