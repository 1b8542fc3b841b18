package simulation

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// Input is what a simulation begins with, and what comes.
type Input struct {
	// Start is when it begins.
	Start time.Time
	// Resources name the dimensions of all amounts. GPU is the one that counts as GPUs, -1 for none, of which PerGPU
	// are one GPU.
	Resources []string
	GPU       int
	PerGPU    int64
	Nodes     []Node
	// Queues are those that work may name.
	Queues []fairshare.Queue
	// Work is what is submitted, in any order.
	Work []Work
}

// Node is a place for pods.
type Node struct {
	Name        string
	Allocatable core.Amounts
}

// Work is a pod, or a gang, that is submitted once and runs until it is done.
type Work struct {
	// Namespace and Name identify it, together with Gang.
	Namespace, Name string
	// Queue is the name of its leaf queue, "" for none.
	Queue    string
	Priority int32
	// Never is true where its priority class forbids preempting.
	Never bool
	// Submitted is when it comes, counted from the start.
	Submitted time.Duration
	// Runs is how long it runs until it is done.
	Runs time.Duration
	// Gang tells a gang from a pod. Of its Requests, one for each member, MinCount have to be placed together; Whole
	// is true for a gang that is preempted as a whole.
	Gang, Whole bool
	Requests    []core.Amounts
	MinCount    int
	// Tolerates is for how long it is not preempted by priorities below Tolerated; 0 for not at all.
	Tolerates time.Duration
	Tolerated int32
	// On are the names of the nodes that its members run on at the start; nil for work that is submitted. Ran is for how
	// long they have run by then.
	On  []string
	Ran time.Duration

	// patience is how long its user waits for it before giving it up; 0 for ever.
	patience time.Duration
	// hopeless is true for work that can never run: the cluster, or its queue's limit, is too small.
	hopeless bool
}

// Rule says who decides.
type Rule string

const (
	// ByPriority is Reprieve without queues: workloads whole, by priority.
	ByPriority Rule = "priority"
	// ByQueues is Reprieve with queues: turns, limits, reclaim and min-runtimes.
	ByQueues Rule = "queues"
	// KubeScheduler is kube-scheduler's rule: each pod by itself, with its default preemption.
	KubeScheduler Rule = "kube-scheduler"
	// NoPreemption places workloads whole, by priority, and takes nothing.
	NoPreemption Rule = "none"
)

// Rules are all there are.
func Rules() []Rule { return []Rule{ByPriority, ByQueues, KubeScheduler, NoPreemption} }

// Policy is a rule with what a scheduler's configuration says about it.
type Policy struct {
	// Name is what the Result calls it.
	Name string
	Rule Rule
	// MinRuntime protects work whose queues say nothing of their own.
	MinRuntime core.MinRuntime
	// IgnoresTolerations is true where the tolerations of work do not count.
	IgnoresTolerations bool
	// Limits bound the search; nil for core.DefaultLimits.
	Limits *core.Limits
}

// Options are what all policies of a comparison have in common.
type Options struct {
	// Seed is what all that is random goes by.
	Seed uint64
	// Lasts is how long the simulation goes on.
	Lasts time.Duration
	// Checkpoint is how often work saves what it has done. What it has done since is lost when it is evicted; 0 for work
	// that never does, of which all is lost.
	Checkpoint time.Duration
	// Grace is how long pods take at most to end once they are told to; at least a second.
	Grace time.Duration
	// Progress is told now and then how far the simulation has come; nil for not at all.
	Progress func(passed time.Duration)

	// faulty is how many of a hundred evictions come to nothing because their calls fail.
	faulty int
	// longestLag is how much later than the scheduler's queue the books hear of a pod that has gone, at most.
	longestLag time.Duration
}
