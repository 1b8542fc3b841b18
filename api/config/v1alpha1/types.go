package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The type of the arguments. A configuration may omit both fields.
const (
	// APIVersion is the group and version of the arguments.
	APIVersion = "config.reprieve.dev/v1alpha1"
	// Kind is the kind of the arguments.
	Kind = "ReprieveArgs"
)

// PluginName is the name of the plugin in a scheduler's configuration.
const PluginName = "Reprieve"

// ReprieveArgs are the arguments of the plugin Reprieve in one profile.
//
// +kubebuilder:object:root=true
type ReprieveArgs struct {
	metav1.TypeMeta `json:",inline"`

	// workloadAware determines whether the scheduler plans and preempts whole workloads for this
	// profile (KEP-5710). With false, it treats every pod of this profile as a single pod, as
	// kube-scheduler does. A member of a PodGroup is then a single pod too, both as a preemptor and
	// as a victim. You can change the value with a restart of the scheduler while work runs.
	//
	// Default: true
	//
	// Example: false
	WorkloadAware *bool `json:"workloadAware,omitempty"`

	// asynchronous determines whether the API calls of a preemption run in the background, beside
	// the scheduling cycle (KEP-4832). With false, the cycle waits until the last victim
	// terminates.
	//
	// Default: true
	//
	// Example: false
	Asynchronous *bool `json:"asynchronous,omitempty"`

	// preemptionToleration determines whether preemptors of this profile respect tolerations. A
	// toleration protects pods of a PriorityClass from some preemptors. The annotations of the
	// PriorityClass define it.
	//
	// Default: true
	//
	// Example: false
	PreemptionToleration *bool `json:"preemptionToleration,omitempty"`

	// queueLabelKey is the key of the label that names the leaf Queue of a Pod without a PodGroup.
	// The label also applies to a PodGroup of scheduling.k8s.io, because that API has no field for
	// a Queue.
	//
	// Default: reprieve.dev/queue
	//
	// Example: kai.scheduler/queue
	QueueLabelKey *string `json:"queueLabelKey,omitempty"`

	// preemptMinRuntime protects work of this profile from preemption by priority, for this time
	// after the start of the work. The setting of the work's Queue, or of a Queue above it, takes
	// precedence. Work without a Queue is protected too. Preemptors of every profile respect the
	// time. If a victim belongs to another scheduler, the value of the preemptor's profile applies.
	// Between 0s and 99999h.
	//
	// Default: 0s
	//
	// Example: 5m
	PreemptMinRuntime *metav1.Duration `json:"preemptMinRuntime,omitempty"`

	// reclaimMinRuntime protects work of this profile from reclaim by another Queue, for this time
	// after the start of the work. The setting of the work's Queue, or of a Queue above it, takes
	// precedence. Preemptors of every profile respect the time. Between 0s and 99999h.
	//
	// Default: 0s
	//
	// Example: 15m
	ReclaimMinRuntime *metav1.Duration `json:"reclaimMinRuntime,omitempty"`

	// reclaimResolveMethod is the Queue where the scheduler begins to look for a reclaimMinRuntime.
	// From there, it goes up the tree of Queues. LCA begins at the Queue below the lowest common
	// ancestor of the preemptor's and the victim's Queues, on the victim's side. The setting of a
	// leaf Queue then protects only from siblings and the Queues below them. Queue begins at the
	// victim's leaf Queue. The method of the victim's profile applies.
	//
	// Default: LCA
	//
	// Example: Queue
	ReclaimResolveMethod *ResolveMethod `json:"reclaimResolveMethod,omitempty"`

	// victimOrder lists the criteria that sets of victims are compared by, most important first. It
	// does not change who may be evicted. The list of the preemptor's profile applies. With
	// LostWork, the scheduler evicts the work that loses the fewest device-hours, among sets with
	// the same highest priority. lostWork configures how these hours count. The list without
	// LostWork is the order of kube-scheduler and of KEP-5710. You can add Repeated before
	// StartTime. With it, the scheduler prefers to evict groups that were stopped less often, among
	// sets that otherwise cost the same. If cascade is Decide, a list must have Cascade after
	// Surplus, and the default list has it. docs/cost.md explains the criteria.
	//
	// Default: [BrokenBudgets, HighestPriority, LostWork, PrioritySum, Pods,
	// Surplus, StartTime]
	//
	// Example: [BrokenBudgets, HighestPriority, PrioritySum, Pods, Surplus, StartTime]
	VictimOrder []VictimCriterion `json:"victimOrder,omitempty"`

	// cascade determines whether the scheduler evaluates the evictions that follow from a decision.
	// Controllers replace evicted pods, and the replacements may preempt other work. With Measure,
	// the scheduler records how many pods the replacements of the chosen victims would evict. With
	// Decide, it also prefers the victims with the lowest such number, among sets that cost the
	// same by the criteria before Cascade in victimOrder. Measure and Decide make decisions slower.
	// The mode of the preemptor's profile applies.
	//
	// Default: Off
	//
	// Example: Measure
	Cascade *CascadeMode `json:"cascade,omitempty"`

	// priorityBands lists ranges of priorities that count as equal when victims are compared. Among
	// victims of one band, the criteria after HighestPriority decide, such as LostWork. So the
	// scheduler may evict a pod and keep a pod of the same band whose priority is lower. A band
	// does not change who may be evicted: work of a band may evict work of a lower priority in the
	// same band. min and max belong to the band. A priority in no band is a band of its own. The
	// bands of the preemptor's profile apply. Bands must not overlap. Each band must be completely
	// below or completely above the priority 1999999999, because system-critical priorities begin
	// at 2000000000. At most 32.
	//
	// Default: []
	//
	// Example: [{min: 0, max: 99}, {min: 100, max: 999}]
	PriorityBands []PriorityBand `json:"priorityBands,omitempty"`

	// levelOrder determines whether the cost of victims or a preferred topology level comes first
	// when a gang is placed. With LowerCost, a gang shares a domain of a preferred level only if
	// this does not raise the cost of its victims. With NearerLevel, a gang uses the nearest level
	// where one domain can hold it. The scheduler then preempts in that domain, even if nodes
	// outside the domain have free room. The value of the gang's profile applies. See
	// docs/gangs.md.
	//
	// Default: LowerCost
	//
	// Example: NearerLevel
	LevelOrder *LevelOrder `json:"levelOrder,omitempty"`

	// terminationTimeout is the time that a terminating pod may exist after the end of its grace
	// period. Until then, the search for victims counts the room of the pod as free: a preemptor
	// that fits there waits and evicts nothing. After that, the search counts the pod as running,
	// messages name the pod, and the scheduler looks for other room. This mostly happens on nodes
	// that do not answer. If profiles differ, the longest time applies to all. Between 1s and 24h.
	//
	// Default: 5m
	//
	// Example: 2m
	TerminationTimeout *metav1.Duration `json:"terminationTimeout,omitempty"`

	// maxGracePeriod is the longest grace period that the scheduler waits for, from the start of
	// the deletion. The scheduler itself evicts no pod with a longer grace period: it deletes the
	// pod with maxGracePeriod in place of the pod's terminationGracePeriodSeconds. Others may
	// delete a pod with a longer grace period. When maxGracePeriod and then terminationTimeout have
	// passed, the search counts such a pod as running, and the scheduler looks for other room.
	// Unlike other terminating pods, such a pod counts as usage of its queue all the time. If
	// profiles differ, the longest time applies to all. Between 1s and 99999h.
	//
	// Default: 1h
	//
	// Example: 30m
	MaxGracePeriod *metav1.Duration `json:"maxGracePeriod,omitempty"`

	// placement configures the choice of nodes for pods that fit without victims.
	Placement PlacementArgs `json:"placement,omitempty"`

	// lostWork configures the criterion LostWork of victimOrder.
	LostWork LostWorkArgs `json:"lostWork,omitempty"`

	// gang limits the durations of the steps that place a gang.
	Gang GangArgs `json:"gang,omitempty"`

	// queues configures the use of Queues by the work of this profile.
	Queues QueueArgs `json:"queues,omitempty"`

	// groups selects the objects that Reprieve creates PodGroups for.
	Groups GroupArgs `json:"groups,omitempty"`

	// drivers limits the number of drivers that run without their workers.
	Drivers DriverArgs `json:"drivers,omitempty"`

	// retry configures two delays. The first begins when API calls of a preemption have failed. The
	// second begins after a preemption that did not lead to a binding: the workload preempts
	// nothing for a time.
	Retry RetryArgs `json:"retry,omitempty"`

	// search limits the exhaustive parts of the search for victims. Their time can grow much faster
	// than the size of the cluster.
	Search SearchArgs `json:"search,omitempty"`
}

