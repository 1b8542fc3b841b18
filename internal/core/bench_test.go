package core

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// benchCluster returns a Cluster with the given number of nodes. podsOf returns the pods of node n.
func benchCluster(b testing.TB, resources []string, nodes int, allocatable Amounts, podsOf func(n int) []RunningPod) *Cluster {
	b.Helper()
	c := NewCluster(resources)
	for n := range nodes {
		st := &NodeState{Node: Node{Name: fmt.Sprintf("node-%05d", n), Free: slices.Clone(allocatable), Allocatable: allocatable}, Pods: podsOf(n)}
		for i := range st.Pods {
			for r, v := range st.Pods[i].Request {
				st.Free[r] -= v
			}
		}
		if err := c.SetNode(st); err != nil {
			b.Fatal(err)
		}
	}
	c.Snapshot()
	return c
}

func benchPod(n, i int, request Amounts) Pod {
	name, h := fmt.Sprintf("pod-%05d-%02d", n, i), fnv.New64a()
	h.Write([]byte(name))
	// UIDs differ from the first digit on, as random UIDs do.
	uid := fmt.Sprintf("%016x-4000-8000-%012x", h.Sum64(), n)
	return Pod{Namespace: "default", Name: name, UID: uid, Request: request, Start: int64(1+(n*31+i*17)%1000) * 1e9}
}

// podCluster returns the cluster of the benchmark "pod": on each node, 30 pods with priorities
// lower than the preemptor's.
func podCluster(b *testing.B, nodes, priorities int) *Cluster {
	request := Amounts{1000, 2 << 30, 0, 0, 1}
	return benchCluster(b, []string{"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "pods"}, nodes,
		Amounts{30000, 128 << 30, 1 << 40, 8, 110}, func(n int) []RunningPod {
			pods := make([]RunningPod, 30)
			for i := range pods {
				pods[i] = RunningPod{Pod: benchPod(n, i, request), Priority: int32((n*7919 + i*104729) % 1000003 % priorities)}
			}
			return pods
		})
}

var gpuResources = []string{"cpu", "memory", "nvidia.com/gpu", "pods"}

// gangCluster returns the cluster of the benchmark "gang": nodes with 8 GPUs and 8 single pods
// each.
func gangCluster(b *testing.B, nodes, priorities int) *Cluster {
	return benchCluster(b, gpuResources, nodes, Amounts{64000, 512 << 30, 8, 110}, func(n int) []RunningPod {
		pods := make([]RunningPod, 8)
		for i := range pods {
			pods[i] = RunningPod{Pod: benchPod(n, i, Amounts{1000, 4 << 30, 1, 1}), Priority: int32(10 + (n*13+i*7)%priorities)}
		}
		return pods
	})
}

// groupCluster returns the cluster of the benchmark "groups": nodes with 8 pods each. The parameter
// size is the number of pods in a group.
func groupCluster(b *testing.B, nodes, size int) *Cluster {
	groups := make([]*Group, nodes*8/size)
	for g := range groups {
		name := fmt.Sprintf("job-%04d", g)
		groups[g] = &Group{Namespace: "default", Name: name, UID: "group-" + name, Priority: int32(10 + g%5), Whole: true}
	}
	// The pods of a group are on random nodes.
	of := rand.New(rand.NewPCG(1, 2)).Perm(nodes * 8)
	return benchCluster(b, gpuResources, nodes, Amounts{64000, 512 << 30, 8, 110}, func(n int) []RunningPod {
		pods := make([]RunningPod, 8)
		for i := range pods {
			pods[i] = RunningPod{Pod: benchPod(n, i, Amounts{1000, 4 << 30, 1, 1}), Group: groups[of[n*8+i]%len(groups)]}
		}
		return pods
	})
}

// measure runs decide b.N times and reports the median and the 99th percentile of the durations.
func measure(b *testing.B, want Outcome, decide func() Decision) {
	b.Helper()
	if d := decide(); d.Outcome != want {
		b.Fatalf("outcome %s: %s", d.Outcome, d.Message)
	}
	b.ReportAllocs()
	times := make([]time.Duration, 0, b.N)
	for b.Loop() {
		start := time.Now()
		decide()
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "ms-p99")
}

func decideBench(b *testing.B, s *Snapshot, p *Preemptor, o Oracle) Decision {
	d, err := Decide(s, p, o)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

func BenchmarkPod(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 10000} {
		for _, priorities := range []int{50, 1} {
			b.Run(fmt.Sprintf("nodes=%d/priorities=%d", nodes, priorities), func(b *testing.B) {
				s, p := podCluster(b, nodes, priorities).Snapshot(), podOf(1000, 4000, 8<<30, 0, 0, 1)
				measure(b, Preempts, func() Decision { return decideBench(b, s, p, nil) })
			})
		}
	}
}

func BenchmarkGang(b *testing.B) {
	for _, nodes := range []int{100, 500, 1000, 5000, 10000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			s := gangCluster(b, nodes, 1).Snapshot()
			p := gangOf(1000, nodes/10, members("w", nodes/10, 0, 8000, 32<<30, 8, 1))
			measure(b, Preempts, func() Decision { return decideBench(b, s, p, nil) })
		})
	}
}

