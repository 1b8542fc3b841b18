package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIVersion and Kind are what arguments may say of themselves. Both may be left out.
const (
	APIVersion = "config.reprieve.dev/v1alpha1"
	Kind       = "ReprieveArgs"
)

// PluginName is the name of the plugin in a scheduler's configuration.
const PluginName = "Reprieve"

// ReprieveArgs are the arguments of the plugin Reprieve in one profile.
//
// +kubebuilder:object:root=true
type ReprieveArgs struct {
	metav1.TypeMeta `json:",inline"`

	// workloadAware is whether this profile plans and preempts whole workloads (KEP-5710). With false, what
	// remains is preemption pod by pod as kube-scheduler has it: PodGroups of pods that this profile schedules
	// are neither planned as gangs nor counted as preemption units, on either side. It may be switched back and
	// forth over restarts while work runs.
	//
	// Default: true
	//
	// Example: false
	WorkloadAware *bool `json:"workloadAware,omitempty"`

	// asynchronous is whether the calls of a preemption run beside the scheduling cycle (KEP-4832). With false,
	// the cycle waits until the last victim is on its way out.
	//
	// Default: true
	//
	// Example: false
	Asynchronous *bool `json:"asynchronous,omitempty"`

	// preemptionToleration is whether preemptors of this profile respect the toleration annotations of their
	// victims' PriorityClasses.
	//
	// Default: true
	//
	// Example: false
	PreemptionToleration *bool `json:"preemptionToleration,omitempty"`

	// queueLabelKey is the label by which a Pod without a PodGroup, or a PodGroup of an API without queues, names
	// its leaf Queue.
	//
	// Default: reprieve.dev/queue
	//
	// Example: kai.scheduler/queue
	QueueLabelKey *string `json:"queueLabelKey,omitempty"`

	// preemptMinRuntime is how long work of this profile runs before it may be preempted by
	// priority, where no Queue on the way up from its own says otherwise. It protects work of no
	// Queue as well, and it holds against preemptors of every profile. It also protects work of no
	// profile, from the preemptors of this one. Between 0s and 99999h.
	//
	// Default: 0s
	//
	// Example: 5m
	PreemptMinRuntime *metav1.Duration `json:"preemptMinRuntime,omitempty"`

	// reclaimMinRuntime is how long work of this profile runs before another Queue may reclaim its
	// room, where no Queue on the way up says otherwise. As preemptMinRuntime, it holds against
	// preemptors of every profile. Between 0s and 99999h.
	//
	// Default: 0s
	//
	// Example: 15m
	ReclaimMinRuntime *metav1.Duration `json:"reclaimMinRuntime,omitempty"`

	// reclaimResolveMethod says from where on the way up reclaimMinRuntime is looked for: LCA starts one step below
	// the lowest common ancestor of the two leaf Queues, on the victim's side, so that a setting bears on siblings
	// only; Queue starts at the victim's leaf. The method of the victim's profile counts.
	//
	// Default: LCA
	//
	// Example: Queue
	ReclaimResolveMethod *ResolveMethod `json:"reclaimResolveMethod,omitempty"`

	// terminationTimeout is how long a pod may still be there after its grace period has run out. Until then its room
	// counts as free, though not yet: who fits there once it has gone waits for it, and nothing is taken. A pod that is
	// there longer, on a node that does not answer above all, counts as staying: it is named, and other room is looked
	// for. Where profiles differ, the longest counts for all. Between 1s and 24h.
	//
	// Default: 5m
	//
	// Example: 2m
	TerminationTimeout *metav1.Duration `json:"terminationTimeout,omitempty"`

	// gang says how long the steps of placing a gang may take.
	Gang GangArgs `json:"gang,omitempty"`

	// queues says how the work of this profile is to be in queues.
	Queues QueueArgs `json:"queues,omitempty"`

	// groups says for which kinds of objects PodGroups are made without a user writing them.
	Groups GroupArgs `json:"groups,omitempty"`

	// retry says when a preemption whose calls have failed is tried again, and when a workload preempts again that
	// could not be bound after a preemption.
	Retry RetryArgs `json:"retry,omitempty"`

	// search bounds the parts of the victim search whose cost grows faster than the cluster.
	Search SearchArgs `json:"search,omitempty"`
}