// ResolveMethod is the Queue where the scheduler begins to look for a setting. From there, it goes
// up the tree of Queues.
type ResolveMethod string

const (
	// ResolveLCA begins at the Queue below the lowest common ancestor of the preemptor's and the
	// victim's Queues, on the victim's side.
	ResolveLCA ResolveMethod = "LCA"
	// ResolveQueue begins at the victim's leaf Queue.
	ResolveQueue ResolveMethod = "Queue"
)

// LevelOrder determines whether the cost of victims or a preferred topology level comes first.
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
	// BrokenBudgets prefers fewer evictions that violate a PodDisruptionBudget.
	BrokenBudgets VictimCriterion = "BrokenBudgets"
	// HighestPriority prefers a lower highest priority among the victims.
	HighestPriority VictimCriterion = "HighestPriority"
	// LostWork prefers less lost work: device-hours since the victims started or last saved their
	// work. A gang that falls below minCount loses the work of all its members.
	LostWork VictimCriterion = "LostWork"
	// PrioritySum prefers a lower sum of the priorities of all evicted pods.
	PrioritySum VictimCriterion = "PrioritySum"
	// Pods prefers fewer pods, then fewer gangs that fall below minCount.
	Pods VictimCriterion = "Pods"
	// Surplus prefers more surplus members among the victims. These are members past the minCount
	// of their gangs.
	Surplus VictimCriterion = "Surplus"
	// Cascade prefers fewer evictions by the replacements of the victims.
	Cascade VictimCriterion = "Cascade"
	// Repeated prefers victims whose PodGroups had fewer stops since their last progress. A stop is
	// a preemption that evicts the whole group, or leaves its gang below minCount.
	Repeated VictimCriterion = "Repeated"
	// StartTime prefers a later start of the most important victims.
	StartTime VictimCriterion = "StartTime"
)

