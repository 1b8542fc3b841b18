package scheduler

import (
	"fmt"
	"testing"
)

// TestMinCountThatChanges changes minCount while members wait at Permit. If minCount falls, the
// waiting members are bound at once. If minCount rises above the plan or the room, the gang is
// planned again. In no case are fewer than minCount members bound.
func TestMinCountThatChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// members is the number of pods that are created for a gang whose minCount is 3 at first.
		members int
		// nodes is the number of nodes. Each has room for one member.
		nodes int
		// to is the minCount that is set after two members have passed their cycles.
		to int
		// want is the number of members with a node at the end.
		want int
		// atOnce is the number of members that have a node directly after the change, before any
		// further cycle.
		atOnce int
	}{
		"lowered to those that are through": {members: 3, nodes: 3, to: 2, want: 3, atOnce: 2},
		"lowered further":                   {members: 3, nodes: 3, to: 1, want: 3, atOnce: 2},
		"raised to all there are":           {members: 4, nodes: 4, to: 4, want: 4},
		"raised past the room":              {members: 4, nodes: 3, to: 4, want: 0},
		"raised past the members":           {members: 3, nodes: 4, to: 4, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(c.nodes, "1")...)
			r.gangOf("g", 3, 0)
			r.create(members("g", c.members, "1", 0)...)
			r.cycle()
			r.cycle()
			if through := r.sched.gangs.Reserved(gangKey(key("g"))); len(through) != 2 {
				t.Fatalf("%v are through, want 2", through)
			}
			r.gangOf("g", c.to, 0)
			r.sched.GroupChanged(key("g"))
			if c.want == 0 {
				r.eventually("the room is given back", func() bool { return len(r.sched.gangs.Reserved(gangKey(key("g")))) == 0 })
			}
			placed := func() (n int) {
				for i := range c.members {
					if r.nodeOf(fmt.Sprintf("g-%d", i)) != "" {
						n++
					}
				}
				return n
			}
			if c.atOnce > 0 {
				r.eventually("those that are enough go at once", func() bool { return placed() == c.atOnce })
			}
			r.eventually("it is placed as far as it is to be", func() bool {
				r.cycles()
				if n := placed(); n > c.want {
					t.Fatalf("%d members have a node, want %d", n, c.want)
				}
				return placed() == c.want && len(r.active()) == 0
			})
			if c.want == 0 && !r.sched.reserved.Empty() {
				t.Error("room is kept for it")
			}
		})
	}
}
