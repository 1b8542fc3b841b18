package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// LabelPodGroup is the label of a Pod that joins a PodGroup. Its value is the name of a PodGroup in
// the Pod's namespace.
const LabelPodGroup = "reprieve.dev/pod-group"

const (
	// AnnotationLeads marks a Pod as a driver: a pod that creates its workers once it runs. The
	// value is the minimum number of workers that the driver needs. With "0", the Pod is not a
	// driver, even if its labels say so.
	AnnotationLeads = "reprieve.dev/leads"
	// LabelLedBy is the label of a worker Pod. Its value is the name of the driver, a Pod in the
	// same namespace.
	LabelLedBy = "reprieve.dev/led-by"
)

// AnnotationPlacedAs is the annotation with the group, queue, priority and other settings that
// apply to a Pod as long as it has a node, as JSON. The scheduler writes it when it binds the Pod,
// so that later changes of the settings do not apply to the Pod. Users must not set or change it.
const AnnotationPlacedAs = "reprieve.dev/placed-as"

// Annotations of a Pod or a PodGroup about the work that its eviction loses. They have an effect in
// profiles that name LostWork in their victimOrder. A checkpoint also ends the count of stops (see
// LastDisruption).
const (
	// AnnotationLastCheckpoint has the time when the work was last saved (RFC 3339). If a PodGroup
	// and its members have different times, the latest applies to all members.
	AnnotationLastCheckpoint = "reprieve.dev/last-checkpoint"
	// AnnotationCheckpointInterval has the time between two checkpoints of the work, counted from
	// its start, such as "30m". It applies if AnnotationLastCheckpoint has no time since the start.
	AnnotationCheckpointInterval = "reprieve.dev/checkpoint-interval"
	// AnnotationRestartCost has the run time that a restart loses in addition to the unsaved work.
	// The value is a number of seconds or a duration such as "10m", at most 24 hours.
	AnnotationRestartCost = "reprieve.dev/restart-cost"
)

// Annotations of an object whose pods form a gang, such as a Job. They can also be on the
// namespace, and then apply to all objects in it that lack the annotation.
const (
	// AnnotationGang determines whether Reprieve creates a PodGroup for the object: "true" or
	// "false".
	AnnotationGang = "reprieve.dev/gang"
	// AnnotationGangPer determines which pods of the object form a gang. Its value is GangPerObject
	// or GangPerRole.
	AnnotationGangPer = "reprieve.dev/gang-per"
	// AnnotationDisruptionMode is the disruptionMode of the created PodGroup.
	AnnotationDisruptionMode = "reprieve.dev/disruption-mode"
	// AnnotationPriorityClass is the priorityClassName of the created PodGroup.
	AnnotationPriorityClass = "reprieve.dev/priority-class"
	// AnnotationQueue is the queueName of the created PodGroup.
	AnnotationQueue = LabelQueue
	// AnnotationTopologyKey is the key of the created PodGroup's topology constraint.
	AnnotationTopologyKey = "reprieve.dev/topology-key"
	// AnnotationPreferredTopologyKey has the keys of the created PodGroup's preferred topology
	// levels, the nearest first, separated by commas.
	AnnotationPreferredTopologyKey = "reprieve.dev/preferred-topology-key"
	// AnnotationPreemptionPriorityClass is the preemptionPriorityClassName of the created PodGroup.
	// It may change at any time.
	AnnotationPreemptionPriorityClass = "reprieve.dev/preemption-priority-class"
)

// Annotations of a PodGroup that Reprieve created. They name the sources of fields whose values do
// not come from the pods. The value of each is FromObject or FromNamespace.
const (
	// AnnotationClassOf is the source of the priorityClassName. It never changes.
	AnnotationClassOf = "reprieve.dev/class-of"
	// AnnotationQueueOf is the source of the queueName. It never changes.
	AnnotationQueueOf = "reprieve.dev/queue-of"
	// AnnotationPreemptionClassOf is the source of the preemptionPriorityClassName. It changes with
	// the field.
	AnnotationPreemptionClassOf = "reprieve.dev/preemption-class-of"
	// FromObject marks a value from an annotation of the object.
	FromObject = "object"
	// FromNamespace marks a value from an annotation of the object's namespace. A PriorityClass
	// from the namespace may be higher than the class of the pods.
	FromNamespace = "namespace"
)

