package app

import (
	"fmt"

	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

// checkGates refuses the gate that has kube-scheduler's own cycle for PodGroups take members away from Reprieve's.
func checkGates(gates featuregate.FeatureGate) error {
	if gates.Enabled(features.GenericWorkload) {
		return fmt.Errorf("--feature-gates: leave %[1]s off: with it, kube-scheduler's own cycle for PodGroups schedules and preempts beside Reprieve; "+
			"the PodGroups of scheduling.k8s.io are read without it, wherever the API server serves them", features.GenericWorkload)
	}
	return nil
}
