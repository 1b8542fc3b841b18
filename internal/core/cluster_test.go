package core

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// feed adds a node of a Snapshot to a Cluster.
func feed(t interface{ Fatalf(string, ...any) }, c *Cluster, s *Snapshot, node int) {
	st := &NodeState{Node: s.Nodes[node]}
	for u := range s.Units {
		unit := &s.Units[u]
		for i := range unit.Pods {
			if unit.Pods[i].Node != node {
				continue
			}
			rp := RunningPod{
				Pod: unit.Pods[i], Priority: unit.Priority, Toleration: unit.Toleration, Membership: unit.Membership,
				Since: unit.Since, Running: unit.Running, Static: unit.Static, Local: unit.Local, Role: unit.Role, MinRuntime: unit.MinRuntime,
			}
			if unit.Group || unit.PodGroup != "" {
				rp.Group = &Group{
					Namespace: unit.Namespace, Name: cmp.Or(unit.GroupName, unit.Name), UID: unit.PodGroup,
					Priority: unit.OwnPriority(), Whole: unit.Group, Lacks: unit.Lacks, Stale: unit.Stale, Start: unit.Start, Toleration: unit.Toleration,
					Membership: unit.Membership, Since: unit.Since, MinRuntime: unit.MinRuntime, Stops: unit.Stops,
				}
			}
			st.Pods = append(st.Pods, rp)
		}
	}
	for i := range s.Leaving {
		if s.Leaving[i].Node == node {
			st.Leaving = append(st.Leaving, s.Leaving[i])
		}
	}
	if err := c.SetNode(st); err != nil {
		t.Fatalf("SetNode: %v", err)
	}
}

// named sets the names of a Snapshot that a Cluster would derive from pods and groups.
func named(s *Snapshot) *Snapshot {
	for u := range s.Units {
		unit := &s.Units[u]
		if unit.Group {
			unit.PodGroup = unit.UID
		} else {
			unit.Name, unit.UID = unit.Pods[0].Name, unit.Pods[0].UID
		}
	}
	return s
}

// TestClusterDecidesLikeASnapshot fills a Cluster and changes it, node by node, into another
// cluster. The decisions must equal the decisions on a new Snapshot.
func TestClusterDecidesLikeASnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		sh := drawShape(t)
		before, was := randomCase(pick, sh)
		// Skip cases whose number of resources changes: a Cluster has fixed resources.
		after, p := randomCase(pick, sh)
		if len(before.Resources) != len(after.Resources) {
			return
		}
		// Clear the marks of surplus members in both cases, because a Cluster computes these marks.
		for _, units := range [][]Unit{before.Units, after.Units} {
			for u := range units {
				units[u].Surplus = false
			}
		}
		before, after = named(before), named(after)
		refSurplus(before)
		refSurplus(after)
		c := NewCluster(after.Resources)
		if pick(2) == 0 {
			queued(pick, before, was)
			queued(pick, after, p)
			c.SetQueues(before.Queues.Tree, before.Queues.Shares)
		}
		c.SetBudgets(before.Budgets)
		for n := range before.Nodes {
			feed(t, c, before, n)
		}
		c.Snapshot()
		late := after.Queues != nil && pick(2) == 0
		if after.Queues != nil && !late {
			c.SetQueues(after.Queues.Tree, after.Queues.Shares)
		}
		c.SetBudgets(after.Budgets)
		for n := range before.Nodes {
			if n >= len(after.Nodes) || pick(2) == 0 {
				c.RemoveNode(before.Nodes[n].Name)
			}
		}
		r := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		for _, n := range r.Perm(len(after.Nodes)) {
			feed(t, c, after, n)
		}
		if late {
			c.SetQueues(after.Queues.Tree, after.Queues.Shares)
		}
		want, got := decideOrFail(t, after, p, nil), decideOrFail(t, c.Snapshot(), p, nil)
		if a, b := toJSON(t, &want), toJSON(t, &got); a != b {
			t.Fatalf("from scratch and from columns:\n%s\n%s", a, b)
		}
	})
}