// Values of AnnotationGangPer.
const (
	// GangPerObject is one gang for all roles.
	GangPerObject = "object"
	// GangPerRole is one gang for each role.
	GangPerRole = "role"
)

// DisruptionMode determines whether the members of a PodGroup are preempted one by one or together
// (KEP-5710, "Preemption unit").
//
// +kubebuilder:validation:Enum=Pod;PodGroup
type DisruptionMode string

const (
	// DisruptionModePod preempts each member on its own.
	DisruptionModePod DisruptionMode = "Pod"
	// DisruptionModePodGroup preempts all members together or none. It requires the gang policy.
	DisruptionModePodGroup DisruptionMode = "PodGroup"
)

// Types of the conditions in PodGroupStatus.
const (
	// ConditionPodGroupScheduled is True while enough members have a node: minCount members of a
	// gang, or one member under the basic policy. While it is False, its reason and message name
	// the cause.
	ConditionPodGroupScheduled = "PodGroupScheduled"
	// ConditionDisruptionTarget is True from the decision to preempt the whole group until the last
	// affected member is gone. status.disruption lists the affected members. The message names the
	// preemptor.
	ConditionDisruptionTarget = "DisruptionTarget"
	// ConditionPodsNotMatchingPriority is True while the priority of a member differs from the
	// group's priority. The group's priority applies to the member.
	ConditionPodsNotMatchingPriority = "PodsNotMatchingPriority"
	// ConditionFollowsObject is False while a PodGroup that Reprieve created for an object differs
	// from the gang that the object requests. Its message names the difference. The condition is
	// absent if there never was a difference.
	ConditionFollowsObject = "FollowsObject"
	// ConditionQueueOrphaned is True while members have a node although the group's Queue cannot
	// hold work: the Queue is deleted, has child Queues, or cannot be used. The members continue to
	// run, and count for no queue. The condition has the reason that pending work of the Queue
	// gets. Otherwise the condition is absent.
	ConditionQueueOrphaned = "QueueOrphaned"
	// ConditionDegraded is True while a gang has too few members after it had enough. It had enough
	// when at least minCount members had a node at the same time. It has too few when some members
	// have a node, but fewer than minCount have one or have succeeded. The message has the numbers,
	// and lastTransitionTime is the time of the first loss. The condition is absent if no member
	// was ever lost.
	ConditionDegraded = "Degraded"
	// ConditionCountsAsPlaced is True while members with a node count by settings that differ from
	// the current settings of the PodGroup or its namespace. These members keep the queue,
	// priority, minCount and disruption mode that applied when they got the node. Members that get
	// a node later count by the current settings. The message names the differences. Otherwise the
	// condition is absent.
	ConditionCountsAsPlaced = "CountsAsPlaced"
	// ConditionPreemptionPriority is True while preemptionPriorityClassName determines the priority
	// of the group as a potential victim, and False while the class has no effect. Its message has
	// the priority and the cause. The condition is absent without the field.
	ConditionPreemptionPriority = "PreemptionPriority"
)

// Reasons of ConditionPreemptionPriority. The condition can also have ReasonPriorityClassNotFound
// and ReasonQueueUnusable.
const (
	// ReasonPreemptionPriorityCounts: the class determines the priority of the group as a potential
	// victim.
	ReasonPreemptionPriorityCounts = "Counts"
	// ReasonLimitedByQueue: the class is above the maxPriorityClass of the group's Queue. The
	// maxPriorityClass applies in place of the class.
	ReasonLimitedByQueue = "LimitedByQueue"
	// ReasonBelowPriority: the class is below the scheduling priority of the group.
	ReasonBelowPriority = "BelowPriority"
	// ReasonSystemClass: the name of the class begins with system-, as the names of Kubernetes' own
	// classes do.
	ReasonSystemClass = "SystemClass"
	// ReasonNoMaximum: the class comes from an annotation of an object such as a Job, and the group
	// is in no Queue with a maxPriorityClass. Such a class needs the maximum as its upper bound.
	ReasonNoMaximum = "NoMaximum"
)

