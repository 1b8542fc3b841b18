package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// queueing selects the queues of a cluster.
type queueing string

const (
	noQueues queueing = "none"
	// plainQueues selects queues without quotas and other settings.
	plainQueues queueing = "plain"
	// guardedQueues selects leaf queues with a quota and a min-runtime. All running pods have run
	// longer than the min-runtime, so it protects no pod.
	guardedQueues queueing = "guarded"
)

// reclaimShape is a cluster full of pods with one GPU each. If gang is 0, the preemptor is a single
// pod. Otherwise it is a gang of that size, and each member needs a whole node.
func reclaimShape(nodes, gang int) shape {
	s := gangShape(nodes)
	s.priority = func(n, i int) int32 { return int32(10 + (n*13+i*7)%50) }
	if s.gang = gang; gang == 0 {
		s.member = s.running
	}
	return s
}

// thousandQueues returns a tree with about 1,000 queues, and the names of its leaf queues. The
// first level has 5 queues. Each of them has 4 children on the second level. Each child has 5
// children on the third level, with 9 leaf queues each.
func thousandQueues(kind queueing) (queues []fairshare.Queue, leaves []string) {
	one := amounts{1000, 4, 1}.vector(1)
	add := func(name, parent string, leavesBelow int64) {
		q := fairshare.Queue{Name: name, Parent: parent, Weight: 1, PreemptMinRuntime: fairshare.Unset, ReclaimMinRuntime: fairshare.Unset}
		if kind == guardedQueues {
			q.Quota = make(core.Amounts, len(one))
			for r, v := range one {
				q.Quota[r] = leavesBelow * v
			}
			if leavesBelow == 1 {
				q.ReclaimMinRuntime = 1
			}
		}
		queues = append(queues, q)
	}
	for a := range 5 {
		top := fmt.Sprintf("a%d", a)
		add(top, "", 4*5*9)
		for b := range 4 {
			department := fmt.Sprintf("%s-%d", top, b)
			add(department, top, 5*9)
			for c := range 5 {
				team := fmt.Sprintf("%s-%d", department, c)
				add(team, department, 9)
				for d := range 9 {
					leaf := fmt.Sprintf("%s-%d", team, d)
					add(leaf, team, 1)
					leaves = append(leaves, leaf)
				}
			}
		}
	}
	return queues, leaves
}

// reclaimer returns a trial of the core: a decision on a cluster with queues. The preemptor's
// top-level queue uses no resources. The other top-level queues use more than their fair shares, so
// every running pod is a potential victim.
func reclaimer(tb testing.TB, s shape, kind queueing) trial {
	tb.Helper()
	if kind == noQueues {
		return onlyCore(tb, s)
	}
	queues, leaves := thousandQueues(kind)
	others := make([]*core.QueueMembership, 0, len(leaves))
	for _, leaf := range leaves {
		if !strings.HasPrefix(leaf, "a0-") {
			others = append(others, &core.QueueMembership{Queue: leaf})
		}
	}
	s.tenure = func(n, i int) *core.QueueMembership { return others[(n*s.perNode+i)*7%len(others)] }
	c, err := s.cluster()
	if err != nil {
		tb.Fatal(err)
	}
	capacity := s.node.vector(110)
	for r := range capacity {
		capacity[r] *= int64(s.nodes)
	}
	tree, faults := fairshare.NewTree(len(capacity), queues)
	if len(faults) > 0 {
		tb.Fatal(faults[0])
	}
	demand := make([]core.Amounts, tree.Len())
	for i := range demand {
		switch name := tree.Queue(int32(i)).Name; {
		case name == leaves[0]:
			demand[i] = amounts{1_000_000, 4096, 1000}.vector(1000)
		case tree.Leaf(int32(i)) && !strings.HasPrefix(name, "a0-"):
			demand[i] = amounts{1_000_000, 4096, 100}.vector(100)
		}
	}
	c.SetQueues(tree, tree.FairShares(capacity, nil, demand))
	p := s.preemptor()
	p.Queue, p.Now = leaves[0], started(0, 0).AddDate(1, 0, 0).UnixNano()
	return decides(tb, c, p, nil)
}

// queued has the times of the same decision with queues and without queues.
type queued struct {
	name, shape   string
	kind          queueing
	with, without samples
	aim           float64
}

func (q *queued) ratio() float64 {
	return float64(q.with.percentile(50)) / float64(q.without.percentile(50))
}

func (s *sizes) measureQueues(t *testing.T, r *report) {
	for _, gang := range []int{0, 4} {
		shape, name := reclaimShape(s.queues, gang), "pod"
		if gang > 0 {
			name = "gang"
		}
		got := interleave(s.rounds, side{reclaimer(t, shape, noQueues), 2 * s.laps},
			side{reclaimer(t, shape, plainQueues), 2 * s.laps}, side{reclaimer(t, shape, guardedQueues), 2 * s.laps})
		for i, kind := range []queueing{plainQueues, guardedQueues} {
			r.queues = append(r.queues, queued{
				name: name, kind: kind, without: got[0], with: got[i+1], aim: 2,
				shape: fmt.Sprintf("%s nodes, %s pods", thousands(shape.nodes), thousands(shape.pods())),
			})
		}
	}
}

func BenchmarkReclaim(b *testing.B) {
	for name, gang := range map[string]int{"pod": 0, "gang": 4} {
		for _, kind := range []queueing{noQueues, plainQueues, guardedQueues} {
			b.Run(fmt.Sprintf("%s/queues=%s", name, kind), func(b *testing.B) { measure(b, reclaimer(b, reclaimShape(5000, gang), kind)) })
		}
	}
}

// BenchmarkFairShares measures how long it takes to compute all fair shares after the demand of one
// queue changes.
func BenchmarkFairShares(b *testing.B) {
	queues, _ := thousandQueues(guardedQueues)
	tree, _ := fairshare.NewTree(4, queues)
	demand := make([]core.Amounts, tree.Len())
	for i := range demand {
		if tree.Leaf(int32(i)) {
			demand[i] = amounts{int64(i) * 1000, int64(i), int64(i)}.vector(int64(i))
		}
	}
	capacity := amounts{640_000, 5120, 80}.vector(1100)
	carried := fairshare.NewBundles([]string{"cpu", "memory", "nvidia.com/gpu", "pods"}, func(string) fairshare.Amounts { return capacity })
	b.ReportAllocs()
	for b.Loop() {
		tree.FairShares(capacity, carried, demand)
	}
}
