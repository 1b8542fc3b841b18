package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIVersion and Kind are the type of the arguments. Both may be omitted in a configuration.
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

	// workloadAware determines whether this profile plans and preempts whole workloads (KEP-5710).
	// With false, it preempts pod by pod, as kube-scheduler does. PodGroups of this profile's pods
	// are then neither planned as gangs nor counted as preemption units, as preemptors or as
	// victims. You may change the value over a restart while work runs.
	//
	// Default: true
	//
	// Example: false
	WorkloadAware *bool `json:"workloadAware,omitempty"`

	// asynchronous determines whether the calls of a preemption run beside the scheduling cycle
	// (KEP-4832). With false, the cycle waits until the last victim terminates.
	//
	// Default: true
	//
	// Example: false
	Asynchronous *bool `json:"asynchronous,omitempty"`

	// preemptionToleration determines whether preemptors of this profile respect the toleration
	// annotations of their victims' PriorityClasses.
	//
	// Default: true
	//
	// Example: false
	PreemptionToleration *bool `json:"preemptionToleration,omitempty"`

	// queueLabelKey is the label with the leaf Queue of a Pod without a PodGroup, or of a PodGroup
	// of an API without queues.
	//
	// Default: reprieve.dev/queue
	//
	// Example: kai.scheduler/queue
	QueueLabelKey *string `json:"queueLabelKey,omitempty"`

	// preemptMinRuntime is the time after its start that work of this profile is protected from
	// preemption by priority. A setting of its Queue, or of a Queue above it, takes precedence. It
	// also protects work without a Queue. It applies to preemptors of every profile. For work of no
	// profile, it applies to preemptors of this profile. Between 0s and 99999h.
	//
	// Default: 0s
	//
	// Example: 5m
	PreemptMinRuntime *metav1.Duration `json:"preemptMinRuntime,omitempty"`

	// reclaimMinRuntime is the time after its start that work of this profile is protected from
	// reclaim by another Queue. A setting of its Queue, or of a Queue above it, takes precedence.
	// Like preemptMinRuntime, it applies to preemptors of every profile. Between 0s and 99999h.
	//
	// Default: 0s
	//
	// Example: 15m
	ReclaimMinRuntime *metav1.Duration `json:"reclaimMinRuntime,omitempty"`

	// reclaimResolveMethod is the start of the upward search for a reclaimMinRuntime in the tree of
	// Queues. LCA starts one step below the lowest common ancestor of the two leaf Queues, on the
	// victim's side: a setting then only affects siblings. Queue starts at the victim's leaf. The
	// method of the victim's profile applies.
	//
	// Default: LCA
	//
	// Example: Queue
	ReclaimResolveMethod *ResolveMethod `json:"reclaimResolveMethod,omitempty"`

	// victimOrder lists the criteria that sets of victims are compared by, most important first.
	// It does not change who may be evicted. The list of the preemptor's profile applies. The
	// default is the order of kube-scheduler and of KEP-5710. A list may also have LostWork after
	// HighestPriority, Repeated before StartTime, or both. With LostWork, the scheduler evicts the
	// work that loses the fewest device-hours, among sets with the same highest priority. With
	// Repeated, it prefers to evict groups that were stopped less often, among sets that otherwise
	// cost the same. With cascade Decide, each list has Cascade after Surplus, also by default.
	// docs/cost.md explains the criteria.
	//
	// Default: [BrokenBudgets, HighestPriority, PrioritySum, Pods, Surplus, StartTime]
	//
	// Example: [BrokenBudgets, HighestPriority, LostWork, PrioritySum, Pods,
	// Surplus, StartTime]
	VictimOrder []VictimCriterion `json:"victimOrder,omitempty"`

	// cascade says whether decisions evaluate the evictions that follow from them. Controllers
	// create evicted pods again, and these replacements may preempt other work. Measure evaluates
	// the chosen victims and records the number of pods that their replacements would evict. Decide
	// also prefers the victims with the lowest number, among sets that cost the same by the
	// criteria before Cascade in victimOrder. Both make decisions slower. The mode of the
	// preemptor's profile applies.
	//
	// Default: Off
	//
	// Example: Measure
	Cascade *CascadeMode `json:"cascade,omitempty"`

	// priorityBands lists ranges of priorities that count as equal when victims are compared. In a
	// band, the criteria after HighestPriority decide, such as LostWork. So a victim may have a
	// higher priority than another pod of its band that stays. A band does not change who may be
	// evicted: work of a band may evict work of a lower priority in the same band. Each band has
	// its lowest and its highest priority. A priority in no band is a band of its own. The bands of
	// the preemptor's profile apply. They must not overlap. A band must not have priorities below
	// and above the lowest system-critical one, 2000000000. At most 32.
	//
	// Default: []
	//
	// Example: [{min: 0, max: 99}, {min: 100, max: 999}]
	PriorityBands []PriorityBand `json:"priorityBands,omitempty"`

	// levelOrder weighs the preferred topology levels of gangs against the cost of victims. With
	// LowerCost, a lower cost precedes a nearer level: a gang shares a domain of a preferred level
	// if that costs nothing more. With NearerLevel, a gang uses the nearest level where a domain
	// can hold it, and preempts there although other nodes may have free room. The value of the
	// gang's profile applies. See docs/gangs.md.
	//
	// Default: LowerCost
	//
	// Example: NearerLevel
	LevelOrder *LevelOrder `json:"levelOrder,omitempty"`

	// terminationTimeout is the time that a pod may exist after the end of its grace period. Until
	// then its room counts as free in the future: a preemptor that fits there waits and evicts
	// nothing. After that, mostly on a node that does not answer, the pod counts as staying.
	// Messages name it, and the scheduler looks for other room. If profiles differ, the longest
	// time applies to all. Between 1s and 24h.
	//
	// Default: 5m
	//
	// Example: 2m
	TerminationTimeout *metav1.Duration `json:"terminationTimeout,omitempty"`

	// maxGracePeriod is the longest grace period that the scheduler waits for, from the start of
	// the deletion. A pod that was deleted with a longer one, by its owner or by anyone else,
	// counts as staying terminationTimeout after maxGracePeriod. Then the scheduler looks for other
	// room. In its queue, such a pod counts from the start of the deletion. The scheduler itself
	// evicts no pod with a longer grace period: it deletes the pod with maxGracePeriod in place of
	// the pod's terminationGracePeriodSeconds. If profiles differ, the longest time applies to all.
	// Between 1s and 99999h.
	//
	// Default: 1h
	//
	// Example: 30m
	MaxGracePeriod *metav1.Duration `json:"maxGracePeriod,omitempty"`

	// placement configures where pods are placed that fit without victims.
	Placement PlacementArgs `json:"placement,omitempty"`

	// lostWork configures how the criterion LostWork counts.
	LostWork LostWorkArgs `json:"lostWork,omitempty"`

	// gang limits the durations of the steps that place a gang.
	Gang GangArgs `json:"gang,omitempty"`

	// queues configures the use of Queues by the work of this profile.
	Queues QueueArgs `json:"queues,omitempty"`

	// groups configures the kinds of objects that get PodGroups from Reprieve.
	Groups GroupArgs `json:"groups,omitempty"`

	// drivers limits the number of drivers that run without their workers.
	Drivers DriverArgs `json:"drivers,omitempty"`

	// retry configures two delays: of a preemption after failed calls, and of the next preemption
	// by a workload that could not be bound after a preemption.
	Retry RetryArgs `json:"retry,omitempty"`

	// search limits the parts of the victim search whose cost grows faster than the cluster.
	Search SearchArgs `json:"search,omitempty"`
}

