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

// trimmed is an object without what no decision depends on: who manages which of its fields, and what containers run. Of what is said of
// containers, the amounts stay that they have been given while they are resized.
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
		// Only their selectors count.
		unstructured.RemoveNestedField(object, "spec", "template")
		unstructured.RemoveNestedField(object, "spec", "volumeClaimTemplates")
	}
	if resource == Jobs {
		object = onlyDeadline(object)
	}
	return encoded(object)
}

// onlyItems leaves some fields of those items of a list that have one of them, and no list where there is none.
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

// onlyDeadline is a Job with its names and owners, until when it runs, and whether it is about to create pods: nothing else of it counts.
func onlyDeadline(job map[string]any) map[string]any {
	out := map[string]any{"apiVersion": job["apiVersion"], "kind": job["kind"]}
	for _, path := range [][]string{
		{"metadata", "namespace"}, {"metadata", "name"}, {"metadata", "uid"}, {"metadata", "ownerReferences"},
		{"spec", "activeDeadlineSeconds"}, {"spec", "suspend"}, {"status", "startTime"}, {"status", "active"}, {"status", "failed"},
	} {
		if value, found, _ := unstructured.NestedFieldNoCopy(job, path...); found {
			// The maps on the way are made here, so nothing can be in the way.
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

// encoded is an object with its names. Maps are encoded with their keys in order, so the same object makes the same bytes.
func encoded(object map[string]any) (Object, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return Object{}, fmt.Errorf("encode an object: %w", err)
	}
	return named(raw)
}

// named reads the names of an object.
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

// keepOnly drops the annotations that no decision depends on. Those in kept stay as well.
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

// Redact leaves out what may tell of the people who use a cluster and is not needed to decide: annotations other than those
// that decisions depend on, images, addresses, messages of conditions. Names, labels and amounts stay, since decisions
// depend on them. So do the annotations that are named: those by which pods name what they belong to in the words of other schedulers.
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

// redactVolumes drops the volumes of a pod that no filter looks at: secrets and the like.
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