// TestPodsOfAGroupDrawInOrder checks that the order of nodes has no effect on the number of broken
// budgets if a group is evicted.
func TestPodsOfAGroupDrawInOrder(t *testing.T) {
	group := &Group{Namespace: "ns", Name: "g", UID: "uid-g", Whole: true}
	member := func(name string, budgets ...int) RunningPod {
		return RunningPod{Pod: Pod{Namespace: "ns", Name: name, UID: name, Request: Amounts{4}, Budgets: budgets}, Group: group}
	}
	nodes := []NodeState{
		{Node: Node{Name: "n0", Free: Amounts{0}, Allocatable: Amounts{4}}, Pods: []RunningPod{member("a", 0)}},
		{Node: Node{Name: "n1", Free: Amounts{0}, Allocatable: Amounts{4}}, Pods: []RunningPod{member("b", 0, 1)}},
	}
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		c := NewCluster([]string{"cpu"})
		c.SetBudgets([]Budget{{Key: "ns/one", Allowed: 1}, {Key: "ns/none"}})
		for _, n := range order {
			if err := c.SetNode(&nodes[n]); err != nil {
				t.Fatal(err)
			}
		}
		d := mustDecide(t, c.Snapshot(), podOf(10, 4), nil)
		if d.Score == nil || d.Score.BrokenBudgets != 1 {
			t.Errorf("in the order %v: %s, want 1 budget broken", order, d.Message)
		}
	}
}

// queued adds queues to a case. It makes some single pods members of gangs with surplus.
func queued(pick chooser, s *Snapshot, p *Preemptor) {
	tree := randomTree(pick, len(s.Resources))
	leaf := func() string { return tree.Queue(int32(pick(tree.Len()))).Name }
	demand, capacity := make([]Amounts, tree.Len()), make(Amounts, len(s.Resources))
	for i := range demand {
		demand[i] = make(Amounts, len(s.Resources))
		for r := range demand[i] {
			demand[i][r] = int64(pick(40))
		}
	}
	for i := range s.Nodes {
		addTo(capacity, s.Nodes[i].Allocatable)
	}
	s.Queues = &Queues{Tree: tree, Shares: tree.FairShares(capacity, bundlesOf(s), demand)}
	gang := &QueueMembership{Queue: leaf(), MinCount: int32(1 + pick(3))}
	var members []*Unit
	others := make(map[string]*QueueMembership)
	for u := range s.Units {
		unit := &s.Units[u]
		if !unit.Group && unit.PodGroup != "" {
			// The unit is already a member of a gang.
			if others[unit.PodGroup] == nil {
				others[unit.PodGroup] = &QueueMembership{Queue: leaf(), MinCount: unit.Membership.MinCount}
			}
			unit.Membership = others[unit.PodGroup]
			continue
		}
		unit.Since, unit.MinRuntime = int64(pick(someNow)), randomMinRuntime(pick, 4)
		if unit.Group || pick(2) == 0 {
			unit.Membership = &QueueMembership{Queue: leaf()}
			continue
		}
		// The members differ in importance only by their UID.
		unit.PodGroup, unit.Membership, unit.Running, unit.Since, unit.MinRuntime = "uid-gang", gang, true, 2, nil
		unit.GroupName = "gang"
		unit.Priority, unit.Start, unit.Pods[0].Start, unit.Toleration, unit.Static = 1, 0, 0, nil, false
		members = append(members, unit)
	}
	slices.SortFunc(members, func(a, b *Unit) int { return strings.Compare(a.Pods[0].UID, b.Pods[0].UID) })
	for i, unit := range members {
		unit.Surplus = i >= int(gang.MinCount)
	}
	p.Queue, p.MinRuntime = leaf(), MinRuntime{Preempt: int64(pick(4)), Reclaim: int64(pick(4))}
}

func TestClusterHolds(t *testing.T) {
	c := NewCluster([]string{"gpu"})
	for _, name := range []string{"a", "b"} {
		if err := c.SetNode(&NodeState{Node: Node{Name: name, Free: Amounts{8}, Allocatable: Amounts{8}}}); err != nil {
			t.Fatal(err)
		}
	}
	held := []Hold{{Node: "a", Request: Amounts{4}}, {Node: "gone", Request: Amounts{1}}}
	d := mustDecide(t, c.Snapshot(held...), podOf(10, 8), nil)
	if got := nodesUsed(&d); !slices.Equal(got, []string{"b"}) {
		t.Errorf("with held room on a: nodes %v, want [b]", got)
	}
	if d = mustDecide(t, c.Snapshot(), podOf(10, 8), nil); d.Placements[0].Node != "a" {
		t.Errorf("without: node %s, want a", d.Placements[0].Node)
	}
}