// ResolveMethod is the start of the upward search for a setting in the tree of Queues.
type ResolveMethod string

const (
	// ResolveLCA starts one step below the lowest common ancestor, on the victim's side.
	ResolveLCA ResolveMethod = "LCA"
	// ResolveQueue starts at the victim's leaf Queue.
	ResolveQueue ResolveMethod = "Queue"
)

// LevelOrder weighs preferred topology levels against the cost of victims.
type LevelOrder string

const (
	// LowerCost prefers a lower cost to a nearer level.
	LowerCost LevelOrder = "LowerCost"
	// NearerLevel prefers a nearer level to a lower cost.
	NearerLevel LevelOrder = "NearerLevel"
)

// VictimCriterion is a criterion that sets of victims are compared by.
type VictimCriterion string

const (
	// BrokenBudgets prefers fewer evictions that a disruption budget does not allow.
	BrokenBudgets VictimCriterion = "BrokenBudgets"
	// HighestPriority prefers a lower highest priority among the victims.
	HighestPriority VictimCriterion = "HighestPriority"
	// LostWork prefers less lost work: device-hours since the victims started or last saved their
	// work. A gang that falls below minCount loses the work of all its members.
	LostWork VictimCriterion = "LostWork"
	// PrioritySum prefers a lower sum of the priorities of all pods.
	PrioritySum VictimCriterion = "PrioritySum"
	// Pods prefers fewer pods, then fewer gangs that fall below minCount.
	Pods VictimCriterion = "Pods"
	// Surplus prefers more members past the minCount of their gangs.
	Surplus VictimCriterion = "Surplus"
	// Cascade prefers fewer evictions by the replacements of the victims.
	Cascade VictimCriterion = "Cascade"
	// Repeated prefers PodGroups that preemptions stopped less often since they made progress.
	Repeated VictimCriterion = "Repeated"
	// StartTime prefers a later start among the most important victims.
	StartTime VictimCriterion = "StartTime"
)