// PriorityBand is a range of priorities that count as equal when victims are compared.
type PriorityBand struct {
	// min is the lowest priority in the band.
	Min int32 `json:"min"`
	// max is the highest priority in the band.
	Max int32 `json:"max"`
}

// CascadeMode determines whether the scheduler evaluates the evictions by the replacements of
// victims.
type CascadeMode string

const (
	// CascadeOff evaluates nothing.
	CascadeOff CascadeMode = "Off"
	// CascadeMeasure evaluates the chosen victims and records the result.
	CascadeMeasure CascadeMode = "Measure"
	// CascadeDecide also compares victims by the criterion Cascade.
	CascadeDecide CascadeMode = "Decide"
)

// LostWorkArgs configure the criterion LostWork. The arguments of the preemptor's profile apply.
type LostWorkArgs struct {
	// restartCost is the run time that a pod loses by a restart, in addition to its unsaved run
	// time. An eviction costs the sum of the two, multiplied by the number of devices of the pod.
	// So the eviction of a large victim costs something even directly after a checkpoint. The
	// annotation reprieve.dev/restart-cost of a pod or of its PodGroup takes precedence, also with
	// the value 0s. Between 0s and 24h.
	//
	// Default: 0s
	//
	// Example: 5m
	RestartCost *metav1.Duration `json:"restartCost,omitempty"`

	// step is the unit of run time in the comparison of victims. The run time since the start or
	// the last checkpoint is rounded down to whole steps. So work that has run for less than a step
	// costs only its restartCost. If the rounded losses are equal, the criteria after LostWork
	// decide. restartCost and reports of lost work are not rounded. With 0s, each second counts.
	// Between 0s and 24h.
	//
	// Default: 5m
	//
	// Example: 15m
	Step *metav1.Duration `json:"step,omitempty"`

	// podCost is the cost of each evicted pod in the comparison of victims: the work of one device
	// for this time. It is added to the lost work of the pod. It is not added for a pod whose run
	// time since the last checkpoint is less than step. With a higher podCost, fewer pods are
	// evicted, and each of them may lose more work. Reports of lost work do not include it. Between
	// 0s and 24h.
	//
	// Default: 1h
	//
	// Example: 30m
	PodCost *metav1.Duration `json:"podCost,omitempty"`

	// weights maps extended resources to the number of devices that one unit of the resource counts
	// as. A unit of an extended resource that is not listed counts as one device. With 0, the
	// resource does not count. A pod without devices counts as a fraction of one device: the
	// fraction of its node's CPUs or memory that it requests, whichever is larger. A weight is 1000
	// at most, and a multiple of 0.001.
	//
	// Default: {}
	//
	// Example: {nvidia.com/mig-1g.5gb: 0.125, rdma/hca: 0}
	Weights map[string]resource.Quantity `json:"weights,omitempty"`
}