func TestClusterRefuses(t *testing.T) {
	tests := map[string]*NodeState{
		"node of the wrong size":    {Node: Node{Name: "a"}},
		"pod of the wrong size":     {Node: Node{Name: "a", Free: Amounts{1}, Allocatable: Amounts{1}}, Pods: make([]RunningPod, 1)},
		"leaving of the wrong size": {Node: Node{Name: "a", Free: Amounts{1}, Allocatable: Amounts{1}}, Leaving: make([]Pod, 1)},
		"negative budget": {
			Node: Node{Name: "a", Free: Amounts{1}, Allocatable: Amounts{1}},
			Pods: []RunningPod{{Pod: Pod{Request: Amounts{1}, Budgets: []int{-1}}}},
		},
	}
	for name, st := range tests {
		t.Run(name, func(t *testing.T) {
			c := NewCluster([]string{"gpu"})
			if err := c.SetNode(st); err == nil {
				t.Error("no error")
			}
			if n := len(c.Snapshot().Nodes); n != 0 {
				t.Errorf("%d nodes, want none", n)
			}
		})
	}
}

func TestClusterForgetsWhatHasGone(t *testing.T) {
	c := NewCluster([]string{"gpu"})
	c.SetBudgets([]Budget{{Key: "b", Allowed: 1}})
	job := &Group{Namespace: "ns", Name: "job", UID: "job", Priority: 3, Whole: true}
	for round := range 5 {
		for i := range 3 {
			name := fmt.Sprintf("n%d", i)
			pod := Pod{Name: fmt.Sprintf("p%d-%d", round, i), UID: fmt.Sprintf("p%d-%d", round, i), Request: Amounts{1}, Budgets: []int{4}}
			st := &NodeState{
				Node: Node{Name: name, Free: Amounts{0}, Allocatable: Amounts{8}},
				Pods: []RunningPod{{Pod: pod, Priority: 1}, {Pod: pod, Group: job}},
			}
			if err := c.SetNode(st); err != nil {
				t.Fatal(err)
			}
		}
		c.RemoveNode("n2")
		c.Snapshot()
	}
	if got := len(c.s.Units); got > 6 {
		t.Errorf("%d slots for units, want them reused", got)
	}
	c.RemoveNode("n0")
	c.RemoveNode("n1")
	if s := c.Snapshot(); len(s.columns.byName) != 0 || len(c.c.perPriority) != 0 || len(c.c.having[traitTolerant]) != 0 || len(c.c.minRuntimes) != 0 || c.guarded != 0 || c.spanning != 0 || len(c.whole) != 0 {
		t.Errorf("something is left: %+v", c)
	}
	if d := mustDecide(t, c.Snapshot(), podOf(10, 1), nil); d.Outcome != Infeasible {
		t.Errorf("outcome %s, want %s", d.Outcome, Infeasible)
	}
}

// TestLone checks the method lone for all units while nodes are added, changed and removed.
func TestLone(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		s, _ := randomCase(fromRapid(t), drawShape(t))
		s = named(s)
		c := NewCluster(s.Resources)
		c.SetBudgets(s.Budgets)
		for range 3 {
			for n := range s.Nodes {
				if rapid.Bool().Draw(t, "gone") {
					c.RemoveNode(s.Nodes[n].Name)
				} else {
					feed(t, c, s, n)
				}
			}
			now := c.Snapshot()
			for u := range now.Units {
				col, at, ok := now.columns.lone(int32(u))
				pods := now.Units[u].Pods
				if !ok {
					if len(pods) == 1 && now.columns.sound[pods[0].Node] && now.columns.nodes[pods[0].Node].alone {
						t.Fatalf("unit %s is not found to stand alone", now.Units[u].Name)
					}
					continue
				}
				found++
				if len(pods) != 1 || pods[0].Node != int(at.node) {
					t.Fatalf("unit %s of %d pods stands alone on node %d", now.Units[u].Name, len(pods), at.node)
				}
				dims := len(s.Resources)
				before, after := col.sum(int(at.pos), dims), col.sum(int(at.pos)+1, dims)
				for r, v := range pods[0].Request {
					if after[r]-before[r] != v {
						t.Fatalf("unit %s would free %d of %s, and asks for %d", now.Units[u].Name, after[r]-before[r], s.Resources[r], v)
					}
				}
			}
		}
	})
	if found == 0 {
		t.Error("no unit was found to stand alone")
	}
}
