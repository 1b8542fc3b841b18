package openb

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/simulation"
)

// Shape determines how a trace is converted to the input of a simulation.
type Shape struct {
	// Seed selects the random distribution of work among queues.
	Seed uint64
	// Start is the simulated time at the beginning.
	Start time.Time
	// Span is the time from the first to the last arrival. To reach it, pauses above LongestPause
	// are first shortened to LongestPause, and then all pauses are scaled. If Span is 0, pauses are
	// not changed.
	Span time.Duration
	// Load is the GPU time of all work divided by the GPU time of all nodes during Span. Running
	// times are scaled to it, up to Span at most. If Load or Span is 0, running times are not
	// scaled.
	Load float64
	// Together is the longest pause between two arrivals in one gang. If it is 0, there are no
	// gangs.
	Together time.Duration
	// Every selects a sample: with n, every n-th pod or gang is kept, and Seed selects the first.
	// With 0, all are kept. Load then applies to the sample.
	Every int
	// Queues are the queues of the simulation. The work is distributed among the leaf queues. If
	// Queues is nil, [Trace.Teams] is used.
	Queues []fairshare.Queue
}

// LongestPause is the maximum pause between two arrivals if pauses are scaled.
const LongestPause = time.Hour

// Priorities returns the priority of each QoS class.
func Priorities() map[string]int32 {
	return map[string]int32{"BE": 0, "Burstable": 1000, "LS": 2000, "Guaranteed": 3000}
}

// Resources returns the names of the resources in amounts: CPU in thousandths, memory in bytes, and
// GPUs in thousandths.
func Resources() []string { return []string{"cpu", "memory", "nvidia.com/gpu"} }

// gpu is the index of GPUs in Resources.
const gpu = 2

// Teams returns three queues. The quota of each is a third of the resources of all nodes.
func (t *Trace) Teams() []fairshare.Queue {
	third := make(core.Amounts, len(Resources()))
	for i := range t.Nodes {
		for r, v := range t.Nodes[i].amounts() {
			third[r] += v
		}
	}
	for r := range third {
		third[r] /= 3
	}
	var out []fairshare.Queue
	for _, name := range []string{"team-a", "team-b", "team-c"} {
		out = append(out, fairshare.Queue{
			Name: name, Weight: 1, Quota: third, PreemptMinRuntime: fairshare.Unset, ReclaimMinRuntime: fairshare.Unset,
		})
	}
	return out
}

func (n *Node) amounts() core.Amounts { return core.Amounts{n.MilliCPU, n.MiB << 20, 1000 * n.GPUs} }

func (p *Pod) request() core.Amounts { return core.Amounts{p.MilliCPU, p.MiB << 20, p.MilliGPU} }

// runs returns the running time of the pod in seconds. For a pod that never got a node, it returns
// the time that the pod was pending.
func (p *Pod) runs() int64 {
	if p.Scheduled < 0 {
		return max(p.Deleted-p.Created, 1)
	}
	return max(p.Deleted-p.Scheduled, 1)
}

// Input converts the trace to the input of a simulation.
func (t *Trace) Input(sh Shape) *simulation.Input {
	in := &simulation.Input{Start: sh.Start, Resources: Resources(), GPU: gpu, PerGPU: 1000, Queues: sh.Queues}
	if in.Queues == nil {
		in.Queues = t.Teams()
	}
	for i := range t.Nodes {
		in.Nodes = append(in.Nodes, simulation.Node{Name: t.Nodes[i].Name, Allocatable: t.Nodes[i].amounts()})
	}
	pods := slices.Clone(t.Pods)
	slices.SortStableFunc(pods, func(a, b Pod) int { return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Name, b.Name)) })
	together := sh.sample(gangs(pods, sh.Together))
	comes, runs := arrivals(pods, sh.Span), t.lengths(pods, together, sh)
	pick := newPicker(sh.Seed, in.Queues)
	for _, gang := range together {
		first := gang[0]
		w := simulation.Work{
			Namespace: "openb", Name: pods[first].Name, Queue: pick.next(), Priority: Priorities()[pods[first].QoS],
			Submitted: comes[first], MinCount: len(gang), Gang: len(gang) > 1, Whole: len(gang) > 1,
		}
		for _, i := range gang {
			w.Requests = append(w.Requests, pods[i].request())
			w.Runs = max(w.Runs, runs[i])
			// A gang arrives when its last member arrives.
			w.Submitted = max(w.Submitted, comes[i])
		}
		in.Work = append(in.Work, w)
	}
	return in
}