// PriorityBand is a range of priorities that count as equal when victims are compared.
type PriorityBand struct {
	// min is the lowest priority in the band.
	Min int32 `json:"min"`
	// max is the highest priority in the band.
	Max int32 `json:"max"`
}

// CascadeMode says whether decisions evaluate the evictions by the replacements of their victims.
type CascadeMode string

const (
	// CascadeOff evaluates nothing.
	CascadeOff CascadeMode = "Off"
	// CascadeMeasure evaluates the chosen victims.
	CascadeMeasure CascadeMode = "Measure"
	// CascadeDecide also compares victims by the criterion Cascade.
	CascadeDecide CascadeMode = "Decide"
)

// LostWorkArgs configure how the criterion LostWork counts. The arguments of the preemptor's
// profile apply.
type LostWorkArgs struct {
	// restartCost is the run time that the restart of a pod loses in addition to its unsaved work.
	// Both are multiplied by the devices of the pod. So with a restart cost, the eviction of a
	// large victim costs something even directly after a checkpoint. The annotation
	// reprieve.dev/restart-cost of a pod or of its PodGroup takes precedence, also with the value
	// 0s. Between 0s and 24h.
	//
	// Default: 0s
	//
	// Example: 5m
	RestartCost *metav1.Duration `json:"restartCost,omitempty"`

	// weights has, by extended resource, how many devices one unit of the resource counts as. Each
	// unit of an extended resource that is not listed counts as one device. With 0, the resource
	// counts as no device. A pod without devices counts as a part of one: its largest part of the
	// CPUs or memory of its node. A weight is 1000 at most, and a multiple of 0.001.
	//
	// Default: {}
	//
	// Example: {nvidia.com/mig-1g.5gb: 0.125, rdma/hca: 0}
	Weights map[string]resource.Quantity `json:"weights,omitempty"`
}

// PlacementArgs configure where pods are placed that fit without victims.
type PlacementArgs struct {
	// device is the extended resource whose fragmentation counts. A unit is a whole device: a
	// resource whose units are shares of a device is not supported.
	//
	// Default: nvidia.com/gpu
	//
	// Example: amd.com/gpu
	Device *string `json:"device,omitempty"`

	// workloads lists the typical kinds of pods, and switches the criterion of fragmentation on.
	// A free device is fragmented if the next pod of this list cannot use it, because the node has
	// too few free devices or CPUs. With the criterion, pods use the nodes where fragmentation
	// increases least. For a single pod, this is the plugin's score, beside the scores of other
	// plugins: set weights under plugins.score. The members of a gang use such nodes one after the
	// other, and other scores have no effect on them. Victims are not chosen by fragmentation.
	// In the score, reserved room counts as free until its pod is on the node. Requests of CPUs and
	// devices suffice. With an empty list, the plugin has no score, and gangs use the fullest
	// nodes. At most 128.
	//
	// Default: []
	//
	// Example: [{requests: {cpu: 8, nvidia.com/gpu: 1}, weight: 70},
	// {requests: {cpu: 90, nvidia.com/gpu: 8}, weight: 30}]
	Workloads []TypicalWorkload `json:"workloads,omitempty"`
}

// TypicalWorkload is a kind of pods that a cluster typically runs.
type TypicalWorkload struct {
	// requests has the requests of one pod.
	Requests map[string]resource.Quantity `json:"requests"`
	// weight is the frequency of the kind, relative to the other kinds. Between 1 and 1000000.
	Weight int64 `json:"weight"`
}

// QueueArgs configure the use of Queues.
type QueueArgs struct {
	// required blocks work without a Queue: work that names none, in a namespace without a default.
	// It applies to all work of the profile, including system work: give the namespaces of such
	// work a default queue.
	//
	// Default: false
	//
	// Example: true
	Required *bool `json:"required,omitempty"`

	// deletedTimeout is the time that running work keeps its place after its Queue, or a Queue
	// above it, was deleted. Until then the work counts for the Queue, whose quota and min-runtimes
	// protect it. No other work of the Queue starts. A Queue with the annotation
	// reprieve.dev/confirm-deletion: "true" is gone at once. If profiles differ, the longest time
	// applies to all. Between 0s and 24h.
	//
	// Default: 10m
	//
	// Example: 1h
	DeletedTimeout *metav1.Duration `json:"deletedTimeout,omitempty"`
}

