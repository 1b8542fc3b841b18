package native

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// workloadsVersion is the version of scheduling.k8s.io in Kubernetes 1.35. In it, pods name a group
// of a Workload in spec.workloadRef, and PodGroups do not exist.
const workloadsVersion = "v1alpha1"

// AnnotationWorkloadRef is the annotation with the Workload and the group that a pod names. Only
// pods that were read with [NewClientset] have it. Its value is "workload/group" or
// "workload/group/replica". It is never written, and a value from the API is dropped.
const AnnotationWorkloadRef = v1alpha1.GroupName + "/workload-ref"

// WorkloadRef names a group of a Workload, in the namespace of the pod.
type WorkloadRef struct {
	Workload, PodGroup string
	// Replica distinguishes replicas of the same group; it may be "".
	Replica string
}

// WorkloadRefOf returns the group that a pod names; false for none.
func WorkloadRefOf(pod *corev1.Pod) (WorkloadRef, bool) {
	parts := strings.Split(pod.Annotations[AnnotationWorkloadRef], "/")
	if len(parts) < 2 {
		return WorkloadRef{}, false
	}
	ref := WorkloadRef{Workload: parts[0], PodGroup: parts[1]}
	if len(parts) > 2 {
		ref.Replica = parts[2]
	}
	return ref, true
}

// String returns the value of AnnotationWorkloadRef. No part can contain a slash.
func (r WorkloadRef) String() string {
	return strings.TrimSuffix(r.Workload+"/"+r.PodGroup+"/"+r.Replica, "/")
}

const (
	// longestStem is the maximum number of characters of the reference's names in a PodGroup's
	// name. hashLength is the number of characters that distinguish references with the same stem.
	// The result fits into a label.
	longestStem, hashLength = 54, 8
)

// GroupName returns the name of the PodGroup that represents the group.
func (r WorkloadRef) GroupName() string {
	stem := r.Workload + "-" + r.PodGroup
	if r.Replica != "" {
		stem += "-" + r.Replica
	}
	stem = strings.TrimRight(stem[:min(len(stem), longestStem)], "-.")
	sum := sha256.Sum256([]byte(r.String()))
	return stem + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// setWorkloadRef sets the PodGroup of a pod to the one for its spec.workloadRef, if it has any.
func setWorkloadRef(pod *corev1.Pod, spec map[string]any) {
	delete(pod.Annotations, AnnotationWorkloadRef)
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(spec, "workloadRef", field)
		return value
	}
	ref := WorkloadRef{Workload: text("name"), PodGroup: text("podGroup"), Replica: text("podGroupReplicaKey")}
	if ref.Workload == "" || ref.PodGroup == "" {
		return
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, AnnotationWorkloadRef, ref.String())
	name := ref.GroupName()
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
}

// GroupOfWorkload returns the policy of a group of a Workload, or false if the Workload has no
// group of that name.
func GroupOfWorkload(workload *unstructured.Unstructured, group string) (v1alpha1.PodGroupPolicy, bool) {
	groups, _, _ := unstructured.NestedSlice(workload.Object, "spec", "podGroups")
	for _, entry := range groups {
		fields, ok := entry.(map[string]any)
		if !ok || fields["name"] != group {
			continue
		}
		var out v1alpha1.PodGroupPolicy
		readPolicy(&out, map[string]any{"schedulingPolicy": fields["policy"]})
		return out, true
	}
	return v1alpha1.PodGroupPolicy{}, false
}
