package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// LabelPodGroup is the label by which a Pod joins the PodGroup of that name in its own namespace.
const LabelPodGroup = "reprieve.dev/pod-group"

// Annotations of an object whose pods are to be a gang, such as a Job, or of its namespace, for all that do not say otherwise.
const (
	// AnnotationGang asks for a PodGroup with "true", and for none with "false".
	AnnotationGang = "reprieve.dev/gang"
	// AnnotationGangPer says what a gang spans: GangPerObject, or GangPerRole.
	AnnotationGangPer = "reprieve.dev/gang-per"
	// AnnotationDisruptionMode, AnnotationPriorityClass and AnnotationQueue are the disruptionMode, priorityClassName and
	// queueName of the PodGroup that is made.
	AnnotationDisruptionMode = "reprieve.dev/disruption-mode"
	AnnotationPriorityClass  = "reprieve.dev/priority-class"
	AnnotationQueue          = LabelQueue
)

// Annotations of a PodGroup that Reprieve has made: where its class and its queue are from, if not from its pods. They stay as long as it
// does, whatever is asked for since.
const (
	AnnotationClassOf = "reprieve.dev/class-of"
	AnnotationQueueOf = "reprieve.dev/queue-of"
	// FromObject is for what the object asks for, and FromNamespace for what its namespace does: a class may be above that of the pods then.
	FromObject    = "object"
	FromNamespace = "namespace"
)

// Values of AnnotationGangPer.
const (
	// GangPerObject has one gang for all roles.
	GangPerObject = "object"
	// GangPerRole has one gang for each role.
	GangPerRole = "role"
)

// DisruptionMode says what is disrupted together when a PodGroup has to give up room (KEP-5710,
// "Preemption unit").
//
// +kubebuilder:validation:Enum=Pod;PodGroup
type DisruptionMode string

const (
	// DisruptionModePod lets each member be preempted on its own.
	DisruptionModePod DisruptionMode = "Pod"
	// DisruptionModePodGroup preempts all members together or none. It takes the gang policy.
	DisruptionModePodGroup DisruptionMode = "PodGroup"
)

// Types of the conditions in PodGroupStatus.
const (
	// ConditionPodGroupScheduled is True while at least minCount members (at least one, under the basic
	// policy) have a node. While it is False its reason and message say what stands in the way.
	ConditionPodGroupScheduled = "PodGroupScheduled"
	// ConditionDisruptionTarget is True from the moment Reprieve has decided to preempt the whole group
	// until the last of the members it applied to, those in status.disruption, is gone. Its message names the
	// preemptor.
	ConditionDisruptionTarget = "DisruptionTarget"
	// ConditionPodsNotMatchingPriority is True while a member carries a priority other than the group's.
	// The group's is the one that counts.
	ConditionPodsNotMatchingPriority = "PodsNotMatchingPriority"
	// ConditionFollowsObject is False while a PodGroup that Reprieve has made is not as the object that it was made for asks.
	// Its message says how. It is absent where that has never been so.
	ConditionFollowsObject = "FollowsObject"
	// ConditionQueueOrphaned is True while members have a node and the Queue that the group names cannot have
	// them: it is gone, has others below it, or cannot be used. The members stay, and count for no queue. Its
	// reason is the one that pending work is given. The condition is absent otherwise.
	ConditionQueueOrphaned = "QueueOrphaned"
	// ConditionDegraded is True while a gang lacks members that it had: at least minCount members
	// had a node at the same time, some still have one, and fewer than minCount have one or have
	// succeeded. Its message has the numbers, and lastTransitionTime is the time from which on the
	// gang has lacked members. The condition is absent where that has never been so.
	ConditionDegraded = "Degraded"
)

