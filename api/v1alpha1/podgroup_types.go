package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// LabelPodGroup is the label with the name of the PodGroup that a Pod joins, in its own namespace.
const LabelPodGroup = "reprieve.dev/pod-group"

const (
	// AnnotationLeads marks a Pod as a driver: a pod that creates its workers once it runs. The
	// value is the minimum number of workers that the driver needs. With "0", the Pod is no driver,
	// even if its labels name it one.
	AnnotationLeads = "reprieve.dev/leads"
	// LabelLedBy is the label of a worker Pod. Its value is the name of the driver, a Pod in the
	// same namespace.
	LabelLedBy = "reprieve.dev/led-by"
)

// AnnotationPlacedAs is the scheduler's record of the facts that a Pod counts by as long as it has
// a node, as JSON. The scheduler writes it with the binding. Users must not set or change it.
const AnnotationPlacedAs = "reprieve.dev/placed-as"

// Annotations of a Pod or a PodGroup about the work that its eviction loses. Profiles that name
// LostWork in their victimOrder read them.
const (
	// AnnotationLastCheckpoint is when the work was last saved (RFC 3339). Of a PodGroup and its
	// members, the latest time counts for all.
	AnnotationLastCheckpoint = "reprieve.dev/last-checkpoint"
	// AnnotationCheckpointInterval is how often the work saves itself from its start on, such as
	// "30m". It counts if no work was saved since the start.
	AnnotationCheckpointInterval = "reprieve.dev/checkpoint-interval"
	// AnnotationRestartCost is the run time that a restart loses in addition to the work. It is a
	// number of seconds or a duration such as "10m", at most 24 hours.
	AnnotationRestartCost = "reprieve.dev/restart-cost"
)

// Annotations of an object whose pods form a gang, such as a Job, or of its namespace. An
// annotation of the namespace applies to all objects without one.
const (
	// AnnotationGang requests a PodGroup with "true", and none with "false".
	AnnotationGang = "reprieve.dev/gang"
	// AnnotationGangPer is the scope of a gang: GangPerObject or GangPerRole.
	AnnotationGangPer = "reprieve.dev/gang-per"
	// AnnotationDisruptionMode, AnnotationPriorityClass and AnnotationQueue are the disruptionMode,
	// priorityClassName and queueName of the created PodGroup.
	AnnotationDisruptionMode = "reprieve.dev/disruption-mode"
	AnnotationPriorityClass  = "reprieve.dev/priority-class"
	AnnotationQueue          = LabelQueue
	// AnnotationTopologyKey is the key of the created PodGroup's topology constraint.
	AnnotationTopologyKey = "reprieve.dev/topology-key"
	// AnnotationPreferredTopologyKey has the keys of the created PodGroup's preferred topology
	// levels, the nearest first, separated by commas.
	AnnotationPreferredTopologyKey = "reprieve.dev/preferred-topology-key"
	// AnnotationPreemptionPriorityClass is the preemptionPriorityClassName of the created PodGroup.
	// It may change at any time.
	AnnotationPreemptionPriorityClass = "reprieve.dev/preemption-priority-class"
)

// Annotations of a PodGroup that Reprieve has created: the sources of its class and its queue, if
// they are not from its pods. They do not change during the life of the PodGroup.
const (
	AnnotationClassOf = "reprieve.dev/class-of"
	AnnotationQueueOf = "reprieve.dev/queue-of"
	// AnnotationPreemptionClassOf is the source of the preemptionPriorityClassName. It changes with
	// the field.
	AnnotationPreemptionClassOf = "reprieve.dev/preemption-class-of"
	// FromObject marks a value from the object, and FromNamespace a value from its namespace. A
	// class from a namespace may be above that of the pods.
	FromObject    = "object"
	FromNamespace = "namespace"
)

// Values of AnnotationGangPer.
const (
	// GangPerObject is one gang for all roles.
	GangPerObject = "object"
	// GangPerRole is one gang for each role.
	GangPerRole = "role"
)

