package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelQueue is the label by which a Pod without a PodGroup names its leaf Queue. The key can be changed
// in the scheduler's configuration.
const LabelQueue = "reprieve.dev/queue"

// AnnotationDefaultQueue is the annotation by which a namespace names the Queue of its work that names none.
const AnnotationDefaultQueue = LabelQueue

// Types of the conditions in QueueStatus.
const (
	// ConditionQueueReady is False while the queue cannot be used: its parents do not lead to the top of the tree.
	ConditionQueueReady = "Ready"
	// ConditionQuotaServed is False while the queue's quota is cut down, because it is above its parent's, and while the queue
	// cannot have all of it back.
	ConditionQuotaServed = "QuotaServed"
	// ConditionOrphans is True while work runs that names the queue, and the queue cannot have any.
	ConditionOrphans = "Orphans"
)

// Reasons of the conditions in QueueStatus.
const (
	// ReasonQueueReady: nothing is wrong with the queue.
	ReasonQueueReady = "Ready"
	// ReasonParentNotFound: a queue on the way to the top of the tree does not exist.
	ReasonParentNotFound = "ParentNotFound"
	// ReasonParentCycle: the queue is its own ancestor, or below one that is.
	ReasonParentCycle = "ParentCycle"
	// ReasonMaxPriorityUnknown: the PriorityClass that spec.maxPriorityClass names does not exist.
	ReasonMaxPriorityUnknown = "MaxPriorityUnknown"
	// ReasonQuotaServed: the quota is within the parent's.
	ReasonQuotaServed = "QuotaServed"
	// ReasonQuotaHeld: whole PodGroups of other queues are larger than what those have beyond their quota, so that some of the
	// quota cannot be given back.
	ReasonQuotaHeld = "QuotaHeld"
	// ReasonQuotaAboveParent: the quota is above the parent's, which counts instead.
	ReasonQuotaAboveParent = "QuotaAboveParent"
	// ReasonHasWork: work runs that names a queue with others below it, or one that cannot be used.
	ReasonHasWork = "HasWork"
	// ReasonNoWork: no such work runs.
	ReasonNoWork = "NoWork"
)

// Queue is one node of the tree by which teams share a cluster.
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

	// spec is what an administrator asks for. It may be changed at any time.
	// +optional
	Spec QueueSpec `json:"spec,omitempty"`
	// status is what Reprieve observes and decides. It is written by Reprieve only.
	// +optional
	Status QueueStatus `json:"status,omitempty"`
}

