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

// workloadsVersion is the version of scheduling.k8s.io in Kubernetes 1.35. It has no PodGroups.
// Pods name a group of a Workload in spec.workloadRef instead.
const workloadsVersion = "v1alpha1"

// AnnotationWorkloadRef holds the spec.workloadRef of a pod, as "workload/group" or
// "workload/group/replica". It exists only in memory, on pods that a client of [NewClientset] has
// read. A value from the API is removed.
const AnnotationWorkloadRef = v1alpha1.GroupName + "/workload-ref"

// WorkloadRef is a reference from a pod to a group of a Workload in the pod's namespace.
type WorkloadRef struct {
	Workload, PodGroup string
	// Replica distinguishes the replicas of one group; "" for a group without replicas.
	Replica string
}

// WorkloadRefOf returns the reference of a pod; false for a pod without one.
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

// String returns the reference as the value of AnnotationWorkloadRef. The names contain no slash.
func (r WorkloadRef) String() string {
	return strings.TrimSuffix(r.Workload+"/"+r.PodGroup+"/"+r.Replica, "/")
}

const (
	// longestStem is the maximum length of the readable part of a PodGroup's name, in characters.
	// With the hash, the name fits into the value of a label.
	longestStem = 54
	// hashLength is the length of the hash in a PodGroup's name, in characters. It distinguishes
	// references with the same readable part.
	hashLength = 8
)

// GroupName returns the name of the PodGroup that Reprieve creates for the referenced group.
func (r WorkloadRef) GroupName() string {
	stem := r.Workload + "-" + r.PodGroup
	if r.Replica != "" {
		stem += "-" + r.Replica
	}
	stem = strings.TrimRight(stem[:min(len(stem), longestStem)], "-.")
	sum := sha256.Sum256([]byte(r.String()))
	return stem + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// setWorkloadRef sets spec.schedulingGroup of a pod to the PodGroup for its spec.workloadRef, if it
// has a reference.
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

// GroupOfWorkload returns the policy of a group of a Workload; false if the Workload has no such
// group.
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
