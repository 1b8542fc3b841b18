package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DisruptionMode determines whether the members of a PodGroup are preempted one by one or together
// (KEP-5710, "Preemption unit").
//
// +kubebuilder:validation:Enum=Pod;PodGroup;Never
type DisruptionMode string

const (
	// DisruptionModePod preempts each member on its own.
	DisruptionModePod DisruptionMode = "Pod"
	// DisruptionModePodGroup preempts all members together or none. It requires the gang policy.
	DisruptionModePodGroup DisruptionMode = "PodGroup"
	// DisruptionModeNever protects the members for a time, while other groups of the tree may be
	// preempted. It requires the gang policy and a parent. The annotation
	// reprieve.dev/never-seconds of the PriorityClass sets the time. Afterwards, each member is
	// preempted on its own.
	DisruptionModeNever DisruptionMode = "Never"
)

// PodGroup is a set of Pods that are scheduled, and may be disrupted, as a unit.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories=reprieve,shortName=pg
// +kubebuilder:selectablefield:JSONPath=`.spec.queueName`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.schedulingPolicy) || !has(self.spec.schedulingPolicy.gang) || !has(oldSelf.spec.schedulingPolicy) || !has(oldSelf.spec.schedulingPolicy.gang) || self.spec.schedulingPolicy.gang.minCount <= oldSelf.spec.schedulingPolicy.gang.minCount || !has(oldSelf.status) || !has(oldSelf.status.scheduled) || oldSelf.status.scheduled == 0",message="cannot be raised while members have a node; it may be lowered at any time",reason=FieldValueForbidden,fieldPath=".spec.schedulingPolicy.gang.minCount"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="Needed",type=integer,JSONPath=`.spec.schedulingPolicy.gang.minCount`
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.queueName`
// +kubebuilder:printcolumn:name="Protected-Until",type=string,JSONPath=`.status.protectedUntil`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="PodGroupScheduled")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Priority",type=integer,priority=1,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Mode",type=string,priority=1,JSONPath=`.spec.disruptionMode`
// +kubebuilder:printcolumn:name="Pending",type=integer,priority=1,JSONPath=`.status.pending`
// +kubebuilder:printcolumn:name="Terminating",type=integer,priority=1,JSONPath=`.status.terminating`
// +kubebuilder:printcolumn:name="Finished",type=integer,priority=1,JSONPath=`.status.finished`
// +kubebuilder:printcolumn:name="Disruptions",type=integer,priority=1,JSONPath=`.status.lastDisruption.count`
// +kubebuilder:printcolumn:name="Last-Preemptor",type=string,priority=1,JSONPath=`.status.lastDisruption.preemptor.name`
type PodGroup struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the request of the user. It is immutable, except for minCount,
	// preemptionPriorityClassName and the fields that Reprieve fills in.
	// +required
	Spec PodGroupSpec `json:"spec"`
	// status is the observed state. Only Reprieve writes it.
	// +optional
	Status PodGroupStatus `json:"status,omitempty"`
}

// PodGroupSpec is the part of a PodGroup that its user writes.
//
// +kubebuilder:validation:XValidation:rule="has(self.schedulingPolicy) || has(self.podGroupTemplateRef)",message="set it here, or name a template that has it in podGroupTemplateRef",reason=FieldValueRequired,fieldPath=".schedulingPolicy"
// +kubebuilder:validation:XValidation:rule="has(self.podGroupTemplateRef) == has(oldSelf.podGroupTemplateRef) && (!has(self.podGroupTemplateRef) || self.podGroupTemplateRef == oldSelf.podGroupTemplateRef)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".podGroupTemplateRef"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.schedulingPolicy) ? has(self.schedulingPolicy) && has(self.schedulingPolicy.gang) == has(oldSelf.schedulingPolicy.gang) : !has(self.schedulingPolicy) || has(self.podGroupTemplateRef)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".schedulingPolicy"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.disruptionMode) ? has(self.disruptionMode) && self.disruptionMode == oldSelf.disruptionMode : !has(self.disruptionMode) || has(self.podGroupTemplateRef)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".disruptionMode"
// +kubebuilder:validation:XValidation:rule="!has(self.disruptionMode) || self.disruptionMode != 'Never' || has(self.parentCompositePodGroupName) || has(self.podGroupTemplateRef)",message="Never is for a part of a tree; set parentCompositePodGroupName, or use Pod or PodGroup",fieldPath=".disruptionMode"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.priorityClassName) ? has(self.priorityClassName) && self.priorityClassName == oldSelf.priorityClassName : !has(self.priorityClassName) || has(self.podGroupTemplateRef) || (!has(oldSelf.priority) && has(self.priority))",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".priorityClassName"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.queueName) ? has(self.queueName) && self.queueName == oldSelf.queueName : !has(self.queueName) || has(self.podGroupTemplateRef)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".queueName"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.parentCompositePodGroupName) ? has(self.parentCompositePodGroupName) && self.parentCompositePodGroupName == oldSelf.parentCompositePodGroupName : !has(self.parentCompositePodGroupName) || has(self.podGroupTemplateRef)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".parentCompositePodGroupName"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.schedulingConstraints) ? has(self.schedulingConstraints) && self.schedulingConstraints == oldSelf.schedulingConstraints : !has(self.schedulingConstraints) || has(self.podGroupTemplateRef)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".schedulingConstraints"
type PodGroupSpec struct {
	// podGroupTemplateRef names the template of this group, in a Workload in the same namespace.
	// Unset fields take the value of the template.
	// +optional
	PodGroupTemplateRef *PodGroupTemplateReference `json:"podGroupTemplateRef,omitempty"`

	PodGroupPolicy `json:",inline"`
}

// PodGroupTemplateReference names one template of one Workload.
type PodGroupTemplateReference struct {
	// workloadName is the name of a Workload in the PodGroup's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	WorkloadName string `json:"workloadName"`
	// podGroupTemplateName is the name of one of the Workload's podGroupTemplates.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	PodGroupTemplateName string `json:"podGroupTemplateName"`
}

// PodGroupPolicy holds the fields that a PodGroup and a PodGroupTemplate share.
//
// +kubebuilder:validation:XValidation:rule="!has(self.disruptionMode) || self.disruptionMode != 'PodGroup' || !has(self.schedulingPolicy) || !has(self.schedulingPolicy.basic)",message="PodGroup takes the gang scheduling policy; members that are placed one by one (basic) are disrupted one by one (Pod)",fieldPath=".disruptionMode"
// +kubebuilder:validation:XValidation:rule="!has(self.disruptionMode) || self.disruptionMode != 'Never' || !has(self.schedulingPolicy) || !has(self.schedulingPolicy.basic)",message="Never takes the gang scheduling policy; members that are placed one by one (basic) are disrupted one by one (Pod)",fieldPath=".disruptionMode"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.priority) || (has(self.priority) && self.priority == oldSelf.priority)",message="field is immutable once it is filled in",reason=FieldValueForbidden,fieldPath=".priority"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.preemptionPolicy) || (has(self.preemptionPolicy) && self.preemptionPolicy == oldSelf.preemptionPolicy)",message="field is immutable once it is filled in",reason=FieldValueForbidden,fieldPath=".preemptionPolicy"
// +kubebuilder:validation:XValidation:rule="!has(self.schedulingConstraints) || !has(self.schedulingPolicy) || !has(self.schedulingPolicy.basic)",message="constraints take the gang scheduling policy; members that are placed one by one (basic) may be anywhere",fieldPath=".schedulingConstraints"
// +kubebuilder:validation:XValidation:rule="!has(self.preemptionPriorityClassName) || !has(self.priorityClassName) || !self.priorityClassName.startsWith('system-')",message="the group has a class of the system, and every class that may be set here is below it",fieldPath=".preemptionPriorityClassName"
type PodGroupPolicy struct {
	// schedulingPolicy defines the placement of the members. Exactly one of its fields is set. It
	// is required unless podGroupTemplateRef names a template that has it.
	// +optional
	SchedulingPolicy *SchedulingPolicy `json:"schedulingPolicy,omitempty"`

	// disruptionMode is the unit of preemption. With Pod, each member is preempted on its own. With
	// PodGroup, all members are preempted together or none; this requires the gang policy. With
	// Never, the members are protected while other groups of the tree may be preempted, for the
	// reprieve.dev/never-seconds of the PriorityClass; this requires a parent and the gang policy.
	// Pod if unset. Immutable.
	// +optional
	DisruptionMode *DisruptionMode `json:"disruptionMode,omitempty"`

	// priorityClassName is the PriorityClass of the group. Its priority applies to the scheduling
	// and to the preemption of the group. "system-node-critical" and "system-cluster-critical" are
	// the two highest priorities. For any other name, a PriorityClass must exist. If unset, the
	// global default class applies, and Reprieve fills in its name together with priority. Without
	// a global default class, the priority is 0. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName *string `json:"priorityClassName,omitempty"`

	// priority is the value of the group's PriorityClass; a higher value is more important. It
	// applies to every member, regardless of the Pod's own priority. Reprieve fills it in; users do
	// not set it. Later changes of the class have no effect on it. Immutable once it is filled in.
	// +optional
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2147483647
	Priority *int32 `json:"priority,omitempty"`

	// preemptionPolicy is the preemptionPolicy of the group's PriorityClass. With
	// PreemptLowerPriority, the group may preempt. With Never, the group waits for free room.
	// Reprieve fills it in together with priority; users do not set it. Immutable once it is filled
	// in.
	// +optional
	// +kubebuilder:validation:Enum=Never;PreemptLowerPriority
	PreemptionPolicy *corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`

	// preemptionPriorityClassName is the PriorityClass that applies in place of the group's
	// priority while the group is a potential victim. It has no effect when the group preempts or
	// waits. A class below the group's priority has no effect, and neither has a class that does
	// not exist. The maxPriorityClass of the group's Queue is an upper bound. You can set, change
	// and remove the field at any time. The condition PreemptionPriority has the priority that
	// applies.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system-')",message="classes whose names begin with system- are for work of the system; name another class"
	PreemptionPriorityClassName *string `json:"preemptionPriorityClassName,omitempty"`

	// queueName is the leaf Queue that counts the usage of the group. If unset, the default Queue
	// of the namespace applies, from the annotation reprieve.dev/queue of the namespace. Without
	// either, the group is in no Queue. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	QueueName *string `json:"queueName,omitempty"`

	// parentCompositePodGroupName is the CompositePodGroup that the group belongs to, in the same
	// namespace. The CompositePodGroup determines which of its groups are placed together.
	// Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ParentCompositePodGroupName *string `json:"parentCompositePodGroupName,omitempty"`

	// schedulingConstraints restrict where members may be placed relative to each other. They
	// require the gang policy. Immutable.
	// +optional
	SchedulingConstraints *SchedulingConstraints `json:"schedulingConstraints,omitempty"`
}