// ResolveMethod says from which Queue on the way up a setting is looked for.
type ResolveMethod string

const (
	// ResolveLCA starts one step below the lowest common ancestor, on the victim's side.
	ResolveLCA ResolveMethod = "LCA"
	// ResolveQueue starts at the victim's leaf Queue.
	ResolveQueue ResolveMethod = "Queue"
)

// QueueArgs say how work is to be in queues.
type QueueArgs struct {
	// required holds work back that is in no queue: that names none, in a namespace without a default. It is for all work
	// of the profile, that of the system included: give the namespaces of such work a default queue.
	//
	// Default: false
	//
	// Example: true
	Required *bool `json:"required,omitempty"`
}

// GangArgs are the times of placing a gang.
type GangArgs struct {
	// permitTimeout is how long members that have a node wait for the rest of their gang. Members follow each
	// other within one pass of the queue, so only a failure lets it run out; then the gang is planned anew.
	// Between 1s and 15m, which is as long as the scheduler's framework lets any pod wait.
	//
	// Default: 1m
	//
	// Example: 30s
	PermitTimeout *metav1.Duration `json:"permitTimeout,omitempty"`

	// settleTime is how long changes to a gang that come in numbers, members being created above all, are gathered
	// before it is planned again. Between 0s and 1m.
	//
	// Default: 100ms
	//
	// Example: 500ms
	SettleTime *metav1.Duration `json:"settleTime,omitempty"`

	// staleTimeout is how long a gang of this profile may lack members that it had before it gives up the room of the others, as
	// a whole: from then on, workloads of the same or a higher priority may preempt it. The time is counted from the first
	// loss. With 0s a gang keeps its room for any time. Between 0s and 24h.
	//
	// Default: 1m
	//
	// Example: 5m
	StaleTimeout *metav1.Duration `json:"staleTimeout,omitempty"`
}

// RetryArgs are the delays between preemptions that fail.
type RetryArgs struct {
	// initialBackoff is the delay after the second failure in a row; the first is followed by another try at
	// once. It doubles with each further failure. Between 1ms and 1h.
	//
	// Default: 1s
	//
	// Example: 2s
	InitialBackoff *metav1.Duration `json:"initialBackoff,omitempty"`

	// maxBackoff is the longest delay. Between 1ms and 24h, and not less than initialBackoff.
	//
	// Default: 30s
	//
	// Example: 1m
	MaxBackoff *metav1.Duration `json:"maxBackoff,omitempty"`

	// initialBindingBackoff is how long a workload preempts nothing after its first preemption that did not end in a
	// binding: the room was made, and Reserve, Permit, PreBind or Bind failed. Until then the workload may still be
	// placed where it fits without victims. The delay doubles with each further such preemption, until the workload is
	// bound. A change to the pod, or to the PodGroup, ends it early. Between 1ms and 1h.
	//
	// Default: 1m
	//
	// Example: 30s
	InitialBindingBackoff *metav1.Duration `json:"initialBindingBackoff,omitempty"`

	// maxBindingBackoff is the longest such delay. Between 1ms and 24h, and not less than initialBindingBackoff.
	//
	// Default: 30m
	//
	// Example: 2h
	MaxBindingBackoff *metav1.Duration `json:"maxBindingBackoff,omitempty"`
}

// SearchArgs bound the victim search. Larger values find room in more of the cases in which members of several
// kinds compete for the same nodes, and take longer.
type SearchArgs struct {
	// packingMembers is the largest gang for which all placements are searched through where simpler ways of
	// packing it fail. Between 0 and 64.
	//
	// Default: 16
	//
	// Example: 24
	PackingMembers *int32 `json:"packingMembers,omitempty"`

	// packingNodes is the largest cluster for which that is done. Between 0 and 1024.
	//
	// Default: 64
	//
	// Example: 128
	PackingNodes *int32 `json:"packingNodes,omitempty"`

	// packingSteps is the most steps of one such search. Between 0 and 1000000.
	//
	// Default: 4000
	//
	// Example: 20000
	PackingSteps *int32 `json:"packingSteps,omitempty"`
}