// PlacementArgs configure the choice of nodes for pods that fit without victims.
type PlacementArgs struct {
	// device is the extended resource whose fragmentation counts. Each unit must be a whole device:
	// resources whose units are parts of a device are not supported.
	//
	// Default: nvidia.com/gpu
	//
	// Example: amd.com/gpu
	Device *string `json:"device,omitempty"`

	// workloads lists the typical kinds of pods. A list that is not empty enables placement by
	// fragmentation. A free device is fragmented if the next typical pod cannot use it, because the
	// node has too few free devices or CPUs. The scheduler then places pods on the nodes where
	// fragmentation increases least. For a single pod, this preference is the plugin's score. It is
	// combined with the scores of other plugins, by the weights under plugins.score. The members of
	// a gang are placed one after the other by fragmentation alone. Victims are not chosen by
	// fragmentation. The score counts reserved room as free until its pod is on the node. It is
	// enough to list the CPUs and devices that a typical pod requests. With an empty list, the
	// plugin has no score, and gangs use the fullest nodes. At most 128.
	//
	// Default: []
	//
	// Example: [{requests: {cpu: 8, nvidia.com/gpu: 1}, weight: 70},
	// {requests: {cpu: 90, nvidia.com/gpu: 8}, weight: 30}]
	Workloads []TypicalWorkload `json:"workloads,omitempty"`
}

// TypicalWorkload is a kind of pods that is frequent in a cluster.
type TypicalWorkload struct {
	// requests are the resource requests of one pod of the kind.
	Requests map[string]resource.Quantity `json:"requests"`
	// weight is the frequency of the kind, relative to the other kinds. Between 1 and 1000000.
	Weight int64 `json:"weight"`
}

// QueueArgs configure the use of Queues.
type QueueArgs struct {
	// required determines whether work must be in a Queue. With true, work is blocked if it names
	// no Queue and its namespace has no default Queue. This includes system work: give the
	// namespaces of system work a default Queue.
	//
	// Default: false
	//
	// Example: true
	Required *bool `json:"required,omitempty"`

	// deletedTimeout is the time that a deleted Queue continues to exist for the running work in it
	// or below it. Until then, the work counts for the Queue, and the quota and min-runtimes of the
	// Queue protect the work. No other work of the Queue starts. A Queue with the annotation
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
	// time. The maximum applies to each Queue, and to each namespace for drivers without a Queue.
	// Further drivers are gated. Drivers of a lower priority than the waiting driver do not count.
	// 0 sets no maximum. Between 0 and 10000.
	//
	// Default: 1
	//
	// Example: 4
	WithoutWorkers *int32 `json:"withoutWorkers,omitempty"`

	// createTimeout is the time that a running driver without any workers counts towards the
	// maximum of withoutWorkers. After that, it no longer counts. The time starts when the driver
	// is bound, and again when its first container starts. Between 1s and 24h.
	//
	// Default: 1m
	//
	// Example: 3m
	CreateTimeout *metav1.Duration `json:"createTimeout,omitempty"`

	// workersTimeout is the time that a running driver with some workers, but too few workers with
	// a node, counts towards the maximum of withoutWorkers. The time starts when the driver is
	// bound, and again when its first container starts. Between 1s and 24h.
	//
	// Default: 10m
	//
	// Example: 30m
	WorkersTimeout *metav1.Duration `json:"workersTimeout,omitempty"`
}

