package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelQueue is the label that names the leaf Queue of a Pod without a PodGroup. The argument
// queueLabelKey of a profile can replace this key.
const LabelQueue = "reprieve.dev/queue"

// AnnotationDefaultQueue is the annotation of a namespace that names its default Queue. The default
// Queue is for work in the namespace that names no Queue.
const AnnotationDefaultQueue = LabelQueue

// AnnotationConfirmDeletion is the annotation that marks the deletion of a Queue as intended. If
// its value is "true", running work of the Queue counts for no Queue as soon as the Queue is
// deleted. Otherwise, the work counts for the deleted Queue for some time; see
// queues.deletedTimeout in the arguments of the profile.
const AnnotationConfirmDeletion = "reprieve.dev/confirm-deletion"

// Annotations of a Queue with the longest min-runtimes that the owners of its child Queues may set.
// The values are durations such as "90m". Without the annotation, these owners must not set the
// min-runtime.
const (
	AnnotationMaxPreemptMinRuntime = "reprieve.dev/max-preempt-min-runtime"
	AnnotationMaxReclaimMinRuntime = "reprieve.dev/max-reclaim-min-runtime"
)

// Types of the conditions in QueueStatus.
const (
	// ConditionQueueReady is False while the queue cannot be used. There are three causes: a queue
	// above it does not exist, the queues form a cycle, or the class in maxPriorityClass does not
	// exist.
	ConditionQueueReady = "Ready"
	// ConditionQuotaServed is False while the queue does not get its whole quota. Either the quota
	// is above the quota of its parent, or the queue cannot reclaim all of it.
	ConditionQuotaServed = "QuotaServed"
	// ConditionOrphans is True while running work names the queue, although the queue cannot
	// contain work.
	ConditionOrphans = "Orphans"
)

// Reasons of the conditions in QueueStatus.
const (
	// ReasonQueueReady: the queue can be used.
	ReasonQueueReady = "Ready"
	// ReasonParentNotFound: the parent of the queue or of one of its ancestors does not exist.
	ReasonParentNotFound = "ParentNotFound"
	// ReasonParentCycle: the queue belongs to a cycle of parents, or is below such a cycle.
	ReasonParentCycle = "ParentCycle"
	// ReasonMaxPriorityUnknown: the PriorityClass that spec.maxPriorityClass names does not exist.
	ReasonMaxPriorityUnknown = "MaxPriorityUnknown"
	// ReasonQuotaServed: the quota is not above the quota of the parent.
	ReasonQuotaServed = "QuotaServed"
	// ReasonQuotaHeld: the queue cannot reclaim part of its quota. Other queues use it for
	// PodGroups that can only be evicted whole, and that are larger than the usage of these queues
	// beyond their quota.
	ReasonQuotaHeld = "QuotaHeld"
	// ReasonQuotaAboveParent: the quota is above the quota of the parent, which applies instead.
	ReasonQuotaAboveParent = "QuotaAboveParent"
	// ReasonHasWork: running work names the queue, although the queue is no leaf or cannot be used.
	ReasonHasWork = "HasWork"
	// ReasonNoWork: no running work names the queue any more.
	ReasonNoWork = "NoWork"
)

// Queue is one node of the tree of teams that share a cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=reprieve,shortName=q
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",message="a queue cannot be its own parent",fieldPath=".spec.parent"
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parent`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.summary.used`
// +kubebuilder:printcolumn:name="Share",type=string,JSONPath=`.status.summary.share`
// +kubebuilder:printcolumn:name="Quota",type=string,JSONPath=`.status.summary.quota`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waiting`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.summary.ready`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Limit",type=string,priority=1,JSONPath=`.spec.limit`
// +kubebuilder:printcolumn:name="Requested",type=string,priority=1,JSONPath=`.status.requested`
// +kubebuilder:printcolumn:name="Weight",type=integer,priority=1,JSONPath=`.spec.overQuotaWeight`
// +kubebuilder:printcolumn:name="Priority",type=integer,priority=1,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type Queue struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the part of the Queue that its administrator writes.
	// +optional
	Spec QueueSpec `json:"spec,omitempty"`
	// status is the observed state. Only Reprieve writes it.
	// +optional
	Status QueueStatus `json:"status,omitempty"`
}

