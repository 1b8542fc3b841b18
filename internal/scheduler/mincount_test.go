package scheduler

import (
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
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

// changing is a Derived of one gang whose needs a test changes. Members have the roles of [roles].
type changing struct {
	cluster.Underived
	now atomic.Pointer[sized]
}

// RoleOf is part of Derived.
func (c *changing) RoleOf(pod *corev1.Pod) (string, int) { return c.now.Load().RoleOf(pod) }

// MinCount is part of Derived.
func (c *changing) MinCount(key types.NamespacedName) (int, bool) { return c.now.Load().MinCount(key) }

// need sets the needs of the roles.
func (c *changing) need(a, b int) {
	c.now.Store(&sized{roles{needed: map[string]int{"a": a, "b": b}}, a + b})
}

// TestNeedsThatFall lowers the need of one role while its members wait at Permit. They are more
// than minCount then, but they must still wait for the planned member of the other role.
func TestNeedsThatFall(t *testing.T) {
	t.Parallel()
	needs := &changing{}
	needs.need(3, 1)
	r := newRigOn(t, clientWith(nodes(4, "1")...), noGroups(), schedulerYAML, nil, func(in *Inputs) { in.Derived = needs })
	r.gangOf("g", 4, 0)
	r.create(on(pod("a-0", "g", "1", 0), "node-0"), on(pod("a-1", "g", "1", 0), "node-1"))
	r.create(pod("a-2", "g", "1", 0), pod("b-0", "g", "1", 0))
	gangs, of := r.sched.gangs, gangKey(key("g"))
	gangs.SetPlan(of, []engine.Assignment{{Member: "uid-a-2", Node: "node-2"}, {Member: "uid-b-0", Node: "node-3"}})
	gangs.SetNeeded(of, 2)
	needs.need(1, 1)
	r.gangOf("g", 2, 0)
	r.sched.GroupChanged(key("g"))
	gangs.Reserve(of, "uid-a-2", "node-2")
	if !gangs.Lacks(of) {
		t.Error("The gang does not wait for its only member of the role b")
	}
	gangs.Reserve(of, "uid-b-0", "node-3")
	if gangs.Lacks(of) {
		t.Error("The gang waits although all members have passed their cycles")
	}
}