// TopologyKey returns the node label whose value all members share; "" for none.
func (p *PodGroupPolicy) TopologyKey() string {
	if p.SchedulingConstraints == nil {
		return ""
	}
	for i := range p.SchedulingConstraints.Topology {
		if t := &p.SchedulingConstraints.Topology[i]; t.Mode != TopologyModePreferred {
			return t.Key
		}
	}
	return ""
}

// PreferredKeys returns the node labels whose value the members should share, the nearest level
// first.
func (p *PodGroupPolicy) PreferredKeys() []string {
	if p.SchedulingConstraints == nil {
		return nil
	}
	var keys []string
	for i := range p.SchedulingConstraints.Topology {
		if t := &p.SchedulingConstraints.Topology[i]; t.Mode == TopologyModePreferred {
			keys = append(keys, t.Key)
		}
	}
	return keys
}

// SchedulingConstraints restrict the nodes of the members of a PodGroup.
type SchedulingConstraints struct {
	// topology confines all members to one topology domain: the nodes with one value of a label.
	// Reprieve chooses the domain where the victims cost least, and among equal domains the fullest
	// one. Each entry is a level, such as racks. The nearest level comes first. Any number of
	// levels may be preferred. At most one level is required, and it is the last entry.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:XValidation:rule="self.all(t, self.exists_one(o, o.key == t.key))",message="each key may be listed once"
	// +kubebuilder:validation:XValidation:rule="!self.exists(t, !has(t.mode) || t.mode == 'Required') || (self.exists_one(t, !has(t.mode) || t.mode == 'Required') && (!has(self[self.size() - 1].mode) || self[self.size() - 1].mode == 'Required'))",message="at most one key is required, and it is the last one: preferred levels are inside of it and come before it, the nearest first"
	Topology []TopologyConstraint `json:"topology"`
}