// DisruptionMode is the unit of a disruption when a PodGroup is preempted (KEP-5710, "Preemption
// unit").
//
// +kubebuilder:validation:Enum=Pod;PodGroup
type DisruptionMode string

const (
	// DisruptionModePod lets each member be preempted on its own.
	DisruptionModePod DisruptionMode = "Pod"
	// DisruptionModePodGroup preempts all members together or none. It requires the gang policy.
	DisruptionModePodGroup DisruptionMode = "PodGroup"
)

// Types of the conditions in PodGroupStatus.
const (
	// ConditionPodGroupScheduled is True while at least minCount members (under the basic policy,
	// at least one) have a node. While it is False, its reason and message name the cause.
	ConditionPodGroupScheduled = "PodGroupScheduled"
	// ConditionDisruptionTarget is True from the decision to preempt the whole group until the last
	// affected member is gone. The affected members are in status.disruption. Its message names the
	// preemptor.
	ConditionDisruptionTarget = "DisruptionTarget"
	// ConditionPodsNotMatchingPriority is True while the priority of a member differs from the
	// group's. The group's priority applies.
	ConditionPodsNotMatchingPriority = "PodsNotMatchingPriority"
	// ConditionFollowsObject is False while a created PodGroup differs from the request of its
	// object. Its message names the difference. It is absent if the two have never differed.
	ConditionFollowsObject = "FollowsObject"
	// ConditionQueueOrphaned is True while members have a node and the group's Queue cannot contain
	// them: it is deleted, has others below it, or cannot be used. The members stay, and count for
	// no queue. Its reason is that of pending work in the same case. The condition is absent
	// otherwise.
	ConditionQueueOrphaned = "QueueOrphaned"
	// ConditionDegraded is True while a gang lacks members that it had: at least minCount members
	// had a node at the same time, some still have one, and fewer than minCount have one or have
	// succeeded. Its message has the numbers, and lastTransitionTime is the time of the first loss.
	// The condition is absent if no member was ever lost.
	ConditionDegraded = "Degraded"
	// ConditionCountsAsPlaced is True while members have a node and count by other facts than the
	// PodGroup or its namespace states now. Its message names the differences. Changes count for
	// members that get a node later. The condition is absent otherwise.
	ConditionCountsAsPlaced = "CountsAsPlaced"
	// ConditionPreemptionPriority is True while preemptionPriorityClassName determines the priority
	// of the group as a potential victim, and False while the class has no effect. Its message has
	// the priority and the cause. The condition is absent without the field.
	ConditionPreemptionPriority = "PreemptionPriority"
)

// Reasons of ConditionPreemptionPriority. ReasonPriorityClassNotFound and ReasonQueueUnusable are
// reasons too.
const (
	// ReasonPreemptionPriorityCounts: the class counts.
	ReasonPreemptionPriorityCounts = "Counts"
	// ReasonLimitedByQueue: the class is above the maxPriorityClass of the group's Queue. The
	// maxPriorityClass counts in its place.
	ReasonLimitedByQueue = "LimitedByQueue"
	// ReasonBelowPriority: the class is below the scheduling priority of the group.
	ReasonBelowPriority = "BelowPriority"
	// ReasonSystemClass: the class is one of Kubernetes' own, whose names begin with system-.
	ReasonSystemClass = "SystemClass"
	// ReasonNoMaximum: the class is from an object such as a Job, and the group is in no Queue with
	// a maxPriorityClass.
	ReasonNoMaximum = "NoMaximum"
)

// ReasonChangedSincePlaced is the reason of ConditionCountsAsPlaced: a fact has changed since
// members got their nodes.
const ReasonChangedSincePlaced = "ChangedSincePlaced"

