package inventory

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// trimmed converts an object to an Object, without the fields that no decision depends on, such as
// managed fields and the commands of containers. It keeps the resources in container statuses,
// because they count as requested during an in-place resize.
func trimmed(resource string, object map[string]any) (Object, error) {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		delete(metadata, "selfLink")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
			if len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
	}
	if resource == Pods {
		eachContainer(object, func(container map[string]any) {
			for _, field := range []string{"args", "command", "env", "envFrom", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"} {
				delete(container, field)
			}
			onlyItems(container, "volumeMounts", "bindMountOptions", "name", "bindMountOptions")
		})
		if status, ok := object["status"].(map[string]any); ok {
			for _, field := range []string{"containerStatuses", "initContainerStatuses"} {
				onlyItems(status, field, "name", "name", "resources", "allocatedResources")
			}
			delete(status, "ephemeralContainerStatuses")
		}
	}
	if resource == "replicasets" || resource == "statefulsets" || resource == "replicationcontrollers" {
		// Decisions read only the selectors of objects of these kinds.
		unstructured.RemoveNestedField(object, "spec", "template")
		unstructured.RemoveNestedField(object, "spec", "volumeClaimTemplates")
	}
	if resource == Jobs {
		object = onlyDeadline(object)
	}
	return encoded(object)
}

// onlyItems reduces the items of a list in an object. It keeps only items with a certain field (the
// argument having), and only the given fields of these items. It removes a list that becomes empty.
func onlyItems(object map[string]any, list, having string, fields ...string) {
	items, ok := object[list].([]any)
	if !ok {
		return
	}
	var kept []any
	for _, one := range items {
		item, ok := one.(map[string]any)
		if _, has := item[having]; !ok || !has {
			continue
		}
		maps.DeleteFunc(item, func(field string, _ any) bool { return !slices.Contains(fields, field) })
		kept = append(kept, item)
	}
	if object[list] = kept; len(kept) == 0 {
		delete(object, list)
	}
}

// onlyDeadline returns a Job with only the fields that decisions read. These are its identity, its
// owners, its deadline, and the fields that show whether it will create pods.
func onlyDeadline(job map[string]any) map[string]any {
	out := map[string]any{"apiVersion": job["apiVersion"], "kind": job["kind"]}
	for _, path := range [][]string{
		{"metadata", "namespace"}, {"metadata", "name"}, {"metadata", "uid"}, {"metadata", "ownerReferences"},
		{"spec", "activeDeadlineSeconds"}, {"spec", "suspend"}, {"status", "startTime"}, {"status", "active"}, {"status", "failed"},
	} {
		if value, found, _ := unstructured.NestedFieldNoCopy(job, path...); found {
			// The call cannot fail, because it creates all maps on the path.
			_ = unstructured.SetNestedField(out, value, path...)
		}
	}
	var ends []any
	conditions, _, _ := unstructured.NestedSlice(job, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["status"] == "True" {
			ends = append(ends, map[string]any{"type": condition["type"], "status": "True"})
		}
	}
	if len(ends) > 0 {
		_ = unstructured.SetNestedSlice(out, ends, "status", "conditions")
	}
	return out
}

// encoded converts a decoded object to an Object. JSON encoding sorts map keys, so the same object
// always produces the same bytes.
func encoded(object map[string]any) (Object, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return Object{}, fmt.Errorf("encode an object: %w", err)
	}
	return named(raw)
}

// named returns the Object for the JSON of an API object. It reads the object's namespace, name and
// UID.
func named(raw json.RawMessage) (Object, error) {
	var of struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &of); err != nil {
		return Object{}, fmt.Errorf("read the metadata of an object: %w", err)
	}
	return Object{Namespace: of.Metadata.Namespace, Name: of.Metadata.Name, UID: of.Metadata.UID, Raw: raw}, nil
}

func eachContainer(pod map[string]any, visit func(container map[string]any)) {
	for _, field := range []string{"containers", "initContainers", "ephemeralContainers"} {
		list, _, _ := unstructured.NestedFieldNoCopy(pod, "spec", field)
		containers, _ := list.([]any)
		for _, c := range containers {
			if container, ok := c.(map[string]any); ok {
				visit(container)
			}
		}
	}
}