func BenchmarkGroups(b *testing.B) {
	for _, size := range []int{64, 1000} {
		for _, gpus := range []int64{1, 8} {
			b.Run(fmt.Sprintf("nodes=5000/size=%d/gpus=%d", size, gpus), func(b *testing.B) {
				s := groupCluster(b, 5000, size).Snapshot()
				p := gangOf(1000, 512, members("w", 512, 0, 1000, 4<<30, gpus, 1))
				measure(b, Preempts, func() Decision { return decideBench(b, s, p, nil) })
			})
		}
	}
}

// BenchmarkUnequal has pods of one priority with many different requests. All nodes have nearly
// equal costs, so the search must look at each node.
func BenchmarkUnequal(b *testing.B) {
	allocatable := Amounts{100_000, 400_000, 8000}
	for _, count := range []int{10, 1000} {
		b.Run(fmt.Sprintf("nodes=5000/gang=%d", count), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			s := benchCluster(b, traceResources, 5000, allocatable, func(n int) []RunningPod {
				left, pods := slices.Clone(allocatable), []RunningPod(nil)
				for i := range 20 {
					request := make(Amounts, len(allocatable))
					for k, v := range allocatable {
						request[k] = v/40 + r.Int64N(v/20)
					}
					if !fits(request, left) {
						continue
					}
					for k, v := range request {
						left[k] -= v
					}
					pods = append(pods, RunningPod{Pod: benchPod(n, i, request)})
				}
				return pods
			}).Snapshot()
			p := gangOf(1000, count, members("w", count, 0, 20000, 80000, 1800))
			measure(b, Preempts, func() Decision { return decideBench(b, s, p, nil) })
		})
	}
}

func BenchmarkLeaderAndWorkers(b *testing.B) {
	s := gangCluster(b, 1000, 1).Snapshot()
	p := gangOf(1000, 101, members("leader", 1, 0, 16000, 64<<30, 0, 1), members("w", 100, 1, 8000, 32<<30, 8, 1))
	measure(b, Preempts, func() Decision { return decideBench(b, s, p, nil) })
}

// reclaimCluster returns the cluster of the benchmark "reclaim": nodes with 8 GPUs and 8 single
// pods each. The pods are in 800 queues slightly above their fair share. One more queue has no
// usage.
func reclaimCluster(b *testing.B, nodes int) *Cluster {
	b.Helper()
	var queues []fairshare.Queue
	var memberships []*QueueMembership
	for q := range 1000 {
		top, leaf := fmt.Sprintf("top-%d", q%5), fmt.Sprintf("leaf-%d-%03d", q%5, q)
		if q < 5 {
			queues = append(queues, queue(top))
		}
		if queues = append(queues, queue(leaf, under(top))); q%5 > 0 {
			memberships = append(memberships, &QueueMembership{Queue: leaf})
		}
	}
	allocatable := Amounts{64000, 512 << 30, 8, 110}
	c := benchCluster(b, gpuResources, nodes, allocatable, func(n int) []RunningPod {
		pods := make([]RunningPod, 8)
		for i := range pods {
			pods[i] = RunningPod{
				Pod: benchPod(n, i, Amounts{1000, 4 << 30, 1, 1}), Priority: int32(10 + (n*13+i*7)%50),
				Membership: memberships[(n*8+i)*7%len(memberships)], Since: 1,
			}
		}
		return pods
	})
	tree, _ := fairshare.NewTree(len(gpuResources), queues)
	capacity, demand := make(Amounts, len(gpuResources)), make([]Amounts, tree.Len())
	for r := range capacity {
		capacity[r] = allocatable[r] * int64(nodes)
	}
	for q := range demand {
		if name := tree.Queue(int32(q)).Name; tree.Leaf(int32(q)) && (name == "leaf-0-000" || !strings.HasPrefix(name, "leaf-0")) {
			demand[q] = Amounts{1_000_000, 4 << 40, 1000, 1000}
		}
	}
	c.SetQueues(tree, tree.FairShares(capacity, nil, demand))
	return c
}

func BenchmarkReclaim(b *testing.B) {
	for name, p := range map[string]*Preemptor{
		"pod": podOf(1, 8000, 32<<30, 8, 1), "gang": gangOf(1, 4, members("w", 4, 0, 8000, 32<<30, 8, 1)),
	} {
		b.Run(name+"/nodes=5000", func(b *testing.B) {
			s := reclaimCluster(b, 5000).Snapshot()
			p.Queue, p.Now = "leaf-0-000", 1<<60
			measure(b, Preempts, func() Decision { return decideBench(b, s, p, nil) })
		})
	}
}