// Reasons of ConditionDegraded.
const (
	// ReasonMembersLost: the gang has fewer members on nodes than it needs, and had enough.
	ReasonMembersLost = "MembersLost"
	// ReasonWhole: enough members have a node, or have succeeded, again.
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
	// ReasonBehindItsObject: the object of the PodGroup requests more members than the PodGroup,
	// and no member has a node.
	ReasonBehindItsObject = "BehindItsObject"
	// ReasonPriorityAbovePods: the class of the PodGroup is above that of a pod that was created
	// later. Reprieve recreates the PodGroup while no member has a node.
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
	// ReasonQueueNotLeaf: the PodGroup names a Queue that has others below it.
	ReasonQueueNotLeaf = "QueueNotLeaf"
	// ReasonQueueUnusable: the PodGroup names a Queue whose parents do not lead to the top of the
	// tree.
	ReasonQueueUnusable = "QueueUnusable"
	// ReasonQueueNotAllowed: the PodGroup names a Queue that its namespace may not use.
	ReasonQueueNotAllowed = "QueueNotAllowed"
	// ReasonPriorityAboveQueue: the PodGroup has a priority above that of its Queue's
	// maxPriorityClass.
	ReasonPriorityAboveQueue = "PriorityAboveQueue"
	// ReasonQueueRequired: the PodGroup is in no Queue, and the profile of its members requires
	// one.
	ReasonQueueRequired = "QueueRequired"
	// ReasonDriversWithoutWorkers: a member creates workers once it runs, and as many others of the
	// Queue as may run without their workers do so.
	ReasonDriversWithoutWorkers = "DriversWithoutWorkers"
	// ReasonQueueLimit: the limit of a Queue leaves no room for the gang as a whole.
	ReasonQueueLimit = "QueueLimit"
	// ReasonUnschedulable: the members exist, but the cluster has no room for the gang as a whole.
	ReasonUnschedulable = "Unschedulable"
	// ReasonPreempting: the victims terminate; the members wait for their nominated nodes.
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
	// ReasonObjectNotFollowed: the condition's message names the request that Reprieve cannot
	// follow, or cannot follow yet.
	ReasonObjectNotFollowed = "ObjectNotFollowed"
	// ReasonObjectFollowed: the PodGroup matches the request of its object again.
	ReasonObjectFollowed = "ObjectFollowed"
)