// QueueSpec is the part of a Queue that its administrator writes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.quota) || !has(self.limit) || self.quota.all(r, !(r in self.limit) || !isQuantity(string(self.limit[r])) || !isQuantity(string(self.quota[r])) || !quantity(string(self.limit[r])).isLessThan(quantity(string(self.quota[r]))))",messageExpression="'must be at least the quota, but is less for ' + self.quota.filter(r, r in self.limit && isQuantity(string(self.limit[r])) && isQuantity(string(self.quota[r])) && quantity(string(self.limit[r])).isLessThan(quantity(string(self.quota[r]))))[0]",fieldPath=".limit"
type QueueSpec struct {
	// parent is the Queue above this one. A Queue without a parent is at the top of the tree.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Parent *string `json:"parent,omitempty"`

	// quota maps resource names to the amounts that the queue can always reclaim. Other resources
	// have a quota of zero. A quota of devices, cpu or memory is of no use without the rest of a
	// node. So the fair share also contains cpu, memory, ephemeral-storage and pods that the quota
	// does not name. For example, with a quota of a quarter of the GPUs, it contains a quarter of
	// these resources on the nodes with GPUs.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(r, isQuantity(string(self[r])))",message="must hold quantities such as 1500m, 8 or 64Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !isQuantity(string(self[r])) || !quantity(string(self[r])).isLessThan(quantity('0')))",messageExpression="'must not be negative, but is for ' + self.filter(r, isQuantity(string(self[r])) && quantity(string(self[r])).isLessThan(quantity('0')))[0]"
	// +kubebuilder:validation:XValidation:rule="self.all(r, r != 'pods' && !r.contains('/') || !isQuantity(string(self[r])) || quantity(string(self[r])).isInteger())",messageExpression="'must be an integer for pods and devices, but is not for ' + self.filter(r, (r == 'pods' || r.contains('/')) && isQuantity(string(self[r])) && !quantity(string(self[r])).isInteger())[0]"
	Quota corev1.ResourceList `json:"quota,omitempty"`

	// limit maps resource names to the maximum usage of the queue's running work. Other resources
	// have no limit.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(r, isQuantity(string(self[r])))",message="must hold quantities such as 1500m, 8 or 64Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !isQuantity(string(self[r])) || !quantity(string(self[r])).isLessThan(quantity('0')))",messageExpression="'must not be negative, but is for ' + self.filter(r, isQuantity(string(self[r])) && quantity(string(self[r])).isLessThan(quantity('0')))[0]"
	// +kubebuilder:validation:XValidation:rule="self.all(r, r != 'pods' && !r.contains('/') || !isQuantity(string(self[r])) || quantity(string(self[r])).isInteger())",messageExpression="'must be an integer for pods and devices, but is not for ' + self.filter(r, (r == 'pods' || r.contains('/')) && isQuantity(string(self[r])) && !quantity(string(self[r])).isInteger())[0]"
	Limit corev1.ResourceList `json:"limit,omitempty"`

	// overQuotaWeight is the weight of the queue against siblings of equal priority, when the
	// resources beyond all quotas are distributed. With 0 the queue gets nothing until all demand
	// is met. 1 if unset.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	OverQuotaWeight *int32 `json:"overQuotaWeight,omitempty"`

	// priority is the order of siblings when the resources beyond all quotas are distributed:
	// higher values are served first. 0 if unset.
	// +optional
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2147483647
	Priority *int32 `json:"priority,omitempty"`

	// reclaimMinRuntime protects work of this queue from reclaim by another queue, for this time
	// after the start of the work. If unset, the value of the nearest ancestor that has one
	// applies, and otherwise the scheduler's default. With 0s, there is no protection, regardless
	// of ancestors.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,12}([.][0-9]+)?ms)?([0-9]{1,15}([.][0-9]+)?(us|µs))?([0-9]{1,18}([.][0-9]+)?ns)?)$')",message="must be a duration such as 90s, 15m or 1h30m, not negative and at most 99999h"
	ReclaimMinRuntime *metav1.Duration `json:"reclaimMinRuntime,omitempty"`

	// preemptMinRuntime protects work of this queue from preemption by priority, for this time
	// after the start of the work. The preemptors are work of this queue, work of no queue, and
	// system-critical pods. If unset, the value of the nearest ancestor that has one applies, and
	// otherwise the scheduler's default. With 0s, there is no protection, regardless of ancestors.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,12}([.][0-9]+)?ms)?([0-9]{1,15}([.][0-9]+)?(us|µs))?([0-9]{1,18}([.][0-9]+)?ns)?)$')",message="must be a duration such as 90s, 15m or 1h30m, not negative and at most 99999h"
	PreemptMinRuntime *metav1.Duration `json:"preemptMinRuntime,omitempty"`

	// silentWorkCap is the maximum run time that an eviction is assumed to lose if the work has
	// saved nothing since its start. Work without the annotation reprieve.dev/last-checkpoint would
	// otherwise lose its whole run time. The cap applies if the profile of the preemptor counts
	// lost work. If unset, the value of the nearest ancestor that has one applies; without one,
	// there is no cap. With 0s, such work loses only its restart cost.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,12}([.][0-9]+)?ms)?([0-9]{1,15}([.][0-9]+)?(us|µs))?([0-9]{1,18}([.][0-9]+)?ns)?)$')",message="must be a duration such as 90s, 15m or 1h30m, not negative and at most 99999h"
	SilentWorkCap *metav1.Duration `json:"silentWorkCap,omitempty"`

	// namespaceSelector selects the namespaces that may use the queue, by their labels. If unset,
	// the value of the nearest ancestor that has one applies; without one, all namespaces may use
	// the queue. An empty selector permits all namespaces. When the selector changes, running work
	// continues and counts for the queue as before.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="must have the operator In or NotIn, with values, or Exists or DoesNotExist, without",fieldPath=".matchExpressions"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// maxPriorityClass names the PriorityClass with the highest priority that work of this queue
	// may have. Work above it is blocked. If unset, the value of the nearest ancestor that has one
	// applies; without one, there is no bound. If the class does not exist, no work of the queue
	// starts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	MaxPriorityClass *string `json:"maxPriorityClass,omitempty"`
}