// DriverArgs limit the number of drivers that run without their workers. A driver creates its
// workers once it runs. Examples are the driver of Spark, the scheduler of Dask, and a pod with
// the annotation reprieve.dev/leads.
type DriverArgs struct {
	// withoutWorkers is the maximum number of drivers that run without their workers at the same
	// time. It is for each Queue, and for each namespace for drivers without a Queue. Further
	// drivers are gated. Drivers of a lower priority do not count. 0 sets no maximum. Between 0
	// and 10000.
	//
	// Default: 1
	//
	// Example: 4
	WithoutWorkers *int32 `json:"withoutWorkers,omitempty"`

	// createTimeout is the time that a running driver without any workers counts. The time starts
	// with the binding, and again with the first container. Between 1s and 24h.
	//
	// Default: 1m
	//
	// Example: 3m
	CreateTimeout *metav1.Duration `json:"createTimeout,omitempty"`

	// workersTimeout is the time that a running driver counts while too few of its workers have a
	// node. The time starts like createTimeout. Between 1s and 24h.
	//
	// Default: 10m
	//
	// Example: 30m
	WorkersTimeout *metav1.Duration `json:"workersTimeout,omitempty"`
}

// GangArgs limit the durations of the steps that place a gang.
type GangArgs struct {
	// permitTimeout is the time that members with a node wait for the rest of their gang. Members
	// follow each other within one pass of the queue, so only a failure exhausts it. Then the gang
	// is planned again. Between 1s and 15m, the maximum of the scheduler's framework.
	//
	// Default: 1m
	//
	// Example: 30s
	PermitTimeout *metav1.Duration `json:"permitTimeout,omitempty"`

	// settleTime is the time that the scheduler gathers frequent changes of a gang, mostly created
	// members, before it plans again. Between 0s and 1m.
	//
	// Default: 100ms
	//
	// Example: 500ms
	SettleTime *metav1.Duration `json:"settleTime,omitempty"`

	// staleTimeout is the time that a gang of this profile may lack members that it had. Then it
	// gives up the room of the others, as a whole: workloads of the same or a higher priority may
	// preempt it. The time starts at the first loss. With 0s a gang always keeps its room. Between
	// 0s and 24h.
	//
	// Default: 1m
	//
	// Example: 5m
	StaleTimeout *metav1.Duration `json:"staleTimeout,omitempty"`

	// healTimeout is the time that the scheduler keeps room for lost members of a gang of this
	// profile, even before there are replacement pods. It keeps the room from workloads of the same
	// or a lower priority in the same queue or in no queue. The time starts at the first loss. With
	// 0s it keeps no room. Between 0s and 1h.
	//
	// Default: 20s
	//
	// Example: 30s
	HealTimeout *metav1.Duration `json:"healTimeout,omitempty"`
}

// RetryArgs are the delays between failed preemptions.
type RetryArgs struct {
	// initialBackoff is the delay after the second failure in a row; the first failure is retried
	// at once. It doubles with each further failure. Between 1ms and 1h.
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

	// initialBindingBackoff is the time that a workload preempts nothing after its first preemption
	// without a binding. In such a preemption the room was free, and Reserve, Permit, PreBind or
	// Bind failed. Meanwhile the workload may be placed where it fits without victims. The delay
	// doubles with each further such preemption, until the workload is bound. A change of the pod
	// or of the PodGroup ends it early. Between 1ms and 1h.
	//
	// Default: 1m
	//
	// Example: 30s
	InitialBindingBackoff *metav1.Duration `json:"initialBindingBackoff,omitempty"`

	// maxBindingBackoff is the longest such delay. Between 1ms and 24h, and not less than
	// initialBindingBackoff.
	//
	// Default: 30m
	//
	// Example: 2h
	MaxBindingBackoff *metav1.Duration `json:"maxBindingBackoff,omitempty"`

	// crashLimit is the number of starts in a row that may crash after a preemption. A start
	// crashes if a pod fails, or a container restarts, before the workload was ready for 10
	// seconds. From this number on, the workload preempts nothing for a time after each crash. That
	// time begins with initialBindingBackoff and doubles up to maxBindingBackoff. Meanwhile the
	// workload may be placed where it fits without victims. Between 0 and 100; 0 is no limit.
	//
	// Default: 3
	//
	// Example: 5
	CrashLimit *int32 `json:"crashLimit,omitempty"`
}

