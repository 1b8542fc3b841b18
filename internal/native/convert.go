package native

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// IsNative reports whether a PodGroup was read from scheduling.k8s.io. Its apiVersion shows that.
func IsNative(pg *v1alpha1.PodGroup) bool {
	gv, err := schema.ParseGroupVersion(pg.APIVersion)
	return err == nil && gv.Group == Group
}

// FromObject converts a PodGroup of scheduling.k8s.io, of any version, to the type of reprieve.dev.
// The result keeps its apiVersion and shares no data with u.
func FromObject(u *unstructured.Unstructured) *v1alpha1.PodGroup {
	pg := &v1alpha1.PodGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), Labels: u.GetLabels(),
			ResourceVersion: u.GetResourceVersion(), Generation: u.GetGeneration(),
			CreationTimestamp: u.GetCreationTimestamp(), DeletionTimestamp: u.GetDeletionTimestamp(),
		},
	}
	// The API server has validated the object. So a field of an unexpected type comes from an
	// unknown version of the API. FromObject ignores such a field.
	spec, _, _ := unstructured.NestedMap(u.Object, "spec")
	readPolicy(&pg.Spec.PodGroupPolicy, spec)
	readTopology(&pg.Spec.PodGroupPolicy, spec)
	pg.Annotations = make(map[string]string)
	if fields := unsupported(spec, &pg.Spec.PodGroupPolicy); fields != "" {
		pg.Annotations[gang.AnnotationUnsupported] = fields
	}
	for _, key := range gang.ProgressKeys() {
		if value, ok := u.GetAnnotations()[key]; ok {
			pg.Annotations[key] = value
		}
	}
	pg.Status.Conditions = ReadConditions(u)
	takeOwn(&pg.Status)
	return pg
}

// unsupported names the fields of a PodGroup that Reprieve does not implement and must not ignore;
// "" for none. Examples are shared devices, ties to other groups, and constraints other than one
// topology key.
func unsupported(spec map[string]any, read *v1alpha1.PodGroupPolicy) string {
	var fields []string
	if constraints, ok := spec["schedulingConstraints"].(map[string]any); ok && len(constraints) > 0 && read.SchedulingConstraints == nil {
		fields = append(fields, "spec.schedulingConstraints")
	}
	if claims, ok := spec["resourceClaims"].([]any); ok && len(claims) > 0 {
		fields = append(fields, "spec.resourceClaims")
	}
	if parent, ok := spec["parentCompositePodGroupName"].(string); ok && parent != "" {
		fields = append(fields, "spec.parentCompositePodGroupName")
	}
	return strings.Join(fields, " and ")
}

// readTopology reads the topology key of a group that has exactly one. It changes a group with the
// basic policy into a gang that needs one member. Gangs stay within one topology domain: the first
// scheduled members choose it, and later members join them.
func readTopology(to *v1alpha1.PodGroupPolicy, spec map[string]any) {
	key, ok := topologyKey(spec)
	if !ok {
		return
	}
	to.SchedulingConstraints = &v1alpha1.SchedulingConstraints{Topology: []v1alpha1.TopologyConstraint{{Key: key}}}
	if to.SchedulingPolicy.Gang == nil {
		to.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 1}}
	}
}

// topologyKey returns the topology key of a group; false if the group has no constraint, or any
// other constraint.
func topologyKey(spec map[string]any) (string, bool) {
	constraints, ok := spec["schedulingConstraints"].(map[string]any)
	if !ok || len(constraints) != 1 {
		return "", false
	}
	entries, ok := constraints["topology"].([]any)
	if !ok || len(entries) != 1 {
		return "", false
	}
	entry, ok := entries[0].(map[string]any)
	if !ok || len(entry) != 1 {
		return "", false
	}
	key, ok := entry["key"].(string)
	return key, ok && key != ""
}

func readPolicy(to *v1alpha1.PodGroupPolicy, spec map[string]any) {
	to.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Basic: &v1alpha1.BasicSchedulingPolicy{}}
	if n, ok, err := unstructured.NestedInt64(spec, "schedulingPolicy", "gang", "minCount"); ok && err == nil {
		to.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: int32(n)}}
	}
	if mode := modeOf(spec["disruptionMode"]); mode != "" {
		to.DisruptionMode = &mode
	}
	if name, ok := spec["priorityClassName"].(string); ok && name != "" {
		to.PriorityClassName = &name
	}
	if n, ok := spec["priority"].(int64); ok {
		priority := int32(n)
		to.Priority = &priority
	}
	// Only Kubernetes 1.37 and later have the field.
	if p, ok := spec["preemptionPolicy"].(string); ok && p != "" {
		policy := corev1.PreemptionPolicy(p)
		to.PreemptionPolicy = &policy
	}
}

// modeOf reads a disruption mode. The field is a string in v1alpha2. Since Kubernetes 1.37, it is a
// union of empty objects. An unknown mode is read as PodGroup: members are evicted together.
func modeOf(field any) v1alpha1.DisruptionMode {
	switch mode := field.(type) {
	case nil:
		return ""
	case string:
		if mode == "" || mode == string(v1alpha1.DisruptionModePod) {
			return v1alpha1.DisruptionModePod
		}
	case map[string]any:
		if _, single := mode["single"]; single || len(mode) == 0 {
			return v1alpha1.DisruptionModePod
		}
	}
	return v1alpha1.DisruptionModePodGroup
}

// ReadConditions returns all conditions in the status of a PodGroup of scheduling.k8s.io.
func ReadConditions(u *unstructured.Unstructured) []metav1.Condition {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	out := make([]metav1.Condition, 0, len(list))
	for _, entry := range list {
		fields, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		var c metav1.Condition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c); err == nil {
			out = append(out, c)
		}
	}
	return out
}