// Reasons of ConditionDegraded.
const (
	// ReasonMembersLost: the gang has fewer members on nodes than it needs, and had enough.
	ReasonMembersLost = "MembersLost"
	// ReasonWhole: enough members have a node, or have succeeded, again.
	ReasonWhole = "Whole"
	// ReasonNoneLeft: no member has a node any more. The gang waits as a whole.
	ReasonNoneLeft = "NoneLeft"
)

// Reasons of ConditionPodGroupScheduled.
const (
	// ReasonScheduled: enough members have a node.
	ReasonScheduled = "Scheduled"
	// ReasonNotEnoughMembers: fewer members exist than minCount asks for.
	ReasonNotEnoughMembers = "NotEnoughMembers"
	// ReasonBehindItsObject: the object that the PodGroup was made for asks for more members than it does, and none has
	// a node.
	ReasonBehindItsObject = "BehindItsObject"
	// ReasonPriorityAbovePods: the PodGroup was made for pods that have none, with a class that one that has come since
	// does not have. It is made anew while no member has a node.
	ReasonPriorityAbovePods = "PriorityAbovePods"
	// ReasonWorkIsOver: the object that the PodGroup was made for is over, and no member of it runs or waits.
	ReasonWorkIsOver = "WorkIsOver"
	// ReasonMixedSchedulerNames: members name different schedulers, so no one scheduler can place the gang.
	ReasonMixedSchedulerNames = "MixedSchedulerNames"
	// ReasonSchedulerNotServed: members name a scheduler that is no profile of Reprieve's.
	ReasonSchedulerNotServed = "SchedulerNotServed"
	// ReasonPriorityClassNotFound: the PodGroup names a PriorityClass that does not exist.
	ReasonPriorityClassNotFound = "PriorityClassNotFound"
	// ReasonTemplateNotFound: podGroupTemplateRef names a Workload, or a template in it, that does not exist.
	ReasonTemplateNotFound = "TemplateNotFound"
	// ReasonAmbiguousName: reprieve.dev and scheduling.k8s.io both have a PodGroup of that name.
	ReasonAmbiguousName = "AmbiguousName"
	// ReasonUnsupported: a PodGroup of scheduling.k8s.io asks for what Reprieve cannot give.
	ReasonUnsupported = "Unsupported"
	// ReasonInvalidTemplate: what the PodGroup sets itself and what its template has do not go together.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonNotFilledIn: the API server does not let Reprieve fill the PodGroup in.
	ReasonNotFilledIn = "NotFilledIn"
	// ReasonQueueNotFound: the PodGroup names a Queue that does not exist.
	ReasonQueueNotFound = "QueueNotFound"
	// ReasonQueueNotLeaf: the PodGroup names a Queue that has others below it.
	ReasonQueueNotLeaf = "QueueNotLeaf"
	// ReasonQueueUnusable: the PodGroup names a Queue whose parents do not lead to the top of the tree.
	ReasonQueueUnusable = "QueueUnusable"
	// ReasonQueueNotAllowed: the PodGroup names a Queue that its namespace may not use.
	ReasonQueueNotAllowed = "QueueNotAllowed"
	// ReasonPriorityAboveQueue: the PodGroup has a priority above that of its Queue's maxPriorityClass.
	ReasonPriorityAboveQueue = "PriorityAboveQueue"
	// ReasonQueueRequired: the PodGroup is in no Queue, and the profile of its members takes no work without one.
	ReasonQueueRequired = "QueueRequired"
	// ReasonQueueLimit: the limit of a Queue leaves no room for the gang as a whole.
	ReasonQueueLimit = "QueueLimit"
	// ReasonUnschedulable: the members exist, but the cluster has no room for the gang as a whole.
	ReasonUnschedulable = "Unschedulable"
	// ReasonPreempting: room is being made by preemption; the members wait on their nominated nodes.
	ReasonPreempting = "Preempting"
	// ReasonPending: the group waits for its turn.
	ReasonPending = "Pending"
)

