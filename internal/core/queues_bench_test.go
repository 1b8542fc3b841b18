package core

import (
	"fmt"
	"strings"
	"testing"
)

// thousandQueues are 1,000 queues in 4 levels: 5 with 4 each, with 5 each, with 8 or 9 leaves each.
func thousandQueues() ([]Queue, []string) {
	var queues []Queue
	var leaves []string
	add := func(name, parent string) {
		queues = append(queues, queue(name, under(parent)))
	}
	for a := range 5 {
		add(fmt.Sprintf("a%d", a), "")
		for b := range 4 {
			add(fmt.Sprintf("b%d-%d", a, b), fmt.Sprintf("a%d", a))
			for c := range 5 {
				parent := fmt.Sprintf("c%d-%d-%d", a, b, c)
				add(parent, fmt.Sprintf("b%d-%d", a, b))
				for d := range 9 {
					if len(queues)+100-(a*20+b*5+c) > 1000 && d == 8 {
						break
					}
					leaf := fmt.Sprintf("%s-%d", parent, d)
					add(leaf, parent)
					leaves = append(leaves, leaf)
				}
			}
		}
	}
	return queues, leaves
}

// BenchmarkReclaim is a decision among 40,000 pods on 5,000 nodes, by priority and with all of them in queues: the
// preemptor's top-level queue has nothing, and all others have more than their share, so that any pod may be taken. In
// guarded queues every leaf has a quota and a min-runtime, so that each pod is looked at.
func BenchmarkReclaim(b *testing.B) {
	for _, queues := range []string{"none", "plain", "guarded"} {
		benchReclaim(b, queues)
	}
}

func benchReclaim(b *testing.B, kind string) {
	const nodes = 5000
	queues, leaves := thousandQueues()
	if kind == "guarded" {
		guard(queues)
	}
	var tenures []*Tenure
	for _, leaf := range leaves {
		if !strings.HasPrefix(leaf, "c0-") {
			tenures = append(tenures, &Tenure{Queue: leaf})
		}
	}
	tree, faults := NewTree(len(gpuResources), queues)
	if len(faults) > 0 {
		b.Fatal(faults[0])
	}
	queued := kind != "none"
	build := func(b *testing.B) *Snapshot {
		c := benchCluster(b, gpuResources, nodes, Amounts{64000, 512 << 30, 8, 110}, func(n int) []RunningPod {
			pods := make([]RunningPod, 8)
			for i := range pods {
				pods[i] = RunningPod{Pod: benchPod(n, i, Amounts{1000, 4 << 30, 1, 1}), Priority: int32(10 + (n*13+i*7)%50), Since: 1}
				if queued {
					pods[i].Tenure = tenures[(n*8+i)*7%len(tenures)]
				}
			}
			return pods
		})
		if queued {
			demand := make([]Amounts, tree.Len())
			for i := range demand {
				switch name := tree.Queue(i).Name; {
				case name == leaves[0]:
					demand[i] = Amounts{1e6, 4 << 40, 1000, 1000}
				case tree.Leaf(i) && !strings.HasPrefix(name, "c0-"):
					demand[i] = Amounts{1e6, 4 << 40, 100, 100}
				}
			}
			c.SetQueues(tree, tree.FairShares(Amounts{64000 * nodes, nodes * 512 << 30, 8 * nodes, 110 * nodes}, demand))
		}
		return c.Snapshot()
	}
	preemptors := map[string]*Preemptor{
		"pod":  podOf(100, 1000, 4<<30, 1, 1),
		"gang": gangOf(100, 4, members("w", 4, 0, 1000, 4<<30, 8, 1)),
	}
	for name, p := range preemptors {
		b.Run(fmt.Sprintf("%s/queues=%s", name, kind), func(b *testing.B) {
			p := *p
			p.Now = 1000
			if queued {
				p.Queue = leaves[0]
			}
			s := build(b)
			measure(b, Preempts, func() Decision { return decideBench(b, s, &p, nil) })
		})
	}
}

// guard gives every leaf a quota of one pod and a min-runtime, and those above it what that comes to.
func guard(queues []Queue) {
	at := make(map[string]*Queue)
	for i := range queues {
		at[queues[i].Name] = &queues[i]
		queues[i].Quota = make(Amounts, len(gpuResources))
	}
	for i := range queues {
		if strings.Count(queues[i].Name, "-") < 3 {
			continue
		}
		queues[i].ReclaimMinRuntime = 1
		for q := &queues[i]; q != nil; q = at[q.Parent] {
			addTo(q.Quota, Amounts{1000, 4 << 30, 1, 1})
		}
	}
}

// BenchmarkFairShares is what a change of any demand costs.
func BenchmarkFairShares(b *testing.B) {
	queues, _ := thousandQueues()
	tree, _ := NewTree(len(gpuResources), queues)
	demand := make([]Amounts, tree.Len())
	for i := range demand {
		if tree.Leaf(i) {
			demand[i] = Amounts{int64(i) * 1000, int64(i) << 30, int64(i), int64(i)}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		tree.FairShares(Amounts{640000, 5120 << 30, 80, 1100}, demand)
	}
}