// ReasonChangedSincePlaced is the reason of ConditionCountsAsPlaced: a setting has changed since
// members got their nodes.
const ReasonChangedSincePlaced = "ChangedSincePlaced"

// Reasons of ConditionDegraded.
const (
	// ReasonMembersLost: the gang had enough members on nodes, and now has fewer than it needs.
	ReasonMembersLost = "MembersLost"
	// ReasonWhole: after a loss, enough members have a node or have succeeded.
	ReasonWhole = "Whole"
	// ReasonNoneLeft: no member has a node. The gang waits as a whole.
	ReasonNoneLeft = "NoneLeft"
)

// Reasons of ConditionPodGroupScheduled.
const (
	// ReasonScheduled: enough members have a node.
	ReasonScheduled = "Scheduled"
	// ReasonNotEnoughMembers: fewer than minCount members exist.
	ReasonNotEnoughMembers = "NotEnoughMembers"
	// ReasonBehindItsObject: no member has a node, and the object of the PodGroup requests a larger
	// gang than the minCount of the PodGroup. The PodGroup is placed after Reprieve has raised its
	// minCount.
	ReasonBehindItsObject = "BehindItsObject"
	// ReasonPriorityAbovePods: the class of the PodGroup is above the class of a pod that was
	// created after the PodGroup. Reprieve recreates the PodGroup while no member has a node.
	ReasonPriorityAbovePods = "PriorityAbovePods"
	// ReasonWorkIsOver: the object of the PodGroup is finished, and no member runs or waits.
	ReasonWorkIsOver = "WorkIsOver"
	// ReasonMixedSchedulerNames: members name different schedulers, so no one scheduler can place
	// the gang.
	ReasonMixedSchedulerNames = "MixedSchedulerNames"
	// ReasonSchedulerNotServed: members name a scheduler that is not a profile of Reprieve.
	ReasonSchedulerNotServed = "SchedulerNotServed"
	// ReasonPriorityClassNotFound: the PodGroup names a PriorityClass that does not exist.
	ReasonPriorityClassNotFound = "PriorityClassNotFound"
	// ReasonTemplateNotFound: podGroupTemplateRef names a Workload, or a template in it, that does
	// not exist.
	ReasonTemplateNotFound = "TemplateNotFound"
	// ReasonAmbiguousName: PodGroups of reprieve.dev and of scheduling.k8s.io have the same name.
	ReasonAmbiguousName = "AmbiguousName"
	// ReasonUnsupported: a PodGroup of scheduling.k8s.io requests a feature that Reprieve does not
	// have.
	ReasonUnsupported = "Unsupported"
	// ReasonInvalidTemplate: the fields of the PodGroup contradict those of its template.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonNotFilledIn: the API server rejects the fields that Reprieve fills in.
	ReasonNotFilledIn = "NotFilledIn"
	// ReasonQueueNotFound: the PodGroup names a Queue that does not exist.
	ReasonQueueNotFound = "QueueNotFound"
	// ReasonQueueNotLeaf: the PodGroup names a Queue that has child Queues.
	ReasonQueueNotLeaf = "QueueNotLeaf"
	// ReasonQueueUnusable: the PodGroup names a Queue whose condition Ready is False.
	ReasonQueueUnusable = "QueueUnusable"
	// ReasonQueueNotAllowed: the PodGroup names a Queue that its namespace may not use.
	ReasonQueueNotAllowed = "QueueNotAllowed"
	// ReasonPriorityAboveQueue: the priority of the PodGroup is above the maxPriorityClass of its
	// Queue.
	ReasonPriorityAboveQueue = "PriorityAboveQueue"
	// ReasonQueueRequired: the PodGroup is in no Queue, and the profile of its members requires
	// one.
	ReasonQueueRequired = "QueueRequired"
	// ReasonDriversWithoutWorkers: a member is a driver, and the maximum number of drivers of the
	// Queue already run without their workers. See drivers.withoutWorkers in the arguments of the
	// profile.
	ReasonDriversWithoutWorkers = "DriversWithoutWorkers"
	// ReasonQueueLimit: the limit of a Queue leaves no room for the gang as a whole.
	ReasonQueueLimit = "QueueLimit"
	// ReasonUnschedulable: the members exist, but the cluster has no room for the gang as a whole.
	ReasonUnschedulable = "Unschedulable"
	// ReasonPreempting: the members wait for their nominated nodes, where victims terminate.
	ReasonPreempting = "Preempting"
	// ReasonPending: the group waits for its turn.
	ReasonPending = "Pending"
)

