package app

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// findComposites reports whether the API server serves CompositePodGroups and lets Reprieve read
// them. A cluster may have the CustomResourceDefinitions or the ClusterRole of an older release.
func findComposites(ctx context.Context, rest *restclient.Config, direct client.Client) (bool, error) {
	logger, kind := klog.FromContext(ctx), v1alpha1.SchemeGroupVersion.WithKind("CompositePodGroup")
	discoverer, err := discovery.NewDiscoveryClientForConfig(rest)
	if err != nil {
		return false, fmt.Errorf("make a discovery client: %w", err)
	}
	served, err := discoverer.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if err != nil {
		return false, fmt.Errorf("look for CompositePodGroups: %w", err)
	}
	if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind }) {
		logger.Info("The cluster serves no CompositePodGroups, so PodGroups with a parent will wait. " +
			"To change that, run kubectl apply -k deploy/crds and restart the scheduler")
		return false, nil
	}
	readable, err := mayRead(ctx, direct, kind)
	if err == nil && !readable {
		logger.Info("The scheduler may not read CompositePodGroups, so PodGroups with a parent will wait. The rights are in deploy/clusterrole.yaml")
	}
	return readable, err
}
