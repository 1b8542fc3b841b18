package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

const (
	// podsPerNode is the number of pods on each node: 8 pods with one GPU each, and 7 pods without
	// a GPU.
	podsPerNode = 15
	// podDecisions is the number of timed decisions for a pod, and gangDecisions the number for a
	// gang.
	podDecisions, gangDecisions = 100, 10
	// gangSize is the number of members of the gang. Each member requests all GPUs of a node.
	gangSize = 1000
	// fewestNodes is the lowest valid number of nodes. On fewer nodes, the gang exceeds the fair
	// share of its queue.
	fewestNodes = 10_000
	// leaves is the number of leaf queues. Each of their parent queues has leavesPerTop leaf
	// queues.
	leaves, leavesPerTop = 1000, 200
	// mebi is the number of bytes in a MiB.
	mebi = 1 << 20
)

// setSizes parses the numbers of nodes for the row scale. The text separates them with commas.
func (r *run) setSizes(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < fewestNodes {
			return fmt.Errorf("%q is no number of nodes from %d on", word, fewestNodes)
		}
		r.sizes = append(r.sizes, n)
	}
	return nil
}

// scaleText times decisions of the core, and whole scheduling cycles, on generated clusters.
func scaleText(ctx context.Context, r *run) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%d cores, %s/%s, %s.\n\nThe core alone: %d decisions for a pod, %d for a gang; 15 nodes change before each.\n\n",
		runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, runtime.Version(), podDecisions, gangDecisions)
	b.WriteString("| Nodes | Pods | Queues | Load | First decision | Pod p50 | p99 | Gang of 1,000 p50 | slowest | Heap |\n" +
		"| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, nodes := range r.sizes {
		for _, queues := range []int{0, leaves} {
			if err := context.Cause(ctx); err != nil {
				return "", err
			}
			line, err := timed(nodes, queues)
			if err != nil {
				return "", err
			}
			fmt.Fprintln(r.progress, line)
			b.WriteString(line + "\n")
		}
	}
	table, err := cycleTable(ctx, r, cycles{pods: podDecisions, gangs: gangDecisions})
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "\nThe scheduler's own cycles: %s", table)
	return b.String(), nil
}

// generated is a generated cluster without free GPUs.
type generated struct {
	cluster *core.Cluster
	// nodes is the number of nodes. queues is the number of leaf queues; 0 if the cluster has no
	// queues.
	nodes, queues int
	members       []*core.QueueMembership
	requests      [2]core.Amounts
	capacity      core.Amounts
	// turn counts the changes of nodes. It selects the node to change next.
	turn int
}