// Reasons of ConditionDisruptionTarget.
const (
	// ReasonPreemptionByScheduler is the reason of DisruptionTarget conditions, on Pods (where
	// Kubernetes knows the same reason) and on PodGroups.
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

// PodGroupSpec is the request of a user.
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

	// disruptionMode is the unit of preemption: Pod (each member on its own) or PodGroup (all
	// together or none; gang policy only). Pod if unset. Immutable.
	// +optional
	DisruptionMode *DisruptionMode `json:"disruptionMode,omitempty"`

	// priorityClassName is the PriorityClass of the group. Its priority applies to the scheduling
	// and to the preemption of the group. "system-node-critical" and "system-cluster-critical" are
	// the two highest priorities. Any other name must be that of a PriorityClass. If unset, the
	// global default class applies, and Reprieve fills in its name with the priority. Without such
	// a class the priority is 0. Immutable.
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

	// preemptionPolicy is that of the group's PriorityClass: PreemptLowerPriority, or Never for a
	// group that waits for room and preempts nothing. Reprieve fills it in with priority; users do
	// not set it. Immutable once it is filled in.
	// +optional
	// +kubebuilder:validation:Enum=Never;PreemptLowerPriority
	PreemptionPolicy *corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`

	// preemptionPriorityClassName is the PriorityClass that counts in place of the group's priority
	// while the group is a potential victim. It has no effect when the group preempts or waits. A
	// class below the group's priority has no effect. Neither has one that does not exist. In a
	// Queue with a maxPriorityClass, it counts up to that class. It can be set, changed and removed
	// at any time. The condition PreemptionPriority has the priority that counts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system-')",message="classes whose names begin with system- are for work of the system; name another class"
	PreemptionPriorityClassName *string `json:"preemptionPriorityClassName,omitempty"`

	// queueName is the leaf Queue that counts the usage of the group. Without it, the default queue
	// of the namespace applies (its annotation reprieve.dev/queue). Without either, the group is
	// outside the tree of queues. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	QueueName *string `json:"queueName,omitempty"`

	// parentCompositePodGroupName is the CompositePodGroup that the group belongs to, in the same
	// namespace. The groups of a tree are placed together, as the CompositePodGroups say.
	// Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ParentCompositePodGroupName *string `json:"parentCompositePodGroupName,omitempty"`

	// schedulingConstraints restrict the nodes that the members may share. They take the gang
	// scheduling policy. Immutable.
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
	// Reprieve chooses the domain that is cheapest to clear, and of equals the fullest one. The
	// entries are levels, the nearest first: any number of preferred ones, and then at most one
	// that is required.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:XValidation:rule="self.all(t, self.exists_one(o, o.key == t.key))",message="each key may be listed once"
	// +kubebuilder:validation:XValidation:rule="!self.exists(t, !has(t.mode) || t.mode == 'Required') || (self.exists_one(t, !has(t.mode) || t.mode == 'Required') && (!has(self[self.size() - 1].mode) || self[self.size() - 1].mode == 'Required'))",message="at most one key is required, and it is the last one: preferred levels are inside of it and come before it, the nearest first"
	Topology []TopologyConstraint `json:"topology"`
}

// TopologyMode says whether a topology constraint must hold.
//
// +kubebuilder:validation:Enum=Required;Preferred
type TopologyMode string

const (
	// TopologyModeRequired keeps a group pending unless all members can share a domain.
	TopologyModeRequired TopologyMode = "Required"
	// TopologyModePreferred lets members be in several domains.
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
	// mode is Required if all members must share a domain, and Preferred if they should. A
	// preferred level is weighed against the cost of victims; see levelOrder in the arguments of
	// the profile. Required if unset.
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
	// PodGroupPending: fewer than minCount members have a node. Under the basic policy, the number
	// is one here and below.
	PodGroupPending PodGroupPhase = "Pending"
	// PodGroupScheduled: at least minCount members have a node, and fewer run.
	PodGroupScheduled PodGroupPhase = "Scheduled"
	// PodGroupRunning: at least minCount members run or have succeeded.
	PodGroupRunning PodGroupPhase = "Running"
	// PodGroupDegraded: some members have a node, but fewer than minCount, although enough had one
	// before.
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
	// FollowsObject, QueueOrphaned, Degraded,
	// CountsAsPlaced, PreemptionPriority.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// startTime is the time since which minCount members have been running together. It is reset
	// when fewer run.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// protectedUntil is the end of the longest min-runtime that applies to the group: startTime
	// plus the longest protection, from preemption inside its queue or from reclaim by another
	// queue. Some preemptors may preempt the group earlier, and members past minCount have no such
	// protection. It changes with the settings of the queues and stays after it has passed. It is
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
	// before it touches the first member, so that any later leader can complete exactly this
	// preemption. Reprieve removes it when the last of its pods is gone.
	// +optional
	Disruption *PodGroupDisruption `json:"disruption,omitempty"`

	// lastDisruption is the last preemption of the group or of one of its members. It stays when
	// the group runs again.
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
	// preempted one by one for the same preemptor at a time count as one preemption.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Count int32 `json:"count"`
	// stops is the number of preemptions that stopped the group since it last made progress. The
	// eviction of members past minCount does not stop a group. The group has made progress once it
	// has run for an hour, or has a checkpoint after stopTime. Profiles whose victimOrder has
	// Repeated prefer victims with fewer stops.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Stops int32 `json:"stops,omitempty"`
	// stopTime is the start of the last preemption that stopped the group.
	// +optional
	StopTime *metav1.Time `json:"stopTime,omitempty"`
	// pods are the names of the members that were preempted one by one, the first 64 by name. The
	// list is empty if the whole group was preempted.
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
	// pods are the evicted members, and no others: a later pod of the same name stays.
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

// DisruptionPreemptor names a preemptor, which may be deleted by now.
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
