package simulation

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Input is the initial state of a simulation, and the work to submit.
type Input struct {
	// Start is the time when the simulation begins.
	Start time.Time
	// Resources names the dimensions of all amounts. GPU is the index of the resource that counts
	// as GPUs; -1 for none. PerGPU is the amount of that resource in one GPU.
	Resources []string
	GPU       int
	PerGPU    int64
	Nodes     []Node
	// Queues are the queues that work may name.
	Queues []fairshare.Queue
	// Work is the work to submit, in any order.
	Work []Work
}

// Node is a node with its allocatable resources.
type Node struct {
	Name        string
	Allocatable core.Amounts
}

// Work is a pod or a gang that is submitted once and runs until it is done.
type Work struct {
	// Namespace, Name and Gang together identify the work.
	Namespace, Name string
	// Queue is the name of its leaf queue; "" for none.
	Queue string
	// Priority is the scheduling priority. RaisedBy is added to the priority while the work is a
	// potential victim.
	Priority int32
	RaisedBy int64
	// Never is true if its PriorityClass forbids preempting.
	Never bool
	// Submitted is the time of its arrival, counted from the start.
	Submitted time.Duration
	// Runs is the time that it must run until it is done.
	Runs time.Duration
	// Gang is true for a gang and false for a pod. Requests has one entry for each member. At least
	// MinCount of them must be placed together. Whole is true for a gang that is preempted as a
	// whole.
	Gang, Whole bool
	Requests    []core.Amounts
	MinCount    int
	// Tolerates is the length of the work's protection from priorities below Tolerated; 0 for none.
	Tolerates time.Duration
	Tolerated int32
	// On names the node of each member that runs at the start; nil for work that is submitted. Ran
	// is the time that these members have run by then.
	On  []string
	Ran time.Duration
	// Saved is the part of Ran that members on nodes had saved by then. It counts in their first
	// run, if the work has no interval.
	Saved time.Duration
	// Interval is the time between two checkpoints of the work; 0 for Options.Checkpoint. Restart
	// is the run time that a restart costs. It counts when victims are compared, and not in run
	// times.
	Interval, Restart time.Duration

	// patience is the time that the user waits before deleting the pending work; 0 for no limit.
	patience time.Duration
	// hopeless is true for work that can never run. The cluster, or its queue's limit, is too
	// small.
	hopeless bool
}

// Rule is the name of the rules that decide.
type Rule string

const (
	// ByPriority is Reprieve without queues. It places whole workloads, by priority.
	ByPriority Rule = "priority"
	// ByQueues is Reprieve with queues: turns, limits, reclaim and min-runtimes.
	ByQueues Rule = "queues"
	// KubeScheduler is kube-scheduler's rule. It schedules each pod alone, with the default
	// preemption.
	KubeScheduler Rule = "kube-scheduler"
	// NoPreemption places whole workloads by priority and evicts nothing.
	NoPreemption Rule = "none"
)

// Policy is a rule with its part of a scheduler's configuration.
type Policy struct {
	// Name is the policy's name in the Result.
	Name string
	Rule Rule
	// MinRuntime protects work if its queues do not set a min-runtime.
	MinRuntime core.MinRuntime
	// IgnoresTolerations is true if the tolerations of work have no effect.
	IgnoresTolerations bool
	// Limits bound the search; nil for core.DefaultLimits.
	Limits *core.Limits
	// Order is the order of the criteria that victims are compared by.
	Order core.Order
	// CountsStops is true if the order includes the stops of gangs.
	CountsStops bool
	// Bands are the ranges of priorities that count as equal when victims are compared.
	Bands []core.Band
	// Cascade selects whether decisions evaluate the evictions by replacements of their victims.
	Cascade core.CascadeMode
	// Restart is the run time that a restart loses, in nanoseconds, if the order counts lost work.
	Restart int64
}

// Policies returns the policies of a comparison, one for each rule, and one that counts lost work.
func Policies() []Policy {
	return []Policy{
		{Name: string(ByPriority), Rule: ByPriority},
		{Name: "lost-work", Rule: ByPriority, Order: core.OrderLostWork},
		{Name: string(ByQueues), Rule: ByQueues},
		{Name: string(KubeScheduler), Rule: KubeScheduler},
		{Name: string(NoPreemption), Rule: NoPreemption},
	}
}

// NamedPolicies returns the policies of a comparison, and one more that has a band of priorities.
func NamedPolicies() []Policy {
	// The three lowest priorities of the trace openb.
	band := core.Band{Min: 0, Max: 2000}
	return append(Policies(), Policy{Name: "bands-of-three", Rule: ByPriority, Order: core.OrderLostWork, Bands: []core.Band{band}})
}

// Options are the settings that all policies of a comparison share.
type Options struct {
	// Seed seeds the random numbers.
	Seed uint64
	// Lasts is the length of the simulation.
	Lasts time.Duration
	// Checkpoint is the time between two checkpoints of work without an interval. An eviction loses
	// the progress since the last checkpoint. With 0, work never saves progress, and an eviction
	// loses everything.
	Checkpoint time.Duration
	// Grace is the longest time that pods take to terminate; at least a second.
	Grace time.Duration
	// Progress is called now and then with the time that has passed in the simulation; nil for no
	// calls.
	Progress func(passed time.Duration)

	// faulty is the percentage of evictions that fail because their calls fail.
	faulty int
	// longestLag is the longest time from the deletion of a pod in the scheduler's queue until its
	// deletion in the quota ledger. It may be deleted in the ledger first.
	longestLag time.Duration
}
