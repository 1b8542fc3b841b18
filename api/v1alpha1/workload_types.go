package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Workload describes the groups of Pods of one application, as templates for PodGroups.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,categories=reprieve
// +kubebuilder:printcolumn:name="Controller",type=string,JSONPath=`.spec.controllerRef.name`
// +kubebuilder:printcolumn:name="Templates",type=string,JSONPath=`.spec.podGroupTemplates[*].name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Workload struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec lists the groups of the application. It is immutable, except for
	// preemptionPriorityClassName and the fields that Reprieve fills in.
	// +required
	Spec WorkloadSpec `json:"spec"`
}

// WorkloadSpec lists the groups of an application.
//
// +kubebuilder:validation:XValidation:rule="has(self.controllerRef) == has(oldSelf.controllerRef) && (!has(self.controllerRef) || self.controllerRef == oldSelf.controllerRef)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".controllerRef"
// +kubebuilder:validation:XValidation:rule="self.podGroupTemplates.size() == oldSelf.podGroupTemplates.size() && self.podGroupTemplates.all(t, oldSelf.podGroupTemplates.exists(o, o.name == t.name))",message="templates cannot be added, removed or renamed after creation",reason=FieldValueForbidden,fieldPath=".podGroupTemplates"
type WorkloadSpec struct {
	// controllerRef names the object that runs the application, such as a Job or a LeaderWorkerSet.
	// It informs people and tools, and has no effect on scheduling.
	// +optional
	ControllerRef *ControllerReference `json:"controllerRef,omitempty"`

	// podGroupTemplates are the groups of the application, 1 to 8, each with a unique name.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	PodGroupTemplates []PodGroupTemplate `json:"podGroupTemplates"`
}

// ControllerReference names an object in the Workload's namespace.
type ControllerReference struct {
	// apiGroup of the object; empty for the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`
	// kind of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// PodGroupTemplate is a named template for PodGroups.
//
// +kubebuilder:validation:XValidation:rule="has(self.schedulingPolicy)",message="a template needs one",reason=FieldValueRequired,fieldPath=".schedulingPolicy"
// +kubebuilder:validation:XValidation:rule="has(self.schedulingPolicy) == has(oldSelf.schedulingPolicy) && (!has(self.schedulingPolicy) || self.schedulingPolicy == oldSelf.schedulingPolicy)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".schedulingPolicy"
// +kubebuilder:validation:XValidation:rule="has(self.disruptionMode) == has(oldSelf.disruptionMode) && (!has(self.disruptionMode) || self.disruptionMode == oldSelf.disruptionMode)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".disruptionMode"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.priorityClassName) ? has(self.priorityClassName) && self.priorityClassName == oldSelf.priorityClassName : !has(self.priorityClassName) || (!has(oldSelf.priority) && has(self.priority))",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".priorityClassName"
// +kubebuilder:validation:XValidation:rule="has(self.queueName) == has(oldSelf.queueName) && (!has(self.queueName) || self.queueName == oldSelf.queueName)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".queueName"
// +kubebuilder:validation:XValidation:rule="has(self.parentCompositePodGroupName) == has(oldSelf.parentCompositePodGroupName) && (!has(self.parentCompositePodGroupName) || self.parentCompositePodGroupName == oldSelf.parentCompositePodGroupName)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".parentCompositePodGroupName"
// +kubebuilder:validation:XValidation:rule="has(self.schedulingConstraints) == has(oldSelf.schedulingConstraints) && (!has(self.schedulingConstraints) || self.schedulingConstraints == oldSelf.schedulingConstraints)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".schedulingConstraints"
type PodGroupTemplate struct {
	// name of the template, a DNS label, unique in its Workload.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	PodGroupPolicy `json:",inline"`
}

// WorkloadList is a list of Workloads.
//
// +kubebuilder:object:root=true
type WorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Workload `json:"items"`
}
