package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

const (
	// newKindWait is the longest wait for a kind whose definition may be new. If a cluster has
	// several API servers, some of them serve a new kind only after 5 s.
	newKindWait = 10 * time.Second
	// newKindPeriod is the time between two discovery calls.
	newKindPeriod = 500 * time.Millisecond
)

// findComposites reports whether the API server serves CompositePodGroups and lets Reprieve read
// them. It returns false if the cluster has the CustomResourceDefinitions or the ClusterRole of an
// older release.
func findComposites(ctx context.Context, rest *restclient.Config, direct client.Client) (bool, error) {
	logger, kind := klog.FromContext(ctx), v1alpha1.SchemeGroupVersion.WithKind("CompositePodGroup")
	discoverer, err := discovery.NewDiscoveryClientForConfig(rest)
	if err != nil {
		return false, fmt.Errorf("make a discovery client: %w", err)
	}
	served, err := waitServed(ctx, discoverer, kind)
	if err != nil {
		return false, fmt.Errorf("look for CompositePodGroups: %w", err)
	}
	if !served {
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

// waitServed reports whether the API server serves a kind. It waits for the kind up to newKindWait,
// because an upgrade creates the definition of a new kind and the scheduler's pods at the same
// time.
func waitServed(ctx context.Context, discoverer discovery.ServerResourcesInterface, kind schema.GroupVersionKind) (bool, error) {
	err := wait.PollUntilContextTimeout(ctx, newKindPeriod, newKindWait, true, func(context.Context) (bool, error) {
		served, err := discoverer.ServerResourcesForGroupVersion(kind.GroupVersion().String())
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind }), nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}