// timed generates a cluster and times decisions on it. It returns the table row.
func timed(nodes, queues int) (string, error) {
	began := time.Now()
	g, err := generate(nodes, queues)
	if err != nil {
		return "", err
	}
	load := time.Since(began)
	first, err := g.decide(g.pod(), 1)
	if err != nil {
		return "", err
	}
	pods, err := g.decide(g.pod(), podDecisions)
	if err != nil {
		return "", err
	}
	gangs, err := g.decide(g.gang(), gangDecisions)
	if err != nil {
		return "", err
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	heap := memory.HeapAlloc / mebi
	runtime.KeepAlive(g)
	return fmt.Sprintf("| %d | %d | %d | %s | %s | %s | %s | %s | %s | %d MiB |", nodes, nodes*podsPerNode, queues,
		ms(load), ms(first[0]), ms(part(pods, 50)), ms(part(pods, 99)), ms(part(gangs, 50)), ms(gangs[len(gangs)-1]), heap), nil
}

// ms formats a duration in milliseconds, or in seconds if it is at least one second.
func ms(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.3g ms", float64(d.Microseconds())/1000)
}

// part returns a percentile of durations, which are sorted in ascending order.
func part(sorted []time.Duration, percent int) time.Duration {
	return sorted[max((len(sorted)*percent+99)/100-1, 0)]
}

func generate(nodes, queues int) (*generated, error) {
	g := &generated{
		cluster: core.NewCluster([]string{"cpu", "memory", "nvidia.com/gpu", "pods"}), nodes: nodes, queues: queues,
		requests: [2]core.Amounts{{4000, 32 << 10, 1, 1}, {2000, 8 << 10, 0, 1}},
	}
	for q := range queues {
		g.members = append(g.members, &core.QueueMembership{Queue: leafName(q)})
	}
	g.capacity = make(core.Amounts, 4)
	for n := range nodes {
		if err := g.set(n); err != nil {
			return nil, err
		}
		for r, v := range allocatable() {
			g.capacity[r] += v
		}
	}
	if queues > 0 {
		g.setQueues()
	}
	return g, nil
}

func leafName(q int) string { return fmt.Sprintf("leaf-%04d", q) }

func topName(q int) string { return fmt.Sprintf("top-%d", q/leavesPerTop) }

// allocatable returns the amounts of an empty node: milli-CPUs, MiB of memory, GPUs and pods.
func allocatable() core.Amounts { return core.Amounts{96_000, 1 << 20, 8, 110} }

// set replaces the state of node n by a node with podsPerNode pods. Their priorities are from 10 to
// 59.
func (g *generated) set(n int) error {
	st := &core.NodeState{Node: core.Node{Name: fmt.Sprintf("node-%06d", n), Allocatable: allocatable(), Free: allocatable()}}
	for i := range podsPerNode {
		request := g.requests[i/8]
		for r, v := range request {
			st.Free[r] -= v
		}
		name := fmt.Sprintf("pod-%06d-%02d", n, i)
		p := core.RunningPod{
			Pod:      core.Pod{Namespace: "load", Name: name, UID: name, Request: request, Start: int64(g.turn + 1)},
			Priority: int32(10 + (n*13+i*7)%50), Since: 1, Running: true,
		}
		if g.queues > 0 {
			p.Membership = g.members[leavesPerTop+(n*podsPerNode+i)*7%(g.queues-leavesPerTop)]
		}
		st.Pods = append(st.Pods, p)
	}
	return g.cluster.SetNode(st)
}

// setQueues adds the queues. The preemptor's queue and all queues with pods demand the whole
// cluster, so each has a fair share. The sibling queues of the preemptor's queue are empty.
func (g *generated) setQueues() {
	var queues []fairshare.Queue
	add := func(name, parent string) {
		queues = append(queues, fairshare.Queue{
			Name: name, Parent: parent, Weight: 1, PreemptMinRuntime: fairshare.Unset, ReclaimMinRuntime: fairshare.Unset,
		})
	}
	for q := range g.queues {
		if q%leavesPerTop == 0 {
			add(topName(q), "")
		}
		add(leafName(q), topName(q))
	}
	tree, _ := fairshare.NewTree(len(g.capacity), queues)
	demand := make([]core.Amounts, tree.Len())
	for q := range demand {
		demand[q] = make(core.Amounts, len(g.capacity))
		if name := tree.Queue(int32(q)).Name; tree.Leaf(int32(q)) && (name == leafName(0) || name >= leafName(leavesPerTop)) {
			copy(demand[q], g.capacity)
		}
	}
	g.cluster.SetQueues(tree, tree.FairShares(g.capacity, nil, demand))
}

// preemptor returns a workload with a number of members. Each member requests all GPUs of a node.
func (g *generated) preemptor(name string, members int) *core.Preemptor {
	p := &core.Preemptor{Namespace: "new", Name: name, UID: name, Priority: 100, MinCount: members, Now: 1 << 60}
	if g.queues > 0 {
		p.Queue = leafName(0)
	}
	class := core.Class{Request: core.Amounts{32_000, 256 << 10, 8, 1}}
	for i := range members {
		member := fmt.Sprintf("%s-%04d", name, i)
		class.Members = append(class.Members, core.Member{Name: member, UID: member, Rank: i})
	}
	p.Classes = []core.Class{class}
	return p
}

func (g *generated) pod() *core.Preemptor { return g.preemptor("pod", 1) }

func (g *generated) gang() *core.Preemptor {
	p := g.preemptor("gang", gangSize)
	p.Gang, p.PodGroup = true, p.UID
	return p
}

// decide times a number of decisions and returns the durations in ascending order. Before each
// decision it changes podsPerNode nodes, which the duration includes.
func (g *generated) decide(p *core.Preemptor, times int) ([]time.Duration, error) {
	out := make([]time.Duration, 0, times)
	for range times {
		began := time.Now()
		for range podsPerNode {
			g.turn++
			if err := g.set(g.turn * 7919 % g.nodes); err != nil {
				return nil, err
			}
		}
		d, err := core.Decide(g.cluster.Snapshot(), p, core.Arithmetic{})
		if err != nil {
			return nil, err
		}
		out = append(out, time.Since(began))
		if d.Outcome != core.Preempts {
			return nil, fmt.Errorf("%s: the outcome is %s: %s", p.Name, d.Outcome, d.Message)
		}
	}
	slices.Sort(out)
	return out, nil
}
