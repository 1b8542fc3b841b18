package inventory

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Kind is a kind of object that an [Inventory] can hold.
type Kind struct {
	schema.GroupVersionResource
	// Kind is the kind in the objects' type metadata, such as Pod.
	Kind string
	// Required is true for kinds that every cluster with Reprieve serves. [List] fails if the
	// cluster does not serve one of them.
	Required bool
	// Dispensable is true for kinds that no decision depends on. If the caller may not list one of
	// them, the Inventory lacks its objects.
	Dispensable bool
}

// GroupVersionKind returns the group, version and kind of the kind's objects.
func (k *Kind) GroupVersionKind() schema.GroupVersionKind {
	return k.GroupVersion().WithKind(k.Kind)
}

// These are the names of resources that callers use; see [NameOf].
const (
	Pods            = "pods"
	Nodes           = "nodes"
	Jobs            = "jobs"
	PriorityClasses = "priorityclasses"
	PodGroups       = "podgroups.reprieve.dev"
	Composites      = "compositepodgroups.reprieve.dev"
	NativePodGroups = "podgroups.scheduling.k8s.io"
	Queues          = "queues.reprieve.dev"
	Workloads       = "workloads.reprieve.dev"
)

// Kinds lists the kinds that the scheduler reads and that deploy/clusterrole.yaml permits it to
// list. It also lists Jobs, because their deadlines limit how long their pods run. The PodGroups of
// scheduling.k8s.io have the newest version here; [List] uses the version that the cluster serves.
func Kinds() []Kind {
	own := v1alpha1.SchemeGroupVersion
	kind := func(group, version, resource, name string) Kind {
		return Kind{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, Kind: name}
	}
	needed := func(k Kind) Kind {
		k.Required = true
		return k
	}
	dispensable := func(k Kind) Kind {
		k.Dispensable = true
		return k
	}
	return []Kind{
		needed(kind("", "v1", "pods", "Pod")),
		needed(kind("", "v1", "nodes", "Node")),
		needed(kind("", "v1", "namespaces", "Namespace")),
		kind("", "v1", "services", "Service"),
		kind("", "v1", "replicationcontrollers", "ReplicationController"),
		kind("", "v1", "persistentvolumes", "PersistentVolume"),
		kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
		kind("apps", "v1", "replicasets", "ReplicaSet"),
		kind("apps", "v1", "statefulsets", "StatefulSet"),
		dispensable(kind("batch", "v1", "jobs", "Job")),
		needed(kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")),
		needed(kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass")),
		kind("storage.k8s.io", "v1", "storageclasses", "StorageClass"),
		kind("storage.k8s.io", "v1", "csinodes", "CSINode"),
		kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver"),
		kind("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
		kind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment"),
		kind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass"),
		kind("resource.k8s.io", "v1", "resourceslices", "ResourceSlice"),
		kind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim"),
		kind("resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule"),
		needed(kind(own.Group, own.Version, "podgroups", "PodGroup")),
		kind(own.Group, own.Version, "compositepodgroups", "CompositePodGroup"),
		needed(kind(own.Group, own.Version, "queues", "Queue")),
		needed(kind(own.Group, own.Version, "workloads", "Workload")),
		kind("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup"),
	}
}

// NameOf returns the name of a resource in an [Inventory]: its plural, such as pods. For resources
// of reprieve.dev and PodGroups of scheduling.k8s.io, the name includes the API group, as in
// podgroups.reprieve.dev.
func NameOf(resource schema.GroupVersionResource) string {
	switch resource.Group {
	case v1alpha1.GroupName:
		return resource.Resource + "." + resource.Group
	case "scheduling.k8s.io":
		if resource.Resource == "podgroups" {
			return NativePodGroups
		}
	}
	return resource.Resource
}
