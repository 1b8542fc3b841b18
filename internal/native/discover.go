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

// Group is the API group whose PodGroups are meant.
const Group = schedulingv1.GroupName

// resource is what PodGroups are called in paths, in every version, and workloads what Workloads are.
const resource, workloads = "podgroups", "workloads"

// ErrNotServed is the error of Discover and DiscoverWorkloads where the cluster has none.
var ErrNotServed = errors.New(Group + " is not served with what groups pods")

// Discover finds the kind of the PodGroups that the API server serves, in the most stable version.
func Discover(client discovery.DiscoveryInterface) (schema.GroupVersionKind, error) {
	return find(client, resource, func(string) bool { return true })
}

// DiscoverWorkloads finds the kind of the Workloads of whose groups pods name one in spec.workloadRef. It is served where there
// are no PodGroups.
func DiscoverWorkloads(client discovery.DiscoveryInterface) (schema.GroupVersionKind, error) {
	return find(client, workloads, func(version string) bool { return version == workloadsVersion })
}

// find looks for a resource in the versions of the group that are asked for, the most stable ones first.
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