// QueueSpec is what an administrator asks for.
//
// +kubebuilder:validation:XValidation:rule="!has(self.quota) || !has(self.limit) || self.quota.all(r, !(r in self.limit) || !isQuantity(string(self.limit[r])) || !isQuantity(string(self.quota[r])) || !quantity(string(self.limit[r])).isLessThan(quantity(string(self.quota[r]))))",messageExpression="'must be at least the quota, but is less for ' + self.quota.filter(r, r in self.limit && isQuantity(string(self.limit[r])) && isQuantity(string(self.quota[r])) && quantity(string(self.limit[r])).isLessThan(quantity(string(self.quota[r]))))[0]",fieldPath=".limit"
type QueueSpec struct {
	// parent is the Queue that this one is part of. A Queue without one stands at the top of the tree.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Parent *string `json:"parent,omitempty"`

	// quota is what the queue can always get back, by resource name. Resources that are not named have a
	// quota of zero. Where cpu, memory, ephemeral-storage or pods are not, the fair share has as large a part of them first as
	// the quota is of the devices, cpu or memory that it names, on the nodes that list these.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(r, isQuantity(string(self[r])))",message="must hold quantities such as 1500m, 8 or 64Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !isQuantity(string(self[r])) || !quantity(string(self[r])).isLessThan(quantity('0')))",messageExpression="'must not be negative, but is for ' + self.filter(r, isQuantity(string(self[r])) && quantity(string(self[r])).isLessThan(quantity('0')))[0]"
	Quota corev1.ResourceList `json:"quota,omitempty"`

	// limit is what the queue's running work never exceeds, by resource name. Resources that are not named
	// have no limit.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(r, isQuantity(string(self[r])))",message="must hold quantities such as 1500m, 8 or 64Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !isQuantity(string(self[r])) || !quantity(string(self[r])).isLessThan(quantity('0')))",messageExpression="'must not be negative, but is for ' + self.filter(r, isQuantity(string(self[r])) && quantity(string(self[r])).isLessThan(quantity('0')))[0]"
	Limit corev1.ResourceList `json:"limit,omitempty"`

	// overQuotaWeight is the queue's part, relative to its siblings of equal priority, of what is left when
	// every quota is served. 0 leaves the queue out of that, unless there is enough for all; 1 if unset.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	OverQuotaWeight *int32 `json:"overQuotaWeight,omitempty"`

	// priority orders siblings when what is left over is handed out: higher values are served first. 0 if unset.
	// +optional
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2147483647
	Priority *int32 `json:"priority,omitempty"`

	// reclaimMinRuntime is how long work of this queue runs before another queue may reclaim its room. If
	// unset, the next ancestor that sets it counts, then the scheduler's default. 0s is a setting of its own.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,12}([.][0-9]+)?ms)?([0-9]{1,15}([.][0-9]+)?(us|µs))?([0-9]{1,18}([.][0-9]+)?ns)?)$')",message="must be a duration such as 90s, 15m or 1h30m, not negative and at most 99999h"
	ReclaimMinRuntime *metav1.Duration `json:"reclaimMinRuntime,omitempty"`

	// preemptMinRuntime is how long work of this queue runs before more important work may preempt it by priority: that of
	// the same queue, that of no queue, and system-critical pods. If unset, the next ancestor that sets it counts, then the scheduler's default. 0s is
	// a setting of its own.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,12}([.][0-9]+)?ms)?([0-9]{1,15}([.][0-9]+)?(us|µs))?([0-9]{1,18}([.][0-9]+)?ns)?)$')",message="must be a duration such as 90s, 15m or 1h30m, not negative and at most 99999h"
	PreemptMinRuntime *metav1.Duration `json:"preemptMinRuntime,omitempty"`

	// namespaceSelector says by their labels which namespaces may use the queue. If unset, the next ancestor that
	// sets it counts; where none does, all namespaces may. An empty selector is a setting of its own: all may.
	// Work that runs goes on when it changes, and counts for the queue as before.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="must have the operator In or NotIn, with values, or Exists or DoesNotExist, without",fieldPath=".matchExpressions"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// maxPriorityClass names the PriorityClass with the highest priority that work of this queue may have. Work above
	// that waits. If unset, the next ancestor that sets it counts; where none does, there is no bound. As long as
	// there is no class of that name, no work of the queue is started.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	MaxPriorityClass *string `json:"maxPriorityClass,omitempty"`
}

// QueueStatus is what Reprieve observes and decides.
type QueueStatus struct {
	// conditions of the queue.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// allocated is the sum of what the queue's scheduled Pods request.
	// +optional
	Allocated corev1.ResourceList `json:"allocated,omitempty"`
	// requested is the sum of what the queue's Pods request, pending ones included.
	// +optional
	Requested corev1.ResourceList `json:"requested,omitempty"`
	// fairShare is what the queue is entitled to at present.
	// +optional
	FairShare corev1.ResourceList `json:"fairShare,omitempty"`
	// quota is the quota that counts: that of spec, or the parent's in resources in which the parent's is less.
	// +optional
	Quota corev1.ResourceList `json:"quota,omitempty"`
	// summary has the figures and conditions in words, as kubectl get shows them. Programs read the other fields.
	// +optional
	Summary *QueueSummary `json:"summary,omitempty"`
	// waiting is the number of the queue's Pods that have no node, those of the queues below it included.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Maximum=2147483647
	Waiting int32 `json:"waiting,omitempty"`
	// namespaceSelector is the one that counts: that of spec, or of the next ancestor that sets it.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// maxPriority is the value of the maxPriorityClass that counts. It is absent where there is no bound, or no such class.
	// +optional
	MaxPriority *int32 `json:"maxPriority,omitempty"`
	// priorityClasses are the PriorityClasses that are not above maxPriority. The admission policies, which do not see
	// PriorityClasses, go by it.
	// +optional
	// +listType=set
	PriorityClasses []string `json:"priorityClasses,omitempty"`
}

// QueueSummary is a Queue's status in words.
type QueueSummary struct {
	// used is what the queue's scheduled Pods request.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Used string `json:"used,omitempty"`
	// share is what the queue is entitled to at present.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Share string `json:"share,omitempty"`
	// quota is the quota that counts. In brackets it has that of spec where that is more.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Quota string `json:"quota,omitempty"`
	// ready is the status of the condition Ready. In brackets it has the reason if the queue is not ready or its quota is
	// not served.
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
