package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelQueue is the label with the leaf Queue of a Pod without a PodGroup. The configuration of the
// scheduler can change the key.
const LabelQueue = "reprieve.dev/queue"

// AnnotationDefaultQueue is an annotation of a namespace. It names the default Queue, for work that
// names none itself.
const AnnotationDefaultQueue = LabelQueue

// AnnotationConfirmDeletion is the annotation that marks the deletion of a Queue as intended. With
// the value "true", running work loses its place in the Queue at once when the Queue is deleted.
const AnnotationConfirmDeletion = "reprieve.dev/confirm-deletion"

// Annotations of a Queue with the longest min-runtimes that the owners of its children may set. The
// values are durations such as "90m". Without a cap, owners set no min-runtime.
const (
	AnnotationMaxPreemptMinRuntime = "reprieve.dev/max-preempt-min-runtime"
	AnnotationMaxReclaimMinRuntime = "reprieve.dev/max-reclaim-min-runtime"
)

// Types of the conditions in QueueStatus.
const (
	// ConditionQueueReady is False while the queue cannot be used: its parents do not lead to the
	// top of the tree.
	ConditionQueueReady = "Ready"
	// ConditionQuotaServed is False while the queue's quota is reduced to its parent's, and while
	// the queue cannot get all of it back.
	ConditionQuotaServed = "QuotaServed"
	// ConditionOrphans is True while work runs that names the queue, although the queue cannot
	// contain work.
	ConditionOrphans = "Orphans"
)

// Reasons of the conditions in QueueStatus.
const (
	// ReasonQueueReady: the queue can be used.
	ReasonQueueReady = "Ready"
	// ReasonParentNotFound: a queue on the way to the top of the tree does not exist.
	ReasonParentNotFound = "ParentNotFound"
	// ReasonParentCycle: the queue is its own ancestor, or below one that is.
	ReasonParentCycle = "ParentCycle"
	// ReasonMaxPriorityUnknown: the PriorityClass that spec.maxPriorityClass names does not exist.
	ReasonMaxPriorityUnknown = "MaxPriorityUnknown"
	// ReasonQuotaServed: the quota is within the parent's.
	ReasonQuotaServed = "QuotaServed"
	// ReasonQuotaHeld: PodGroups of other queues can only be evicted whole, and are larger than the
	// usage of those queues beyond their quota. So part of the quota cannot be given back.
	ReasonQuotaHeld = "QuotaHeld"
	// ReasonQuotaAboveParent: the quota is above the parent's, which applies instead.
	ReasonQuotaAboveParent = "QuotaAboveParent"
	// ReasonHasWork: running work names the queue, although the queue is no leaf or cannot be used.
	ReasonHasWork = "HasWork"
	// ReasonNoWork: no running work names such a queue.
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

	// spec is the request of the administrator.
	// +optional
	Spec QueueSpec `json:"spec,omitempty"`
	// status is the observed state. Only Reprieve writes it.
	// +optional
	Status QueueStatus `json:"status,omitempty"`
}

