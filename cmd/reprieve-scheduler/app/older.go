package app

import (
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
)

// fitGates disables features of the library that need kinds which the API server does not serve,
// because the API server is older than the library. Otherwise the scheduler would wait for these
// kinds forever. Call it before the scheduler is created.
func fitGates(logger klog.Logger, client discovery.ServerResourcesInterface, gates featuregate.MutableFeatureGate) error {
	if !gates.Enabled(features.DynamicResourceAllocation) || !gates.Enabled(features.DRADeviceTaintRules) {
		return nil
	}
	served, err := client.ServerResourcesForGroupVersion(resourcev1.SchemeGroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ask for the resources of %s: %w", resourcev1.SchemeGroupVersion, err)
	}
	if served != nil && slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == "devicetaintrules" }) {
		return nil
	}
	logger.Info("The cluster serves no DeviceTaintRules; the feature is off", "featureGate", features.DRADeviceTaintRules)
	if err := gates.SetFromMap(map[string]bool{string(features.DRADeviceTaintRules): false}); err != nil {
		return fmt.Errorf("switch off %s: %w", features.DRADeviceTaintRules, err)
	}
	return nil
}