// keepOnly deletes all annotations except two kinds: annotations that decisions depend on, and
// annotations in the list kept.
func keepOnly(annotations map[string]any, kept []string) {
	prefixes := []string{
		"preemption-toleration.scheduling.x-k8s.io/", "reprieve.dev/",
		"volume.kubernetes.io/", "volume.beta.kubernetes.io/", "pv.kubernetes.io/", "storage.alpha.kubernetes.io/",
		"kubernetes.io/config.mirror", "resource.kubernetes.io/extended-resource-claim",
	}
	maps.DeleteFunc(annotations, func(name string, _ any) bool {
		return !slices.Contains(kept, name) && !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}

// Redact returns a copy of the Inventory without data about users that decisions do not need: most
// annotations, images, addresses and messages of conditions. It keeps names, labels and amounts,
// because decisions depend on them.
//
// Redact also keeps the given annotations. Callers pass the annotations that other schedulers use
// to assign pods to groups.
func Redact(in *Inventory, annotations ...string) (*Inventory, error) {
	out := in.clone()
	out.Redacted = true
	for resource, list := range in.objects {
		redacted := make([]Object, len(list))
		for i := range list {
			var object map[string]any
			if err := list[i].Into(&object); err != nil {
				return nil, err
			}
			redact(resource, object, annotations)
			var err error
			if redacted[i], err = encoded(object); err != nil {
				return nil, err
			}
		}
		out.objects[resource] = redacted
	}
	return out, nil
}

func redact(resource string, object map[string]any, kept []string) {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			keepOnly(annotations, kept)
		}
	}
	conditions, _, _ := unstructured.NestedFieldNoCopy(object, "status", "conditions")
	if list, ok := conditions.([]any); ok {
		for _, c := range list {
			if condition, ok := c.(map[string]any); ok {
				delete(condition, "message")
			}
		}
	}
	switch resource {
	case Pods:
		eachContainer(object, func(container map[string]any) {
			delete(container, "image")
			delete(container, "workingDir")
		})
		redactVolumes(object)
		for _, field := range []string{"hostIP", "hostIPs", "podIP", "podIPs", "message"} {
			unstructured.RemoveNestedField(object, "status", field)
		}
		for _, field := range []string{"imagePullSecrets", "serviceAccountName", "serviceAccount", "hostAliases", "dnsConfig", "securityContext"} {
			unstructured.RemoveNestedField(object, "spec", field)
		}
	case "persistentvolumes":
		for _, field := range []string{"volumeAttributes", "controllerPublishSecretRef", "nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef", "controllerExpandSecretRef"} {
			unstructured.RemoveNestedField(object, "spec", "csi", field)
		}
	case Nodes:
		for _, field := range []string{"addresses", "images", "nodeInfo", "daemonEndpoints"} {
			unstructured.RemoveNestedField(object, "status", field)
		}
		unstructured.RemoveNestedField(object, "spec", "providerID")
		unstructured.RemoveNestedField(object, "spec", "podCIDR")
		unstructured.RemoveNestedField(object, "spec", "podCIDRs")
	case "services":
		for _, field := range []string{"clusterIP", "clusterIPs", "externalIPs", "loadBalancerIP", "externalName"} {
			unstructured.RemoveNestedField(object, "spec", field)
		}
		unstructured.RemoveNestedField(object, "status")
	}
}

// redactVolumes removes the volumes of a pod that no filter reads, such as secrets.
func redactVolumes(pod map[string]any) {
	list, _, _ := unstructured.NestedFieldNoCopy(pod, "spec", "volumes")
	volumes, ok := list.([]any)
	spec, isMap := pod["spec"].(map[string]any)
	if !ok || !isMap {
		return
	}
	spec["volumes"] = slices.DeleteFunc(volumes, func(v any) bool {
		volume, _ := v.(map[string]any)
		return !slices.ContainsFunc([]string{
			"persistentVolumeClaim", "ephemeral", "csi", "gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi",
			"azureDisk", "azureFile", "cinder", "vsphereVolume", "portworxVolume",
		}, func(kind string) bool {
			_, has := volume[kind]
			return has
		})
	})
}