// sample returns every n-th group, where n is Every. It returns all groups if Every is 0.
func (sh *Shape) sample(groups [][]int) [][]int {
	if sh.Every <= 1 {
		return groups
	}
	var out [][]int
	for i := int(sh.Seed % uint64(sh.Every)); i < len(groups); i += sh.Every {
		out = append(out, groups[i])
	}
	return out
}

// gangs groups pods with equal requests and QoS that arrive together. A group is a list of indexes
// in pods. The groups are sorted by their first arrival.
func gangs(pods []Pod, together time.Duration) [][]int {
	type shape struct {
		cpu, memory, gpus int64
		qos               string
	}
	var out [][]int
	last := make(map[shape]int)
	for i := range pods {
		p := &pods[i]
		like := shape{p.MilliCPU, p.MiB, p.MilliGPU, p.QoS}
		if at, ok := last[like]; ok && together > 0 {
			before := out[at][len(out[at])-1]
			if time.Duration(p.Created-pods[before].Created)*time.Second <= together {
				out[at] = append(out[at], i)
				continue
			}
		}
		last[like] = len(out)
		out = append(out, []int{i})
	}
	return out
}

// arrivals returns the arrival time of each pod since the first arrival.
func arrivals(pods []Pod, span time.Duration) []time.Duration {
	out := make([]time.Duration, len(pods))
	for i := 1; i < len(pods); i++ {
		pause := time.Duration(pods[i].Created-pods[i-1].Created) * time.Second
		if span > 0 {
			pause = min(pause, LongestPause)
		}
		out[i] = out[i-1] + pause
	}
	whole := out[len(out)-1]
	if span <= 0 || whole == 0 {
		return out
	}
	for i := range out {
		out[i] = time.Duration(float64(span) * (float64(out[i]) / float64(whole))).Truncate(time.Millisecond)
	}
	return out
}

// lengths returns the running time of each pod that is in a group. For other pods, the result is 0.
func (t *Trace) lengths(pods []Pod, groups [][]int, sh Shape) []time.Duration {
	out := make([]time.Duration, len(pods))
	kept := slices.Sorted(slices.Values(slices.Concat(groups...)))
	scale := func(factor float64) float64 {
		total := 0.0
		for _, i := range kept {
			d := float64(pods[i].runs()) * float64(time.Second) * factor
			if sh.Span > 0 {
				d = min(d, float64(sh.Span))
			}
			out[i] = max(time.Duration(d).Truncate(time.Millisecond), time.Second)
			total += float64(pods[i].MilliGPU) * out[i].Hours()
		}
		return total
	}
	scale(1)
	if sh.Load <= 0 || sh.Span <= 0 {
		return out
	}
	var has int64
	for i := range t.Nodes {
		has += 1000 * t.Nodes[i].GPUs
	}
	wanted := sh.Load * float64(has) * sh.Span.Hours()
	low, high := 0.0, 1e6
	for range 60 {
		if middle := (low + high) / 2; scale(middle) < wanted {
			low = middle
		} else {
			high = middle
		}
	}
	scale(high)
	return out
}

// picker distributes work among n queues at random, in the proportions n : n-1 : … : 1. With three
// queues, the first one gets half of the work.
type picker struct {
	random *rand.Rand
	leaves []string
}

func newPicker(seed uint64, queues []fairshare.Queue) *picker {
	tree, _ := fairshare.NewTree(len(Resources()), queues)
	p := &picker{random: rand.New(rand.NewPCG(seed, 3))}
	for q := range int32(tree.Len()) {
		if tree.Leaf(q) {
			p.leaves = append(p.leaves, tree.Queue(q).Name)
		}
	}
	slices.Sort(p.leaves)
	return p
}

func (p *picker) next() string {
	n := len(p.leaves)
	if n == 0 {
		return ""
	}
	at := p.random.IntN(n * (n + 1) / 2)
	for i, name := range p.leaves {
		if at -= n - i; at < 0 {
			return name
		}
	}
	return p.leaves[n-1]
}