// BenchmarkAtTheLimit has a gang in a queue at its limit. The queue must evict as much of its own
// work as the gang requests, and any pod of the queue is suitable.
func BenchmarkAtTheLimit(b *testing.B) {
	for _, size := range []int{128, 1000} {
		b.Run(fmt.Sprintf("gang=%d/nodes=400", size), func(b *testing.B) {
			c := clusterOf("gpu")
			for n := range 400 {
				name := fmt.Sprint("n", n)
				c.node(name, 8)
				for i := range 4 {
					c.pod(fmt.Sprint("own-", n, "-", i), name, int32(1+i), 1, inQueue("a"), startedAt(int64(n)))
				}
			}
			p := with(gangOf(9, size, members("w", size, 0, 1)), ofQueue("a"))
			s := c.queues(queue("a", limit(1600))).shared(p)
			measure(b, Preempts, func() Decision { return decideBench(b, s, p, nil) })
		})
	}
}

// hostSpread is an Oracle that allows one member per node, and only on every second node. calls
// counts the calls of the Oracle.
type hostSpread struct {
	Arithmetic
	placed map[int]int
	calls  int
}

func (*hostSpread) Stateful(int) bool { return true }

func (h *hostSpread) Fits(_, node int) bool {
	h.calls++
	return h.placed[node] == 0
}

func (h *hostSpread) RemoveUnit(int)      { h.calls++ }
func (h *hostSpread) RestoreUnit(int)     { h.calls++ }
func (h *hostSpread) Place(_, node int)   { h.calls++; h.placed[node]++ }
func (h *hostSpread) Unplace(_, node int) { h.calls++; h.placed[node]-- }

func (*hostSpread) Admits(_, node int) string {
	if node%2 == 1 {
		return "didn't match the node selector"
	}
	return ""
}

func BenchmarkConstrained(b *testing.B) {
	for _, priorities := range []int{1, 50} {
		b.Run(fmt.Sprintf("nodes=1000/priorities=%d", priorities), func(b *testing.B) {
			s := gangCluster(b, 1000, priorities).Snapshot()
			p := gangOf(1000, 100, members("w", 100, 0, 8000, 32<<30, 8, 1))
			h := &hostSpread{placed: map[int]int{}}
			runs := 0
			measure(b, Preempts, func() Decision {
				runs++
				return decideBench(b, s, p, h)
			})
			b.ReportMetric(float64(h.calls)/float64(runs), "oracle-calls")
		})
	}
}

// BenchmarkSnapshot measures decisions on a Snapshot without a Cluster, so each decision builds its
// columns.
func BenchmarkSnapshot(b *testing.B) {
	kept := gangCluster(b, 5000, 1).Snapshot()
	s := &Snapshot{Resources: kept.Resources, Nodes: kept.Nodes, Units: kept.Units}
	p := gangOf(1000, 500, members("w", 500, 0, 8000, 32<<30, 8, 1))
	measure(b, Preempts, func() Decision { return decideBench(b, s, p, nil) })
}

// BenchmarkSteadyState reports the memory of a Cluster with 5,000 nodes and 150,000 pods, and the
// time to update it after a change of one node.
func BenchmarkSteadyState(b *testing.B) {
	before := heapInUse()
	c := podCluster(b, 5000, 50)
	names := heapOfNames(5000, 30)
	perPod := (float64(heapInUse()-before) - float64(names)) / 150_000
	st := &NodeState{Node: Node{Name: "node-00042", Free: Amounts{0, 0, 0, 0, 0}, Allocatable: Amounts{1, 1, 1, 1, 1}}}
	for i := range 30 {
		st.Pods = append(st.Pods, RunningPod{Pod: benchPod(42, i, Amounts{1000, 2 << 30, 0, 0, 1}), Priority: int32(i)})
	}
	for b.Loop() {
		if err := c.SetNode(st); err != nil {
			b.Fatal(err)
		}
		c.Snapshot()
	}
	b.ReportMetric(perPod, "bytes/pod")
	runtime.KeepAlive(c)
}

// heapOfNames returns the memory of the pods' names and UIDs. They are subtracted from the memory
// of the Cluster, because the Cluster shares them with the scheduler's cache.
func heapOfNames(nodes, pods int) uint64 {
	before := heapInUse()
	names := make([]string, 0, 2*nodes*pods)
	for n := range nodes {
		for i := range pods {
			p := benchPod(n, i, nil)
			names = append(names, p.Name, p.UID)
		}
	}
	all := heapInUse() - before
	runtime.KeepAlive(names)
	return all - uint64(cap(names))*16
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