// GangArgs limit the durations of the steps that place a gang.
type GangArgs struct {
	// permitTimeout is the time that members with a node wait for the rest of their gang. The
	// scheduler places the members directly one after the other, so the time only runs out after a
	// failure. The scheduler then plans the gang again. Between 1s and 15m, the maximum of the
	// scheduling framework.
	//
	// Default: 1m
	//
	// Example: 30s
	PermitTimeout *metav1.Duration `json:"permitTimeout,omitempty"`

	// settleTime is the time that the scheduler collects frequent changes of a gang before it plans
	// the gang again. Most of these changes are new members. Between 0s and 1m.
	//
	// Default: 100ms
	//
	// Example: 500ms
	SettleTime *metav1.Duration `json:"settleTime,omitempty"`

	// staleTimeout is the time that a gang of this profile may run with too few members after it
	// has lost some. The time starts at the first loss. After that, workloads of the same or a
	// higher priority may preempt the remaining members together. With 0s, they may never do so for
	// this reason. Between 0s and 24h.
	//
	// Default: 1m
	//
	// Example: 5m
	StaleTimeout *metav1.Duration `json:"staleTimeout,omitempty"`

	// healTimeout is the time that the scheduler keeps room for lost members of a gang of this
	// profile, even before replacement pods exist. The time starts at the first loss. Workloads of
	// the same or a lower priority cannot use the room, if they are in the same queue or in no
	// queue. With 0s, the scheduler keeps no room. Between 0s and 1h.
	//
	// Default: 20s
	//
	// Example: 30s
	HealTimeout *metav1.Duration `json:"healTimeout,omitempty"`
}

// RetryArgs are the delays after preemptions that failed or did not lead to a binding.
type RetryArgs struct {
	// initialBackoff is the delay after the second failed preemption in a row. The first failure is
	// retried at once. The delay doubles with each further failure. Between 1ms and 1h.
	//
	// Default: 1s
	//
	// Example: 2s
	InitialBackoff *metav1.Duration `json:"initialBackoff,omitempty"`

	// maxBackoff is the longest delay after failed preemptions. Between 1ms and 24h, and not less
	// than initialBackoff.
	//
	// Default: 30s
	//
	// Example: 1m
	MaxBackoff *metav1.Duration `json:"maxBackoff,omitempty"`

	// initialBindingBackoff is the time that a workload preempts nothing after its first preemption
	// without a binding. In such a preemption the room was free, but Reserve, Permit, PreBind or
	// Bind failed. During this time, the workload may still be placed where it fits without
	// victims. The time doubles with each further such preemption, until the workload is bound. A
	// change of the pod or of the PodGroup ends it early. Between 1ms and 1h.
	//
	// Default: 1m
	//
	// Example: 30s
	InitialBindingBackoff *metav1.Duration `json:"initialBindingBackoff,omitempty"`

	// maxBindingBackoff is the longest time that a workload preempts nothing after preemptions
	// without a binding. Between 1ms and 24h, and not less than initialBindingBackoff.
	//
	// Default: 30m
	//
	// Example: 2h
	MaxBindingBackoff *metav1.Duration `json:"maxBindingBackoff,omitempty"`

	// crashLimit is the number of starts in a row that may crash after a preemption. A start
	// crashes if a pod fails, or a container restarts, before the workload was ready for 10
	// seconds. From this number on, the workload preempts nothing for a time after each crash. The
	// first such time is initialBindingBackoff, and each further one is twice as long, up to
	// maxBindingBackoff. During this time, the workload may still be placed where it fits without
	// victims. Between 0 and 100; 0 is no limit.
	//
	// Default: 3
	//
	// Example: 5
	CrashLimit *int32 `json:"crashLimit,omitempty"`
}

// SearchArgs limit the search for victims. They matter for gangs with members of several kinds that
// compete for the same nodes. With larger values, the search finds room for more of these gangs,
// and takes longer.
type SearchArgs struct {
	// packingMembers is the maximum number of members of a gang for an exhaustive search of
	// placements. The scheduler starts this search after simpler packing has failed. Between 0 and
	// 64.
	//
	// Default: 16
	//
	// Example: 24
	PackingMembers *int32 `json:"packingMembers,omitempty"`

	// packingNodes is the maximum number of nodes of a cluster for an exhaustive search. Between 0
	// and 1024.
	//
	// Default: 64
	//
	// Example: 128
	PackingNodes *int32 `json:"packingNodes,omitempty"`

	// packingSteps is the maximum number of steps of one exhaustive search. Between 0 and 1000000.
	//
	// Default: 4000
	//
	// Example: 20000
	PackingSteps *int32 `json:"packingSteps,omitempty"`
}