// QueueStatus is the observed state of a Queue.
type QueueStatus struct {
	// conditions of the queue.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// allocated is the sum of the requests of the queue's scheduled Pods.
	// +optional
	Allocated corev1.ResourceList `json:"allocated,omitempty"`
	// requested is the sum of the requests of the queue's Pods, including pending ones.
	// +optional
	Requested corev1.ResourceList `json:"requested,omitempty"`
	// fairShare is the current fair share of the queue.
	// +optional
	FairShare corev1.ResourceList `json:"fairShare,omitempty"`
	// quota is the effective quota: for each resource, the lower one of the quota in spec and the
	// quota of the parent.
	// +optional
	Quota corev1.ResourceList `json:"quota,omitempty"`
	// summary has the status as text for kubectl get. Programs should read the fields beside
	// summary.
	// +optional
	Summary *QueueSummary `json:"summary,omitempty"`
	// waiting is the number of Pods without a node, in the queue and in the queues below it.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Maximum=2147483647
	Waiting int32 `json:"waiting,omitempty"`
	// namespaceSelector is the effective selector: the selector in spec, or in the nearest ancestor
	// that sets one.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// maxPriority is the priority of the effective maxPriorityClass. It is absent if there is no
	// maximum, or if the class does not exist.
	// +optional
	MaxPriority *int32 `json:"maxPriority,omitempty"`
	// priorityClasses are the names of the PriorityClasses up to maxPriority. The admission
	// policies read this list, because they cannot read PriorityClasses.
	// +optional
	// +listType=set
	PriorityClasses []string `json:"priorityClasses,omitempty"`
}

// QueueSummary is the status of a Queue as text.
type QueueSummary struct {
	// used is the sum of the requests of the queue's scheduled Pods.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Used string `json:"used,omitempty"`
	// share is the current fair share of the queue.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Share string `json:"share,omitempty"`
	// quota is the effective quota. The quota of spec follows in brackets if it is higher.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Quota string `json:"quota,omitempty"`
	// ready is the status of the condition Ready. The reason follows in brackets if the queue is
	// not ready or its quota is not served.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Ready string `json:"ready,omitempty"`
}

// QueueList is a list of Queues.
//
// +kubebuilder:object:root=true
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Queue `json:"items"`
}
