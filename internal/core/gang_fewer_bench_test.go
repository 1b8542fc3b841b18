package core

import (
	"fmt"
	"testing"
)

// besideGangs returns a cluster full of gangs of 16 members, which are preempted one by one. The
// members of each gang are on many nodes.
func besideGangs(nodes int) *Snapshot {
	c := NewCluster([]string{"gpu"})
	groups := make([]*Group, nodes/2)
	for g := range groups {
		groups[g] = &Group{Namespace: "ns", Name: fmt.Sprintf("g%d", g), UID: fmt.Sprintf("g%d", g), Priority: int32(g % 3), Membership: &QueueMembership{MinCount: 16}}
	}
	for n := range nodes {
		st := NodeState{Node: Node{Name: fmt.Sprintf("n%05d", n), Free: Amounts{0}, Allocatable: Amounts{8}}}
		for i := range 8 {
			// The gangs on a node have the same priority.
			name := fmt.Sprintf("p%d-%d", n, i)
			st.Pods = append(st.Pods, RunningPod{
				Pod: Pod{Namespace: "ns", Name: name, UID: name, Request: Amounts{1}, Start: int64(1+(n*7+i*13)%1000) * 1e9}, Running: true, Group: groups[(n*8+i)%len(groups)],
			})
		}
		if err := c.SetNode(&st); err != nil {
			panic(err)
		}
	}
	return c.Snapshot()
}

// BenchmarkBesideGangs measures decisions for a preemptor that should break as few gangs as
// possible.
func BenchmarkBesideGangs(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000} {
		s := besideGangs(nodes)
		for name, p := range map[string]*Preemptor{"pod": podOf(5, 1), "pod of a node": podOf(5, 8), "gang of 64": gangOf(5, 64, members("w", 64, 0, 1))} {
			b.Run(fmt.Sprintf("%d nodes/%s", nodes, name), func(b *testing.B) {
				broken := 0
				for b.Loop() {
					d, err := Decide(s, p, nil)
					if err != nil {
						b.Fatal(err)
					}
					broken = d.Score.BrokenGangs
				}
				b.ReportMetric(float64(broken), "gangs")
			})
		}
	}
}
