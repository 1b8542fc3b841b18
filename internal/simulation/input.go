package simulation

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Input is the initial state of a simulation and the work that arrives.
type Input struct {
	// Start is the simulated time at the beginning.
	Start time.Time
	// Resources has the names of the resources, in the order of all amounts.
	Resources []string
	// GPU is the index of the resource that is counted as GPUs, or -1 if there is none.
	GPU int
	// PerGPU is the amount of that resource that is one GPU.
	PerGPU int64
	Nodes  []Node
	// Queues are the queues of the cluster.
	Queues []fairshare.Queue
	// Work is the work that arrives, in any order.
	Work []Work
}

// Node is a node of the cluster.
type Node struct {
	Name        string
	Allocatable core.Amounts
}

// Work is a pod or a gang. It is submitted once and runs until it is done.
type Work struct {
	// Namespace, Name and Gang identify the work.
	Namespace, Name string
	// Queue is the name of the leaf queue. It is empty if the work is in no queue.
	Queue string
	// Priority is the priority of the work.
	Priority int32
	// RaisedBy is added to Priority while the work is a potential victim.
	RaisedBy int64
	// Never is true if the work must not preempt.
	Never bool
	// Submitted is the time of arrival, as the duration since Start.
	Submitted time.Duration
	// Runs is the running time until the work is done.
	Runs time.Duration
	// Gang is true for a gang and false for a pod. Whole is true for a gang that is preempted as a
	// whole.
	Gang, Whole bool
	// Requests has the request of each member.
	Requests []core.Amounts
	// MinCount is the number of members that must be placed together.
	MinCount int
	// Tolerates is the length of the work's protection, from its start, against preemptors with a
	// priority below Tolerated. It is 0 for no protection.
	Tolerates time.Duration
	Tolerated int32
	// On has the node of each member, for work that runs at Start. It is nil for work that arrives
	// later.
	On []string
	// Ran is the time that the work on nodes has run before Start.
	Ran time.Duration
	// Saved is the part of Ran that is saved by checkpoints at Start. It has an effect only on the
	// first run of work without Interval.
	Saved time.Duration
	// Interval is the time between two checkpoints of the work. 0 selects Options.Checkpoint.
	// Restart is the running time that a restart costs. It only affects the comparison of victims.
	Interval, Restart time.Duration

	// patience is the longest time that the work may be pending before a user deletes it. It is 0
	// for no limit.
	patience time.Duration
	// hopeless is true for work that can never run, because the cluster or the limit of its queue
	// is too small.
	hopeless bool
}

// Rule selects the rules that make the decisions.
type Rule string

const (
	// ByPriority selects Reprieve without queues. It places workloads as a whole, by priority.
	ByPriority Rule = "priority"
	// ByQueues selects Reprieve with queues: turns, limits, reclaim and min-runtimes.
	ByQueues Rule = "queues"
	// KubeScheduler selects the rules of kube-scheduler. It schedules each pod alone, with the
	// default preemption.
	KubeScheduler Rule = "kube-scheduler"
	// NoPreemption selects Reprieve without preemption. It places workloads as a whole, by
	// priority.
	NoPreemption Rule = "none"
)

// Policy is a rule with the settings of a scheduler's configuration that the rule uses.
type Policy struct {
	// Name is the name of the policy in the Result.
	Name string
	Rule Rule
	// MinRuntime applies to work whose queues set no min-runtime.
	MinRuntime core.MinRuntime
	// IgnoresTolerations is true if Work.Tolerates has no effect.
	IgnoresTolerations bool
	// Limits limit the search for victims. nil selects core.DefaultLimits.
	Limits *core.Limits
	// Order is the order of the criteria for comparing sets of victims. Its zero value is the order
	// of KEP-5710, not the default of a scheduler.
	Order core.Order
	// CountsStops is true if the stops of gangs are one of these criteria.
	CountsStops bool
	// Bands are ranges of priorities. In a comparison of victims, all priorities in a range are
	// equal.
	Bands []core.Band
	// Cascade determines whether decisions consider the evictions that replacements of their
	// victims would cause.
	Cascade core.CascadeMode
	// Restart is the running time that a restart loses, in nanoseconds. It counts as lost work.
	Restart int64
	// Step and PodCost configure how lost work counts; see core.Preemptor. Both are in nanoseconds.
	Step, PodCost int64
}

// withDefaultOrder returns a copy of the policy with the scheduler's default order of victims. That
// order compares lost work, in steps and with a cost for each pod.
func (p Policy) withDefaultOrder() Policy {
	p.Order, p.Step, p.PodCost = core.OrderLostWork, int64(5*time.Minute), int64(time.Hour)
	return p
}

// Policies returns the policies of a comparison. lost-work and queues have the default order of
// victims, and priority has the order of KEP-5710.
func Policies() []Policy {
	return []Policy{
		{Name: string(ByPriority), Rule: ByPriority},
		Policy{Name: "lost-work", Rule: ByPriority}.withDefaultOrder(),
		Policy{Name: string(ByQueues), Rule: ByQueues}.withDefaultOrder(),
		{Name: string(KubeScheduler), Rule: KubeScheduler},
		{Name: string(NoPreemption), Rule: NoPreemption},
	}
}

// NamedPolicies returns Policies, and one more policy with a band of priorities.
func NamedPolicies() []Policy {
	// The band includes the three lowest priorities of the trace openb.
	band := core.Band{Min: 0, Max: 2000}
	return append(Policies(), Policy{Name: "bands-of-three", Rule: ByPriority, Bands: []core.Band{band}}.withDefaultOrder())
}

// Options are the settings that are the same for all policies of a comparison.
type Options struct {
	// Seed is the seed of all random numbers.
	Seed uint64
	// Lasts is the length of the simulation.
	Lasts time.Duration
	// Checkpoint is the time between two checkpoints of work without an Interval. An eviction loses
	// the progress since the last checkpoint. If Checkpoint is 0, such work saves no progress, and
	// an eviction loses everything.
	Checkpoint time.Duration
	// Grace is the longest time that pods take to terminate. The shortest is one second.
	Grace time.Duration
	// Progress is called from time to time with the simulated time since the start. It may be nil.
	Progress func(passed time.Duration)

	// faulty is the percentage of evictions that fail because of failed calls.
	faulty int
	// longestLag is the maximum time between the deletion of a pod in the scheduler's queue and its
	// deletion in the quota ledger. Either of them may be first.
	longestLag time.Duration
}
