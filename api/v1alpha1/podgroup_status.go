package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodGroupPhase summarizes the state of a PodGroup. Its conditions have the reasons.
//
// +kubebuilder:validation:Enum=Pending;Scheduled;Running;Degraded;Disrupted;Succeeded
type PodGroupPhase string

const (
	// PodGroupPending: too few members have a node, and the group is not Degraded. The phases
	// Pending and Scheduled use the rule of ConditionPodGroupScheduled for the number of members.
	PodGroupPending PodGroupPhase = "Pending"
	// PodGroupScheduled: enough members have a node, but fewer than minCount run.
	PodGroupScheduled PodGroupPhase = "Scheduled"
	// PodGroupRunning: at least minCount members run or have succeeded.
	PodGroupRunning PodGroupPhase = "Running"
	// PodGroupDegraded: members were lost, and too few have a node; see ConditionDegraded.
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
