package scheduler

import (
	"testing"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TestGroupPastTheMinimumHeals checks a tree that needs one of two PodGroups, and has both. The
// other PodGroup loses one of two members, so the member that is left is useless. The scheduler
// keeps the room for the replacement, but the tree does not become stale.
func TestGroupPastTheMinimumHeals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout string
		// want is the pod that gets the room of the lost member.
		want string
	}{
		"room is kept":    {"1h", "b-1"},
		"no room is kept": {"0s", "lone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			configuration := schedulerYAML + "  pluginConfig: [{name: Reprieve, args: {gang: {healTimeout: " + c.timeout + ", staleTimeout: 1ms}}}]\n"
			f := newForestWith(t, configuration, nodes(4, "1")...)
			f.plant("R", "", 1, 0, false)
			f.plant("a", "R", 2, 0, false)
			f.plant("b", "R", 2, 0, false)
			f.create(append(members("a", 2, "1", 0), members("b", 2, "1", 0)...)...)
			f.settle(map[string]int{"a": 2, "b": 2})
			tree, ok := f.sched.index.Groups.Group(gang.TreeKey("ns", "R"))
			if !ok {
				t.Fatal("the tree is unknown")
			}
			f.sched.runs.Look(tree, f.sched.clock.Now())
			lost := members("b", 2, "1", 0)[1]
			f.remove(lost)
			f.eventually("the loss is known", func() bool { return !f.sched.runs.Look(tree, f.sched.clock.Now()).ExtraSince.IsZero() })
			lone := older(pod("lone", "", "1", 0))
			f.create(lone)
			if c.want == "lone" {
				f.waitBound("lone")
			} else {
				f.cycles()
			}
			f.create(again(lost))
			f.eventually("the room is used", func() bool { f.cycles(); return f.nodeOf(c.want) != "" })
			if got := f.sched.stale.degradedBy(tree); got.Lacks != 0 || got.Stale {
				t.Errorf("The tree is degraded: %+v", got)
			}
			if c.want != "b-1" {
				return
			}
			if f.nodeOf("lone") != "" {
				t.Error("the lone pod has the room of the lost member")
			}
			f.eventually("nothing is missing", func() bool { return f.sched.runs.Look(tree, f.sched.clock.Now()).ExtraSince.IsZero() })
		})
	}
}
