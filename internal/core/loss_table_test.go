package core

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestLossTable checks that the lost work from the table equals the lost work of the units, and
// that its lower bounds hold.
func TestLossTable(t *testing.T) {
	t.Parallel()
	quick, bounded, stops := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		s, p := randomCase(pick, randomShape{
			nodes: 4, units: 16, full: true, lost: true, members: 4, classes: 1, gangs: pick(2) == 0, groups: pick(2) == 0,
		})
		s.gangs = newGangIndex(s)
		c, slow, fast := newColumns(s), newLosses(s, p.Now, settingsOf(s, p)), newLosses(s, p.Now, settingsOf(s, p))
		fast.table = c.losses.of(s, c, settingsOf(s, p))
		for u := range s.Units {
			want := slow.of(int32(u))
			if got := fast.of(int32(u)); got != want {
				t.Fatalf("unit %d loses %d, want %d", u, got, want)
			}
			if _, ok := fast.table.at(int32(u), p.Now); ok {
				quick++
			}
		}
		var some []int32
		for n := range c.nodes {
			var all []int64
			for _, u := range c.nodes[n].units {
				all = append(all, slow.of(u))
				if pick(2) == 0 && !slices.Contains(some, u) {
					some = append(some, u)
				}
			}
			slices.Sort(all)
			sum := int64(0)
			for i, lost := range all {
				sum += lost
				if least := fast.table.atLeast(int32(n), i+1, p.Now); least > sum {
					t.Fatalf("%d units of node %d lose %d, at least %d by the table", i+1, n, sum, least)
				} else if least > 0 {
					bounded++
				}
			}
		}
		for _, u := range some {
			least := fast.alone(u)
			for _, set := range [][]int32{some, {u}} {
				if lost := slow.together(set); least > lost {
					t.Fatalf("units %v lose %d, at least %d by unit %d", set, lost, least, u)
				}
			}
			if least > slow.of(u) {
				stops++
			}
		}
	})
	if quick == 0 || bounded == 0 || stops == 0 {
		t.Errorf("%d losses by the table, %d bounds by node, %d by gang: the cases prove nothing", quick, bounded, stops)
	}
}

// TestLossTableFollowsCluster checks that the table follows changes of a cluster. A checkpoint of
// one member must apply to a member on another node. A new pod must not get the loss of an old pod
// with the same index.
func TestLossTableFollowsCluster(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	c, now := NewCluster([]string{"gpu"}), 1000*second
	gang := &Group{Namespace: "ns", Name: "g", UID: "g", Membership: &QueueMembership{MinCount: 2}}
	set := func(node string, request, start int64, progress Progress, group *Group) {
		t.Helper()
		st := &NodeState{
			Node: Node{Name: node, Free: Amounts{0}, Allocatable: Amounts{1}},
			Pods: []RunningPod{{
				Pod:     Pod{Namespace: "ns", Name: node, UID: node, Request: Amounts{request}, Start: start, Progress: progress},
				Running: true, Group: group,
			}},
		}
		if request > 1 {
			// With a quantity out of range, the nodeColumn of the node has no units.
			more := st.Pods[0]
			more.Name, more.UID = "more", "more"
			st.Pods = append(st.Pods, more)
		}
		if err := c.SetNode(st); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want map[string]int64) {
		t.Helper()
		s := c.Snapshot()
		l := newLosses(s, now, lossSettings{devices: Amounts{1000}})
		l.table = s.columns.losses.of(s, s.columns, l.lossSettings)
		for u := range s.Units {
			if unit := &s.Units[u]; len(unit.Pods) > 0 && l.of(int32(u)) != want[unit.Name] {
				t.Errorf("%s loses %d, want %d", unit.Name, l.of(int32(u)), want[unit.Name])
			}
		}
	}
	set("a", 1, now-100*second, Progress{}, gang)
	set("b", 1, now-100*second, Progress{}, gang)
	check(map[string]int64{"a": 100_000, "b": 100_000})
	set("b", 1, now-100*second, Progress{Saved: now - 7*second}, gang)
	check(map[string]int64{"a": 7_000, "b": 7_000})
	set("b", 1, now-30*second, Progress{}, nil)
	check(map[string]int64{"a": 100_000, "b": 30_000})
	set("b", maxAmount, now-second, Progress{}, nil)
	check(map[string]int64{"a": 100_000, "b": maxLoss, "more": maxLoss})
}