// GroupArgs say for which kinds of objects PodGroups are made.
type GroupArgs struct {
	// kinds are those for whose pods this profile makes PodGroups, by the rules that Reprieve has: Job, JobSet,
	// LeaderWorkerSet, MPIJob, PyTorchJob, RayCluster, RayJob and SparkApplication. Pods of such an object wait until it is
	// known, so the scheduler needs the right to list and watch the kind.
	//
	// Default: []
	//
	// Example: [Job, JobSet]
	Kinds []string `json:"kinds,omitempty"`

	// optIn says which objects of these kinds get PodGroups: with Annotated those that have the annotation
	// reprieve.dev/gang: "true", or are in a namespace that has it; with Always all. The annotation with "false"
	// leaves an object out in either case.
	//
	// Default: Annotated
	//
	// Example: Always
	OptIn *GroupOptIn `json:"optIn,omitempty"`

	// rules are for further kinds: each says where an object of its kind says how many pods it has.
	//
	// Default: []
	//
	// Example: [{apiVersion: example.com/v1, kind: Trainer, resource: trainers, roles: [{name: worker, replicas: spec.workers}]}]
	Rules []GroupRule `json:"rules,omitempty"`

	// labels are other schedulers whose labels and annotations this profile understands on pods, for their groups and
	// queues: coscheduling (of scheduler-plugins), volcano, kai and koordinator. PodGroups are made from theirs, which the
	// scheduler needs the right to list and watch.
	//
	// Default: []
	//
	// Example: [coscheduling, volcano]
	Labels []GroupLabels `json:"labels,omitempty"`
}

// GroupLabels is a scheduler whose labels and annotations are understood.
type GroupLabels string

const (
	// LabelsCoscheduling is the plugin of that name of scheduler-plugins.
	LabelsCoscheduling GroupLabels = "coscheduling"
	// LabelsVolcano is Volcano.
	LabelsVolcano GroupLabels = "volcano"
	// LabelsKAI is the KAI scheduler.
	LabelsKAI GroupLabels = "kai"
	// LabelsKoordinator is Koordinator.
	LabelsKoordinator GroupLabels = "koordinator"
)

// GroupOptIn says which objects get PodGroups.
type GroupOptIn string

const (
	// OptInAnnotated is for those that ask for it.
	OptInAnnotated GroupOptIn = "Annotated"
	// OptInAlways is for all that do not ask to be left out.
	OptInAlways GroupOptIn = "Always"
)

// GroupRule says of one kind of objects which pods and how many belong together. Its paths are names of fields with dots
// between them, from the top of the object.
type GroupRule struct {
	// apiVersion is that of the kind, as example.com/v1.
	APIVersion string `json:"apiVersion"`
	// kind is the name of the kind, as it stands in the pods' owner references.
	Kind string `json:"kind"`
	// resource is the kind's name in the API, in lower case and plural.
	Resource string `json:"resource"`
	// suspend is the path of a boolean that is true while the object has no pods.
	Suspend string `json:"suspend,omitempty"`
	// nameLabel is the label by which pods name the object, where their owner references do not lead to it.
	NameLabel string `json:"nameLabel,omitempty"`
	// unitLabel is the label that tells the replicas of the object apart, where each is a gang of its own.
	UnitLabel string `json:"unitLabel,omitempty"`
	// units is the path of how many of these replicas there are.
	Units string `json:"units,omitempty"`
	// roleLabel is the label by which pods say which role they have.
	RoleLabel string `json:"roleLabel,omitempty"`
	// roles are what the object's pods are; the first one that fits a pod counts.
	Roles []GroupRole `json:"roles"`
}

// GroupRole is one kind of an object's pods.
type GroupRole struct {
	// name is the value of roleLabel on the role's pods.
	Name string `json:"name"`
	// replicas is the path of how many pods the role has.
	Replicas string `json:"replicas,omitempty"`
	// minimum is the path of how many it needs, where that may be fewer.
	Minimum string `json:"minimum,omitempty"`
	// alone is true for pods that are scheduled by themselves, beside the gang of the others.
	Alone bool `json:"alone,omitempty"`
}
