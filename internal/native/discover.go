package native

import (
	"errors"
	"fmt"
	"slices"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
)

// Group is the API group of the PodGroups that this package reads.
const Group = schedulingv1.GroupName

// resource is the name of the resource of PodGroups, in every version.
const resource = "podgroups"

// workloads is the name of the resource of Workloads.
const workloads = "workloads"

// ErrNotServed means that the cluster serves no resource that Discover or DiscoverWorkloads looks
// for.
var ErrNotServed = errors.New(Group + " is not served with a resource for groups of pods")

// Discover returns the kind of the PodGroups of scheduling.k8s.io, in the most stable version that
// the API server serves. The error is ErrNotServed if it serves none.
func Discover(client discovery.DiscoveryInterface) (schema.GroupVersionKind, error) {
	return find(client, resource, func(string) bool { return true })
}

// DiscoverWorkloads returns the kind of the Workloads that pods name in spec.workloadRef. Only
// clusters without PodGroups of scheduling.k8s.io serve it; for others, the error is ErrNotServed.
func DiscoverWorkloads(client discovery.DiscoveryInterface) (schema.GroupVersionKind, error) {
	return find(client, workloads, func(version string) bool { return version == workloadsVersion })
}

// find returns the kind of a resource in the most stable version that the API server serves. It
// considers only versions that the function among accepts.
func find(client discovery.DiscoveryInterface, resource string, among func(version string) bool) (schema.GroupVersionKind, error) {
	groups, err := client.ServerGroups()
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("list API groups: %w", err)
	}
	i := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == Group })
	if i < 0 {
		return schema.GroupVersionKind{}, ErrNotServed
	}
	versions := slices.DeleteFunc(slices.Clone(groups.Groups[i].Versions), func(v metav1.GroupVersionForDiscovery) bool { return !among(v.Version) })
	slices.SortStableFunc(versions, func(a, b metav1.GroupVersionForDiscovery) int {
		return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
	})
	for _, v := range versions {
		served, err := client.ServerResourcesForGroupVersion(v.GroupVersion)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return schema.GroupVersionKind{}, fmt.Errorf("list the resources of %s: %w", v.GroupVersion, err)
		}
		for _, r := range served.APIResources {
			if r.Name == resource {
				return schema.GroupVersionKind{Group: Group, Version: v.Version, Kind: r.Kind}, nil
			}
		}
	}
	return schema.GroupVersionKind{}, ErrNotServed
}
