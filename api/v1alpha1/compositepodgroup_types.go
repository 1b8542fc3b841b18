package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CompositeDisruptionMode determines whether the groups of a CompositePodGroup are preempted one by
// one or together.
//
// +kubebuilder:validation:Enum=Single;All
type CompositeDisruptionMode string

const (
	// CompositeDisruptionModeSingle preempts each group below the CompositePodGroup on its own, by
	// the mode of that group.
	CompositeDisruptionModeSingle CompositeDisruptionMode = "Single"
	// CompositeDisruptionModeAll preempts all groups below the CompositePodGroup together, or none.
	// It requires the gang policy.
	CompositeDisruptionModeAll CompositeDisruptionMode = "All"
)

// MaxTreeDepth is the maximum number of levels of a tree of groups. The PodGroups are the lowest
// level.
const MaxTreeDepth = 4

// Reasons of ConditionPodGroupScheduled in a tree of groups. If one group causes a reason, the
// conditions of all groups of the tree have it. The condition can also have two reasons that are
// declared for Queues. ReasonParentNotFound means that a group names a parent that does not exist
// in its namespace. ReasonParentCycle means that a group is its own ancestor.
const (
	// ReasonTreeTooDeep: the tree has more than MaxTreeDepth levels.
	ReasonTreeTooDeep = "TreeTooDeep"
	// ReasonPriorityDiffers: the priority or preemptionPolicy of a group differs from the root's.
	ReasonPriorityDiffers = "PriorityDiffers"
	// ReasonQueueDiffers: the PodGroups of the tree name different Queues.
	ReasonQueueDiffers = "QueueDiffers"
	// ReasonNotEnoughGroups: fewer than minGroupCount groups have enough members.
	ReasonNotEnoughGroups = "NotEnoughGroups"
)