// Reasons of ConditionPodsNotMatchingPriority.
const (
	// ReasonPodsNotMatchingPriority: the condition's message names a member whose priority differs.
	ReasonPodsNotMatchingPriority = "PodsNotMatchingPriority"
	// ReasonPodsMatchingPriority: no member's priority differs any more.
	ReasonPodsMatchingPriority = "PodsMatchingPriority"
)

// Reasons of ConditionFollowsObject.
const (
	// ReasonObjectNotFollowed: the condition's message says what cannot be followed, or not yet.
	ReasonObjectNotFollowed = "ObjectNotFollowed"
	// ReasonObjectFollowed: the PodGroup is as its object asks again.
	ReasonObjectFollowed = "ObjectFollowed"
)

// Reasons of ConditionDisruptionTarget.
const (
	// ReasonPreemptionByScheduler is the reason of DisruptionTarget conditions, on Pods (where Kubernetes
	// knows the same reason) and on PodGroups.
	ReasonPreemptionByScheduler = "PreemptionByScheduler"
	// ReasonPreemptionWithdrawn: a preemption was given up before any member was deleted.
	ReasonPreemptionWithdrawn = "PreemptionWithdrawn"
)

// PodGroup is a set of Pods that are scheduled, and may be disrupted, as one.
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

	// spec is what the user asks for. It cannot be changed after creation, except for minCount, and that Reprieve
	// fills in what it resolves.
	// +required
	Spec PodGroupSpec `json:"spec"`
	// status is what Reprieve observes and decides. It is written by Reprieve only.
	// +optional
	Status PodGroupStatus `json:"status,omitempty"`
}

