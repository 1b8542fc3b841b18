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

// Group is the API group of these PodGroups.
const Group = schedulingv1.GroupName

// resource is the name of PodGroups in paths, in every version. workloads is the name of Workloads.
const resource, workloads = "podgroups", "workloads"

// ErrNotServed is the error of Discover and DiscoverWorkloads if the cluster does not serve the
// resource.
var ErrNotServed = errors.New(Group + " is not served with a resource for groups of pods")

// Discover finds the kind of the PodGroups that the API server serves, in the most stable version.
func Discover(client discovery.DiscoveryInterface) (schema.GroupVersionKind, error) {
	return find(client, resource, func(string) bool { return true })
}

// DiscoverWorkloads finds the kind of the Workloads that pods name in spec.workloadRef. Only
// clusters without PodGroups serve it.
func DiscoverWorkloads(client discovery.DiscoveryInterface) (schema.GroupVersionKind, error) {
	return find(client, workloads, func(version string) bool { return version == workloadsVersion })
}

// find looks for a resource in the selected versions of the group, the most stable version first.
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