// CompositePodGroup is a set of PodGroups, or of other CompositePodGroups, that are scheduled and
// may be disrupted as a unit. Each group of the set has the name of the CompositePodGroup in its
// parentCompositePodGroupName.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories=reprieve,shortName=cpg
// +kubebuilder:validation:XValidation:rule="!has(self.spec.schedulingPolicy.gang) || !has(oldSelf.spec.schedulingPolicy.gang) || self.spec.schedulingPolicy.gang.minGroupCount <= oldSelf.spec.schedulingPolicy.gang.minGroupCount || !has(oldSelf.status) || !has(oldSelf.status.scheduled) || oldSelf.status.scheduled == 0",message="cannot be raised while members have a node; it may be lowered at any time",reason=FieldValueForbidden,fieldPath=".spec.schedulingPolicy.gang.minGroupCount"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="Groups-Needed",type=integer,JSONPath=`.spec.schedulingPolicy.gang.minGroupCount`
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parentCompositePodGroupName`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="PodGroupScheduled")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Priority",type=integer,priority=1,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Mode",type=string,priority=1,JSONPath=`.spec.disruptionMode`
// +kubebuilder:printcolumn:name="Pending",type=integer,priority=1,JSONPath=`.status.pending`
// +kubebuilder:printcolumn:name="Disruptions",type=integer,priority=1,JSONPath=`.status.lastDisruption.count`
type CompositePodGroup struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the request of the user. It is immutable, except for minGroupCount and the fields
	// that Reprieve fills in.
	// +required
	Spec CompositePodGroupSpec `json:"spec"`
	// status is the observed state. It counts the members of all PodGroups below the
	// CompositePodGroup. Only Reprieve writes it.
	// +optional
	Status PodGroupStatus `json:"status,omitempty"`
}

// CompositePodGroupSpec is the part of a CompositePodGroup that its user writes.
//
// +kubebuilder:validation:XValidation:rule="has(self.parentCompositePodGroupName) == has(oldSelf.parentCompositePodGroupName) && (!has(self.parentCompositePodGroupName) || self.parentCompositePodGroupName == oldSelf.parentCompositePodGroupName)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".parentCompositePodGroupName"
// +kubebuilder:validation:XValidation:rule="has(self.schedulingPolicy.gang) == has(oldSelf.schedulingPolicy.gang)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".schedulingPolicy"
// +kubebuilder:validation:XValidation:rule="has(self.disruptionMode) == has(oldSelf.disruptionMode) && (!has(self.disruptionMode) || self.disruptionMode == oldSelf.disruptionMode)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".disruptionMode"
// +kubebuilder:validation:XValidation:rule="!has(self.disruptionMode) || self.disruptionMode != 'All' || !has(self.schedulingPolicy.basic)",message="All takes the gang scheduling policy; groups that are placed one by one (basic) are disrupted one by one (Single)",fieldPath=".disruptionMode"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.priorityClassName) ? has(self.priorityClassName) && self.priorityClassName == oldSelf.priorityClassName : !has(self.priorityClassName) || (!has(oldSelf.priority) && has(self.priority))",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".priorityClassName"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.priority) || (has(self.priority) && self.priority == oldSelf.priority)",message="field is immutable once it is filled in",reason=FieldValueForbidden,fieldPath=".priority"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.preemptionPolicy) || (has(self.preemptionPolicy) && self.preemptionPolicy == oldSelf.preemptionPolicy)",message="field is immutable once it is filled in",reason=FieldValueForbidden,fieldPath=".preemptionPolicy"
type CompositePodGroupSpec struct {
	// parentCompositePodGroupName is the CompositePodGroup above this one, in the same namespace. A
	// CompositePodGroup without it is the root of a tree. A tree has at most 4 levels, the
	// PodGroups included. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ParentCompositePodGroupName *string `json:"parentCompositePodGroupName,omitempty"`

	// schedulingPolicy defines the placement of the groups. Exactly one of its fields is set.
	// Immutable, except for minGroupCount.
	// +required
	SchedulingPolicy CompositeSchedulingPolicy `json:"schedulingPolicy"`

	// disruptionMode is the unit of preemption. With Single, each group is preempted on its own, by
	// its own mode. With All, all groups are preempted together or none; this requires the gang
	// policy. Single if unset. In a tree, the highest level with All decides. Immutable.
	// +optional
	DisruptionMode *CompositeDisruptionMode `json:"disruptionMode,omitempty"`

	// priorityClassName is the PriorityClass of the tree. If a group of the tree differs from the
	// root in priority or preemptionPolicy, no group of the tree is scheduled. If unset, the global
	// default class applies, and Reprieve fills in its name together with priority. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName *string `json:"priorityClassName,omitempty"`

	// priority is the value of the PriorityClass; a higher value is more important. Reprieve fills
	// it in; users do not set it. Immutable once it is filled in.
	// +optional
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2147483647
	Priority *int32 `json:"priority,omitempty"`

	// preemptionPolicy is the preemptionPolicy of the PriorityClass: PreemptLowerPriority or Never.
	// Reprieve fills it in together with priority; users do not set it. Immutable once it is filled
	// in.
	// +optional
	// +kubebuilder:validation:Enum=Never;PreemptLowerPriority
	PreemptionPolicy *corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`
}

// CompositeSchedulingPolicy defines the placement of the groups of a CompositePodGroup. Exactly one
// field is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.basic) != has(self.gang)",messageExpression="has(self.basic) ? 'set one of basic and gang, not both' : 'set one of basic and gang'"
type CompositeSchedulingPolicy struct {
	// basic places each group independently of the others.
	// +optional
	Basic *BasicSchedulingPolicy `json:"basic,omitempty"`
	// gang places at least minGroupCount groups together or none.
	// +optional
	Gang *CompositeGangSchedulingPolicy `json:"gang,omitempty"`
}

// CompositeGangSchedulingPolicy places groups together.
type CompositeGangSchedulingPolicy struct {
	// minGroupCount is the number of groups directly below that must be able to run at the same
	// time; at least 1. A group is able to run if it satisfies its own minCount or minGroupCount.
	// Further groups are placed where they fit, each as a whole. You can lower it at any time, and
	// raise it while no member has a node.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	MinGroupCount int32 `json:"minGroupCount"`
}

// CompositePodGroupList is a list of CompositePodGroups.
//
// +kubebuilder:object:root=true
type CompositePodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CompositePodGroup `json:"items"`
}
