package main

// reason explains why some cases do not pass. Pattern matches the names of these cases.
type reason struct {
	Pattern, Reason string
}

// skips returns the cases to skip. If several patterns match a case, the first one applies.
func skips() []reason {
	const (
		composite = "CompositePodGroup is not implemented"
		plugin    = "the case needs a Go plugin that it compiles into kube-scheduler"
		gate      = "the gates of the API server are the same for all cases"
		stepped   = "the case steps the loop of kube-scheduler in its own process"
	)
	return []reason{
		{`^Test(CPG|Composite)`, composite},
		{`^TestPodGroupPreemption/.*PodGroupPreemptionPolicy_disabled`, gate},
		{`^TestPodGroupPreemption/Reserve_plugins_are_called`, plugin},
		{`^TestPodGroupPreemption/Partial_Preemption_with_basic_policy`, plugin},
		{`^TestPodGroupPreemption/Binding_first_before_preemption_for_basic_policy`, plugin},
		{`^TestPodGroupPreemption/.*selects_higher_scored_topology`, plugin},
		{`^TestPostFilterNotCalled`, plugin},
		{`^TestPodGroupPostFilterIteration`, plugin},
		{`^TestPodGroupCycleStatePreserved`, plugin},
		{`^TestPodGroupQueueing/.*added_mid-cycle`, plugin},
		{`^TestPodGroupQueueing/.*fails_PreBind`, plugin},
		{`^TestPodGroupSequentialQueueing`, stepped},
		{`^TestPodGroupRequeueRemainingOnSchedulingSuccess`, stepped},
	}
}

// differences returns the cases that fail because Reprieve differs from kube-scheduler by design.
// If several patterns match a case, the first one applies.
func differences() []reason {
	const (
		surplus = "Reprieve evicts nothing for members past minCount (docs/gangs.md); kube-scheduler does"
		gated   = "Reprieve places the members without a scheduling gate once they reach minCount; kube-scheduler waits for all"
		fewer   = "Reprieve evicts one of the two pods, which is enough; kube-scheduler evicts both"
		fuller  = "of racks that cost one victim, Reprieve takes the one with more in use afterwards; kube-scheduler counts all victims as gone"
	)
	return []reason{
		{`^TestPodGroupPreemption/Gang_scheduling:_schedule_as_many_pods_as_possible`, surplus},
		{`^TestPodGroupPreemption/Binding_first_before_preemption_for_gang_policy`, surplus},
		{`^TestPodGroupScheduling/gang_schedules_with_workload-aware_preemption`, surplus},
		{`^TestTopologyAwareSchedulingWithGangPolicy/.*additional_pod_triggers_preemption`, surplus},
		{`^TestPodGroupQueueing/Single_gated_pod_blocks`, gated},
		{`^TestTopologyAwareSchedulingWithGangPolicy/gang_uses_pod_group_preemption_when_resources_are_consumed`, fewer},
		{`^TestTopologyAwareSchedulingWithGangPolicy/gang_uses_preemption_.*_choosing_placement_with_the_highest_score_\(`, fuller},
	}
}