// PodGroupSpec is what a user asks for.
//
// +kubebuilder:validation:XValidation:rule="has(self.schedulingPolicy) || has(self.podGroupTemplateRef)",message="set it here, or name a template that has it in podGroupTemplateRef",reason=FieldValueRequired,fieldPath=".schedulingPolicy"
// +kubebuilder:validation:XValidation:rule="has(self.podGroupTemplateRef) == has(oldSelf.podGroupTemplateRef) && (!has(self.podGroupTemplateRef) || self.podGroupTemplateRef == oldSelf.podGroupTemplateRef)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".podGroupTemplateRef"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.schedulingPolicy) ? has(self.schedulingPolicy) && has(self.schedulingPolicy.gang) == has(oldSelf.schedulingPolicy.gang) : !has(self.schedulingPolicy) || has(self.podGroupTemplateRef)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".schedulingPolicy"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.disruptionMode) ? has(self.disruptionMode) && self.disruptionMode == oldSelf.disruptionMode : !has(self.disruptionMode) || has(self.podGroupTemplateRef)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".disruptionMode"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.priorityClassName) ? has(self.priorityClassName) && self.priorityClassName == oldSelf.priorityClassName : !has(self.priorityClassName) || has(self.podGroupTemplateRef) || (!has(oldSelf.priority) && has(self.priority))",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".priorityClassName"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.queueName) ? has(self.queueName) && self.queueName == oldSelf.queueName : !has(self.queueName) || has(self.podGroupTemplateRef)",message="field is immutable after creation",reason=FieldValueForbidden,fieldPath=".queueName"
type PodGroupSpec struct {
	// podGroupTemplateRef names the template of a Workload in the same namespace that this group was made
	// from. Fields that are unset here take the template's value.
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
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.priority) || (has(self.priority) && self.priority == oldSelf.priority)",message="field is immutable once it is filled in",reason=FieldValueForbidden,fieldPath=".priority"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.preemptionPolicy) || (has(self.preemptionPolicy) && self.preemptionPolicy == oldSelf.preemptionPolicy)",message="field is immutable once it is filled in",reason=FieldValueForbidden,fieldPath=".preemptionPolicy"
type PodGroupPolicy struct {
	// schedulingPolicy says how the members are placed. Exactly one of its fields is set. It is required
	// unless podGroupTemplateRef names a template that has it.
	// +optional
	SchedulingPolicy *SchedulingPolicy `json:"schedulingPolicy,omitempty"`

	// disruptionMode is the unit in which members may be preempted: Pod (each member on its own) or
	// PodGroup (all together or none; gang policy only). Pod if unset. Immutable.
	// +optional
	DisruptionMode *DisruptionMode `json:"disruptionMode,omitempty"`

	// priorityClassName is the PriorityClass that gives the group its priority, as scheduled work and as
	// a possible victim. "system-node-critical" and "system-cluster-critical" are the two highest
	// priorities; any other name must be that of a PriorityClass. If unset, the global default class
	// applies, whose name Reprieve fills in with the priority, or priority 0 where there is none.
	// Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName *string `json:"priorityClassName,omitempty"`

	// priority is the value of the group's PriorityClass; the higher, the more important. It counts for
	// every member, whatever the Pod's own priority is. Reprieve fills it in; users do not set it. What
	// becomes of the class later changes nothing here. Immutable once it is filled in.
	// +optional
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2147483647
	Priority *int32 `json:"priority,omitempty"`

	// preemptionPolicy is that of the group's PriorityClass: PreemptLowerPriority, or Never for a group that
	// waits for room rather than take it from others. Reprieve fills it in with priority; users do not set
	// it. Immutable once it is filled in.
	// +optional
	// +kubebuilder:validation:Enum=Never;PreemptLowerPriority
	PreemptionPolicy *corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`

	// queueName is the leaf Queue that the group's use is counted against. A group without one is in the default
	// queue of its namespace (its annotation reprieve.dev/queue), and stands outside the tree of queues where there is
	// none. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	QueueName *string `json:"queueName,omitempty"`
}

// SchedulingPolicy says how the members of a PodGroup are placed. Exactly one field is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.basic) != has(self.gang)",messageExpression="has(self.basic) ? 'set one of basic and gang, not both' : 'set one of basic and gang'"
type SchedulingPolicy struct {
	// basic places members one by one, as Pods without a group are.
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
	// minCount is the number of members that must be able to run at the same time for the group to be
	// placed at all; at least 1. Members past it are placed where they fit. In a PodGroup it may be
	// lowered at any time, and raised while no member has a node.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	MinCount int32 `json:"minCount"`
}

// PodGroupPhase says in one word where a PodGroup stands. Its conditions say why.
//
// +kubebuilder:validation:Enum=Pending;Scheduled;Running;Degraded;Disrupted;Succeeded
type PodGroupPhase string

const (
	// PodGroupPending: fewer than minCount members (than one, under the basic policy) have a node.
	PodGroupPending PodGroupPhase = "Pending"
	// PodGroupScheduled: as many as that have a node, and fewer run.
	PodGroupScheduled PodGroupPhase = "Scheduled"
	// PodGroupRunning: as many as that run, or have succeeded.
	PodGroupRunning PodGroupPhase = "Running"
	// PodGroupDegraded: some members have a node, and fewer than minCount, although there were
	// enough before.
	PodGroupDegraded PodGroupPhase = "Degraded"
	// PodGroupDisrupted: the whole group is being preempted.
	PodGroupDisrupted PodGroupPhase = "Disrupted"
	// PodGroupSucceeded: as many as that have succeeded, and no member has a node or waits for one.
	PodGroupSucceeded PodGroupPhase = "Succeeded"
)

// PodGroupStatus is what Reprieve observes and decides.
type PodGroupStatus struct {
	// phase says in one word where the group stands; the conditions say why.
	// +optional
	Phase PodGroupPhase `json:"phase,omitempty"`

	// conditions of the group: PodGroupScheduled, DisruptionTarget, PodsNotMatchingPriority, FollowsObject, QueueOrphaned, Degraded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// startTime is since when minCount members have been running together. After fewer were, it begins anew.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// protectedUntil is when the last min-runtime ends that bears on the group: startTime plus the longest of
	// what guards it from preemption inside its queue and from reclaim by any other. Some preemptors may take it
	// earlier, and members past minCount have no such protection. It follows the settings of the queues, stays
	// when it has passed, and is absent where no min-runtime applies or startTime is.
	// +optional
	ProtectedUntil *metav1.Time `json:"protectedUntil,omitempty"`

	// pending is the number of members that have no node yet.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Maximum=2147483647
	Pending int32 `json:"pending,omitempty"`
	// scheduled is the number of members that have a node and have not finished, terminating ones excluded.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Maximum=2147483647
	Scheduled int32 `json:"scheduled,omitempty"`
	// running is the number of members in phase Running, terminating ones excluded.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Maximum=2147483647
	Running int32 `json:"running,omitempty"`
	// terminating is the number of members that are being deleted.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Maximum=2147483647
	Terminating int32 `json:"terminating,omitempty"`
	// finished is the number of members in phase Succeeded or Failed.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Maximum=2147483647
	Finished int32 `json:"finished,omitempty"`

	// disruption is the preemption of the whole group that has begun and is not over. It is written before
	// the first member is touched, so that whoever finds it can finish exactly that, and removed when the
	// last of its pods is gone.
	// +optional
	Disruption *PodGroupDisruption `json:"disruption,omitempty"`

	// lastDisruption is the last time that members were preempted, all together or one of them. It stays when the
	// group has come back.
	// +optional
	LastDisruption *LastDisruption `json:"lastDisruption,omitempty"`
}

// LastDisruption is a preemption that has taken place, and how many there have been.
type LastDisruption struct {
	// preemptor is what the group made room for.
	// +required
	Preemptor DisruptionPreemptor `json:"preemptor"`
	// rule is the rule that allowed it, such as LowerPriority.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Rule string `json:"rule,omitempty"`
	// time is when it began.
	// +required
	Time metav1.Time `json:"time"`
	// count is how many preemptions there have been of the group, this one included. Several members that are taken
	// one by one for the same preemptor at a time are one.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Count int32 `json:"count"`
	// pods are the names of the members that were preempted one by one, the first 64 by name. The list is empty if the
	// whole group was preempted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Pods []string `json:"pods,omitempty"`
}

// PodGroupDisruption is a preemption of a whole group: who takes it, why, and which of its pods go.
type PodGroupDisruption struct {
	// preemptor is who the group makes room for.
	// +required
	Preemptor DisruptionPreemptor `json:"preemptor"`
	// rule is the rule that allows it, such as LowerPriority.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Rule string `json:"rule,omitempty"`
	// message says in one sentence who takes the group and why. The conditions of its pods say the same.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message"`
	// time is when it began.
	// +required
	Time metav1.Time `json:"time"`
	// pods are the members that go, and nobody else: a pod that has taken the name of one since stays.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10000
	Pods []DisruptedPod `json:"pods"`
}

// PreemptorKind says what a preemptor is.
//
// +kubebuilder:validation:Enum=Pod;PodGroup
type PreemptorKind string

const (
	// PreemptorPod is a pod that room is made for.
	PreemptorPod PreemptorKind = "Pod"
	// PreemptorPodGroup is a gang that room is made for.
	PreemptorPodGroup PreemptorKind = "PodGroup"
)

// DisruptionPreemptor names a preemptor. It may have gone since.
type DisruptionPreemptor struct {
	// kind is Pod or PodGroup.
	// +required
	Kind PreemptorKind `json:"kind"`
	// namespace of the preemptor.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name of the preemptor.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid of the preemptor.
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// DisruptedPod is one member that goes, in the PodGroup's namespace.
type DisruptedPod struct {
	// name of the pod.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid of the pod.
	// +required
	UID types.UID `json:"uid"`
}

// PodGroupList is a list of PodGroups.
//
// +kubebuilder:object:root=true
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodGroup `json:"items"`
}
