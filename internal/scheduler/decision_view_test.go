package scheduler

import (
	"testing"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
)

// TestViewCountsWhatIsKept checks that the room of reservations and nominations is unavailable to
// preemptors that must respect them. The room of a pod that has a reservation and a nomination must
// count once.
func TestViewCountsWhatIsKept(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		// pods is the own priority of the pods with reserved room.
		pods int32
		// group is the priority of the gang of these pods.
		group int32
		asks  int32
		want  core.Outcome
	}{
		"nominated and reserved, for an equal":       {pods: 5, group: 5, asks: 5, want: core.Infeasible},
		"nominated and reserved, for a higher":       {pods: 5, group: 5, asks: 6, want: core.Fits},
		"reserved only, for one above the pods":      {pods: 0, group: 5, asks: 3, want: core.Infeasible},
		"reserved only, for one below the pods":      {pods: 9, group: 5, asks: 6, want: core.Fits},
		"as much as is left, beside those who leave": {pods: 5, group: 5, asks: 5, want: core.Infeasible},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "4"))
			g := r.gangOf("g", 2, c.group)
			all := members("g", 2, "1", c.pods)
			r.create(all...)
			m := r.sched.placements.Members(g.Key)
			pre := r.plugin.gangPreemptor(g, &m)
			r.snapshot()
			r.plugin.reserve(t.Context(), &pre, []engine.Assignment{{Member: "uid-g-0", Node: "node-0"}, {Member: "uid-g-1", Node: "node-0"}})
			// No room would be left if the reserved room were counted twice.
			beside := pod("beside", "", "2", c.asks)
			r.create(beside)
			if d := r.decideFor(beside); d.Outcome != core.Fits {
				t.Errorf("2 of 4 CPUs are kept; 2 are %s: %s", d.Outcome, d.Message)
			}
			more := pod("more", "", "3", c.asks)
			r.create(more)
			if d := r.decideFor(more); d.Outcome != c.want {
				t.Errorf("2 of 4 CPUs are kept; 3 are %s (%s), want %s", d.Outcome, d.Message, c.want)
			}
		})
	}
}