// QueueSpec is the request of an administrator.
//
// +kubebuilder:validation:XValidation:rule="!has(self.quota) || !has(self.limit) || self.quota.all(r, !(r in self.limit) || !isQuantity(string(self.limit[r])) || !isQuantity(string(self.quota[r])) || !quantity(string(self.limit[r])).isLessThan(quantity(string(self.quota[r]))))",messageExpression="'must be at least the quota, but is less for ' + self.quota.filter(r, r in self.limit && isQuantity(string(self.limit[r])) && isQuantity(string(self.quota[r])) && quantity(string(self.limit[r])).isLessThan(quantity(string(self.quota[r]))))[0]",fieldPath=".limit"
type QueueSpec struct {
	// parent is the Queue above this one. A Queue without a parent is at the top of the tree.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Parent *string `json:"parent,omitempty"`

	// quota is the amount that the queue can always get back, by resource name. Other resources
	// have a quota of zero. If the quota does not name cpu, memory, ephemeral-storage or pods, the
	// fair share first contains a part of them. That part is as large as the quota's part of the
	// named devices, cpu or memory, on the nodes that list these.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(r, isQuantity(string(self[r])))",message="must hold quantities such as 1500m, 8 or 64Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !isQuantity(string(self[r])) || !quantity(string(self[r])).isLessThan(quantity('0')))",messageExpression="'must not be negative, but is for ' + self.filter(r, isQuantity(string(self[r])) && quantity(string(self[r])).isLessThan(quantity('0')))[0]"
	// +kubebuilder:validation:XValidation:rule="self.all(r, r != 'pods' && !r.contains('/') || !isQuantity(string(self[r])) || quantity(string(self[r])).isInteger())",messageExpression="'must be an integer for pods and devices, but is not for ' + self.filter(r, (r == 'pods' || r.contains('/')) && isQuantity(string(self[r])) && !quantity(string(self[r])).isInteger())[0]"
	Quota corev1.ResourceList `json:"quota,omitempty"`

	// limit is the maximum usage of the queue's running work, by resource name. Other resources
	// have no limit.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(r, isQuantity(string(self[r])))",message="must hold quantities such as 1500m, 8 or 64Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !isQuantity(string(self[r])) || !quantity(string(self[r])).isLessThan(quantity('0')))",messageExpression="'must not be negative, but is for ' + self.filter(r, isQuantity(string(self[r])) && quantity(string(self[r])).isLessThan(quantity('0')))[0]"
	// +kubebuilder:validation:XValidation:rule="self.all(r, r != 'pods' && !r.contains('/') || !isQuantity(string(self[r])) || quantity(string(self[r])).isInteger())",messageExpression="'must be an integer for pods and devices, but is not for ' + self.filter(r, (r == 'pods' || r.contains('/')) && isQuantity(string(self[r])) && !quantity(string(self[r])).isInteger())[0]"
	Limit corev1.ResourceList `json:"limit,omitempty"`

	// overQuotaWeight is the queue's part of the rest after all quotas, relative to its siblings of
	// equal priority. With 0 the queue gets no part until all demand is met; 1 if unset.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	OverQuotaWeight *int32 `json:"overQuotaWeight,omitempty"`

	// priority is the order of siblings when the rest after all quotas is distributed: higher
	// values are served first. 0 if unset.
	// +optional
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2147483647
	Priority *int32 `json:"priority,omitempty"`

	// reclaimMinRuntime is the time after its start that work of this queue is protected from
	// reclaim by another queue. If unset, the next ancestor with a value applies, then the
	// scheduler's default. 0s is a value of its own.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,12}([.][0-9]+)?ms)?([0-9]{1,15}([.][0-9]+)?(us|µs))?([0-9]{1,18}([.][0-9]+)?ns)?)$')",message="must be a duration such as 90s, 15m or 1h30m, not negative and at most 99999h"
	ReclaimMinRuntime *metav1.Duration `json:"reclaimMinRuntime,omitempty"`

	// preemptMinRuntime is the time after its start that work of this queue is protected from
	// preemption by priority: by work of the same queue, by work of no queue, and by
	// system-critical pods. If unset, the next ancestor with a value applies, then the scheduler's
	// default. 0s is a value of its own.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,12}([.][0-9]+)?ms)?([0-9]{1,15}([.][0-9]+)?(us|µs))?([0-9]{1,18}([.][0-9]+)?ns)?)$')",message="must be a duration such as 90s, 15m or 1h30m, not negative and at most 99999h"
	PreemptMinRuntime *metav1.Duration `json:"preemptMinRuntime,omitempty"`

	// silentWorkCap is the longest run time that work of this queue can lose by an eviction, while
	// the work has saved nothing since its start. It caps the claims of work without the annotation
	// reprieve.dev/last-checkpoint. It applies if the profile of the preemptor counts lost work. If
	// unset, the next ancestor with a value applies; without one, there is no cap. 0s is a value of
	// its own: then such work loses only its restart cost.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,12}([.][0-9]+)?ms)?([0-9]{1,15}([.][0-9]+)?(us|µs))?([0-9]{1,18}([.][0-9]+)?ns)?)$')",message="must be a duration such as 90s, 15m or 1h30m, not negative and at most 99999h"
	SilentWorkCap *metav1.Duration `json:"silentWorkCap,omitempty"`

	// namespaceSelector selects the namespaces that may use the queue, by their labels. If unset,
	// the next ancestor with a value applies; without one, all namespaces may. An empty selector is
	// a value of its own: all may. When it changes, running work continues and counts for the queue
	// as before.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="must have the operator In or NotIn, with values, or Exists or DoesNotExist, without",fieldPath=".matchExpressions"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// maxPriorityClass names the PriorityClass with the highest priority that work of this queue
	// may have. Work above it is blocked. If unset, the next ancestor with a value applies; without
	// one, there is no bound. While no class of that name exists, no work of the queue starts.
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
	// quota is the effective quota: that of spec, or the parent's for resources with a lower quota
	// there.
	// +optional
	Quota corev1.ResourceList `json:"quota,omitempty"`
	// summary has the figures and conditions as text, as kubectl get shows them. Programs should
	// read the other fields.
	// +optional
	Summary *QueueSummary `json:"summary,omitempty"`
	// waiting is the number of the queue's Pods without a node, including those of the queues below
	// it.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Maximum=2147483647
	Waiting int32 `json:"waiting,omitempty"`
	// namespaceSelector is the effective selector: that of spec, or of the next ancestor that sets
	// it.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// maxPriority is the value of the effective maxPriorityClass. It is absent without a bound, or
	// without such a class.
	// +optional
	MaxPriority *int32 `json:"maxPriority,omitempty"`
	// priorityClasses are the PriorityClasses up to maxPriority. The admission policies use them,
	// because they cannot read PriorityClasses.
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
