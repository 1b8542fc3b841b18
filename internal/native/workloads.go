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

// workloadsVersion is the version of scheduling.k8s.io in which pods name a group of a Workload in spec.workloadRef, and
// there are no PodGroups: that of Kubernetes 1.35.
const workloadsVersion = "v1alpha1"

// AnnotationWorkloadRef is where a pod that a [NewClientset] has read says which group of which Workload it has named, as
// "workload/group" or "workload/group/replica". It is never written, and what a pod has there by itself is dropped.
const AnnotationWorkloadRef = v1alpha1.GroupName + "/workload-ref"

// WorkloadRef names a group of a Workload, in the namespace of the pod.
type WorkloadRef struct {
	Workload, PodGroup string
	// Replica tells groups apart that are alike; it may be "".
	Replica string
}

// WorkloadRefOf reads what a pod has named, if anything.
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

// String is the value of AnnotationWorkloadRef. None of the parts can have a slash.
func (r WorkloadRef) String() string {
	return strings.TrimSuffix(r.Workload+"/"+r.PodGroup+"/"+r.Replica, "/")
}

const (
	// longestStem is what the name of a PodGroup keeps of the names that it is made of, and hashLength what tells those apart
	// that keep the same. Together they fit into a label.
	longestStem, hashLength = 54, 8
)

// GroupName is the name of the PodGroup that stands for the group.
func (r WorkloadRef) GroupName() string {
	stem := r.Workload + "-" + r.PodGroup
	if r.Replica != "" {
		stem += "-" + r.Replica
	}
	stem = strings.TrimRight(stem[:min(len(stem), longestStem)], "-.")
	sum := sha256.Sum256([]byte(r.String()))
	return stem + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// setWorkloadRef has a pod name the PodGroup that stands for the group of its spec.workloadRef.
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

// GroupOfWorkload is the policy of a group of a Workload, or false where the Workload has none of that name.
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