// TopologyMode determines whether a topology constraint must hold.
//
// +kubebuilder:validation:Enum=Required;Preferred
type TopologyMode string

const (
	// TopologyModeRequired keeps a group pending until all members can share a domain.
	TopologyModeRequired TopologyMode = "Required"
	// TopologyModePreferred permits members in several domains.
	TopologyModePreferred TopologyMode = "Preferred"
)

// TopologyConstraint confines the members of a PodGroup to one domain.
type TopologyConstraint struct {
	// key is the node label whose values are the domains, such as "topology.kubernetes.io/zone".
	// Nodes without the label, or with an empty value, are in no domain.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	Key string `json:"key"`
	// mode is Required if all members must share a domain, and Preferred if they should. The
	// argument levelOrder of the profile determines whether a preferred level or the cost of
	// victims comes first. Required if unset.
	// +optional
	Mode TopologyMode `json:"mode,omitempty"`
}

// SchedulingPolicy defines the placement of the members of a PodGroup. Exactly one field is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.basic) != has(self.gang)",messageExpression="has(self.basic) ? 'set one of basic and gang, not both' : 'set one of basic and gang'"
type SchedulingPolicy struct {
	// basic places members one by one, like Pods without a group.
	// +optional
	Basic *BasicSchedulingPolicy `json:"basic,omitempty"`
	// gang places at least minCount members together or none.
	// +optional
	Gang *GangSchedulingPolicy `json:"gang,omitempty"`
}

// BasicSchedulingPolicy places members one by one. It has no fields.
type BasicSchedulingPolicy struct{}

// GangSchedulingPolicy places members together.
type GangSchedulingPolicy struct {
	// minCount is the number of members that must be able to run at the same time for the group to
	// be placed; at least 1. Further members are placed where they fit. In a PodGroup you can lower
	// it at any time, and raise it while no member has a node.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	MinCount int32 `json:"minCount"`
}

// PodGroupList is a list of PodGroups.
//
// +kubebuilder:object:root=true
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodGroup `json:"items"`
}
