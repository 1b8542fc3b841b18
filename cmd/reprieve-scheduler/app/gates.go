package app

import (
	"fmt"

	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

// checkGates rejects feature gates that make kube-scheduler schedule or preempt pods without
// Reprieve. With GenericWorkload, kube-scheduler has its own cycle for PodGroups and does not pass
// the members to Reprieve's plugins. With preemption for in-place resizes, pods that have a node
// enter the scheduling cycle as if they had none.
func checkGates(gates featuregate.FeatureGate) error {
	if gates.Enabled(features.GenericWorkload) {
		return fmt.Errorf("--feature-gates: leave %[1]s off: with it, kube-scheduler's own cycle for PodGroups schedules and preempts beside Reprieve; "+
			"the PodGroups of scheduling.k8s.io are read without it, wherever the API server serves them", features.GenericWorkload)
	}
	if gates.Enabled(features.InPlacePodVerticalScalingSchedulerPreemption) {
		return fmt.Errorf("--feature-gates: leave %[1]s off: with it, pods that run and wait for a larger size are scheduled again, "+
			"and others would be preempted for all that they ask for; resizing without preemption does not need it", features.InPlacePodVerticalScalingSchedulerPreemption)
	}
	return nil
}