// SearchArgs limit the victim search. Larger values find room in more cases with members of several
// kinds that compete for the same nodes, and take longer.
type SearchArgs struct {
	// packingMembers is the size of the largest gang whose placements the search tries completely,
	// after simpler packing has failed. Between 0 and 64.
	//
	// Default: 16
	//
	// Example: 24
	PackingMembers *int32 `json:"packingMembers,omitempty"`

	// packingNodes is the size of the largest cluster for such a search. Between 0 and 1024.
	//
	// Default: 64
	//
	// Example: 128
	PackingNodes *int32 `json:"packingNodes,omitempty"`

	// packingSteps is the maximum number of steps of one such search. Between 0 and 1000000.
	//
	// Default: 4000
	//
	// Example: 20000
	PackingSteps *int32 `json:"packingSteps,omitempty"`
}

// GroupArgs configure the kinds of objects that get PodGroups from Reprieve.
type GroupArgs struct {
	// kinds lists the kinds of objects that get PodGroups in this profile, by a built-in rule: Job,
	// JobSet, LeaderWorkerSet, MPIJob, PyTorchJob, RayCluster, RayJob and SparkApplication. Pods of
	// such an object are gated until the object is known, so the scheduler needs the rights to list
	// and watch the kind.
	//
	// Default: []
	//
	// Example: [Job, JobSet]
	Kinds []string `json:"kinds,omitempty"`

	// optIn selects the objects of these kinds that get PodGroups. Annotated selects objects with
	// the annotation reprieve.dev/gang: "true", on themselves or on their namespace. Always selects
	// all objects. In both cases the value "false" excludes an object.
	//
	// Default: Annotated
	//
	// Example: Always
	OptIn *GroupOptIn `json:"optIn,omitempty"`

	// rules add further kinds: each rule describes where an object of its kind has the number of
	// its pods.
	//
	// Default: []
	//
	// Example: [{apiVersion: example.com/v1, kind: Trainer, resource: trainers,
	// roles: [{name: worker, replicas: spec.workers}]}]
	Rules []GroupRule `json:"rules,omitempty"`

	// labels lists other schedulers whose labels and annotations for groups and queues this profile
	// reads on pods: coscheduling (of scheduler-plugins), volcano, kai and koordinator. Reprieve
	// creates PodGroups from theirs, so the scheduler needs the rights to list and watch them.
	//
	// Default: []
	//
	// Example: [coscheduling, volcano]
	Labels []GroupLabels `json:"labels,omitempty"`
}

// GroupLabels is a scheduler whose labels and annotations Reprieve reads.
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

// GroupOptIn selects the objects that get PodGroups.
type GroupOptIn string

const (
	// OptInAnnotated selects objects with the annotation.
	OptInAnnotated GroupOptIn = "Annotated"
	// OptInAlways selects all objects without an annotation that excludes them.
	OptInAlways GroupOptIn = "Always"
)

// GroupRule describes which pods of a kind of objects form a gang, and how many. Its paths are
// names of fields with dots between them, from the top of the object.
type GroupRule struct {
	// apiVersion is the group and version of the kind, such as example.com/v1.
	APIVersion string `json:"apiVersion"`
	// kind is the name of the kind, as in the pods' owner references.
	Kind string `json:"kind"`
	// resource is the kind's name in the API, in lower case and plural.
	Resource string `json:"resource"`
	// suspend is the path of a boolean that is true while the object has no pods.
	Suspend string `json:"suspend,omitempty"`
	// nameLabel is the label with the name of the object on its pods, if owner references do not
	// lead to the object.
	NameLabel string `json:"nameLabel,omitempty"`
	// unitLabel is the label that distinguishes the replicas of the object, if each replica is a
	// gang.
	UnitLabel string `json:"unitLabel,omitempty"`
	// units is the path of the number of these replicas.
	Units string `json:"units,omitempty"`
	// roleLabel is the label with the role of a pod.
	RoleLabel string `json:"roleLabel,omitempty"`
	// roles lists the roles of the object's pods; the first matching role applies.
	Roles []GroupRole `json:"roles"`
}

// GroupRole is one kind of an object's pods.
type GroupRole struct {
	// name is the value of roleLabel on the role's pods.
	Name string `json:"name"`
	// replicas is the path of the number of pods of the role.
	Replicas string `json:"replicas,omitempty"`
	// minimum is the path of the needed number of pods, if it may be lower.
	Minimum string `json:"minimum,omitempty"`
	// alone is true for pods that are scheduled by themselves, beside the gang of the others.
	Alone bool `json:"alone,omitempty"`
	// leads is true for pods that create the others once they run, as drivers do. It requires
	// alone.
	Leads bool `json:"leads,omitempty"`
}