// Reasons of ConditionPodsNotMatchingPriority.
const (
	// ReasonPodsNotMatchingPriority: the condition's message names a member whose priority differs.
	ReasonPodsNotMatchingPriority = "PodsNotMatchingPriority"
	// ReasonPodsMatchingPriority: the priorities of all members match again.
	ReasonPodsMatchingPriority = "PodsMatchingPriority"
)

// Reasons of ConditionFollowsObject.
const (
	// ReasonObjectNotFollowed: the PodGroup differs from the request of its object. The message
	// names the difference, which Reprieve cannot remove, or has yet to remove.
	ReasonObjectNotFollowed = "ObjectNotFollowed"
	// ReasonObjectFollowed: the PodGroup matches the request of its object again.
	ReasonObjectFollowed = "ObjectFollowed"
)

// Reasons of ConditionDisruptionTarget.
const (
	// ReasonPreemptionByScheduler: the scheduler preempts the PodGroup, or a Pod. Kubernetes has
	// the same reason for Pods.
	ReasonPreemptionByScheduler = "PreemptionByScheduler"
	// ReasonPreemptionWithdrawn: a preemption was abandoned before any member was deleted.
	ReasonPreemptionWithdrawn = "PreemptionWithdrawn"
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
	// PodGroup, all members are preempted together or none; this requires the gang policy. Pod if
	// unset. Immutable.
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

// PodGroupPhase summarizes the state of a PodGroup. Its conditions have the reasons.
//
// +kubebuilder:validation:Enum=Pending;Scheduled;Running;Degraded;Disrupted;Succeeded
type PodGroupPhase string

const (
	// PodGroupPending: fewer than minCount members have a node. Under the basic policy, 1 takes the
	// place of minCount in each phase.
	PodGroupPending PodGroupPhase = "Pending"
	// PodGroupScheduled: at least minCount members have a node, but fewer than minCount run.
	PodGroupScheduled PodGroupPhase = "Scheduled"
	// PodGroupRunning: at least minCount members run or have succeeded.
	PodGroupRunning PodGroupPhase = "Running"
	// PodGroupDegraded: some members have a node, but fewer than minCount. Earlier, at least
	// minCount members had one.
	PodGroupDegraded PodGroupPhase = "Degraded"
	// PodGroupDisrupted: the whole group is being preempted.
	PodGroupDisrupted PodGroupPhase = "Disrupted"
	// PodGroupSucceeded: at least minCount members have succeeded, and no member has a node or
	// waits for one.
	PodGroupSucceeded PodGroupPhase = "Succeeded"
)

// PodGroupStatus is the observed state of a PodGroup.
type PodGroupStatus struct {
	// phase summarizes the state of the group; the conditions have the reasons.
	// +optional
	Phase PodGroupPhase `json:"phase,omitempty"`

	// conditions of the group: PodGroupScheduled, DisruptionTarget, PodsNotMatchingPriority,
	// FollowsObject, QueueOrphaned, Degraded, CountsAsPlaced, PreemptionPriority.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// startTime is the time when minCount members began to run together. It is absent while fewer
	// run.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// protectedUntil is the end of the longest min-runtime that protects the group. It is startTime
	// plus the preemptMinRuntime or the reclaimMinRuntime, whichever is longer. Some preemptors may
	// preempt the group earlier, and members past minCount have no such protection. The time
	// changes with the settings of the queues. The field remains after the time has passed. It is
	// absent without a min-runtime or without startTime.
	// +optional
	ProtectedUntil *metav1.Time `json:"protectedUntil,omitempty"`

	// pending is the number of members without a node.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Maximum=2147483647
	Pending int32 `json:"pending,omitempty"`
	// scheduled is the number of members that have a node and have not finished, without
	// terminating ones.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Maximum=2147483647
	Scheduled int32 `json:"scheduled,omitempty"`
	// running is the number of members in phase Running, without terminating ones.
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

	// disruption is the preemption of the whole group that is in progress. Reprieve writes it
	// before it touches the first member. If another scheduler becomes the leader, it can then
	// complete exactly this preemption. Reprieve removes the field when the last of the pods in it
	// is gone.
	// +optional
	Disruption *PodGroupDisruption `json:"disruption,omitempty"`

	// lastDisruption is the last preemption of the group or of one of its members. The field
	// remains after the group runs again.
	// +optional
	LastDisruption *LastDisruption `json:"lastDisruption,omitempty"`
}

// LastDisruption describes the last preemption, and counts all of them.
type LastDisruption struct {
	// preemptor is the workload that the group was preempted for.
	// +required
	Preemptor DisruptionPreemptor `json:"preemptor"`
	// rule is the rule that allowed the preemption, such as LowerPriority.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Rule string `json:"rule,omitempty"`
	// time is the start of the preemption.
	// +required
	Time metav1.Time `json:"time"`
	// count is the number of preemptions of the group, including this one. Members that are
	// preempted one by one, at the same time and for the same preemptor, count as one preemption.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Count int32 `json:"count"`
	// stops is the number of preemptions that stopped the group since it last made progress. An
	// eviction of surplus members, which are members past minCount, does not stop a group. The
	// group makes progress when it has run for an hour, or has a checkpoint after stopTime.
	// Profiles whose victimOrder has Repeated prefer victims with fewer stops.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Stops int32 `json:"stops,omitempty"`
	// stopTime is the start of the last preemption that stopped the group.
	// +optional
	StopTime *metav1.Time `json:"stopTime,omitempty"`
	// pods are the names of the members that were preempted one by one: the first 64 in the order
	// of their names. The list is empty if the whole group was preempted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Pods []string `json:"pods,omitempty"`
}

// PodGroupDisruption is a preemption of a whole group: its preemptor, its reason and its pods.
type PodGroupDisruption struct {
	// preemptor is the workload that the group is preempted for.
	// +required
	Preemptor DisruptionPreemptor `json:"preemptor"`
	// rule is the rule that allows the preemption, such as LowerPriority.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Rule string `json:"rule,omitempty"`
	// message names the preemptor and the reason in one sentence. The conditions of the pods have
	// the same text.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message"`
	// time is the start of the preemption.
	// +required
	Time metav1.Time `json:"time"`
	// stops is the number of preemptions that stopped the group since it last made progress,
	// including this one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Stops int32 `json:"stops,omitempty"`
	// pods lists the members to evict, each with its UID. A later pod with the same name is not
	// evicted.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10000
	Pods []DisruptedPod `json:"pods"`
}

// PreemptorKind is the kind of a preemptor.
//
// +kubebuilder:validation:Enum=Pod;PodGroup;CompositePodGroup
type PreemptorKind string

const (
	// PreemptorPod is a pod as the preemptor.
	PreemptorPod PreemptorKind = "Pod"
	// PreemptorPodGroup is a gang as the preemptor.
	PreemptorPodGroup PreemptorKind = "PodGroup"
	// PreemptorComposite is a tree of groups as the preemptor.
	PreemptorComposite PreemptorKind = "CompositePodGroup"
)

// DisruptionPreemptor names a preemptor. The preemptor may no longer exist.
type DisruptionPreemptor struct {
	// kind is Pod, PodGroup or CompositePodGroup.
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

// DisruptedPod is one evicted member, in the PodGroup's namespace.
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
