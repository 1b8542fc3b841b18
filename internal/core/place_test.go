package core

import (
	"fmt"
	"testing"
)

// poolOnly is an Oracle that limits the members of one class to some nodes.
type poolOnly struct {
	Arithmetic
	class int
	nodes map[int]bool
}

func (o *poolOnly) Admits(class, node int) string {
	if class == o.class && !o.nodes[node] {
		return "didn't match the node selector"
	}
	return ""
}

// TestTightestFirst has gangs that are too large for backtracking. The class with the fewest
// possible nodes must be placed first, even if other classes have larger requests.
func TestTightestFirst(t *testing.T) {
	t.Parallel()
	t.Run("for what few nodes have", func(t *testing.T) {
		t.Parallel()
		p := gangOf(10, 17, members("driver", 1, 0, 16, 0), members("worker", 16, 1, 11, 1))
		s := clusterOf("cpu", "gpu").node("g1", 96, 8).node("g2", 96, 8).node("n1", 96, 0).snapshot()
		if d := mustDecide(t, s, p, nil); d.Outcome != Fits {
			t.Errorf("%s (%s), want that it fits with the driver on n1", d.Outcome, d.Message)
		}
	})
	t.Run("for where few may stand", func(t *testing.T) {
		t.Parallel()
		c := clusterOf("cpu")
		for i := range 4 {
			c.node(fmt.Sprint("x-", i+1), 64)
		}
		for i := range 4 {
			c.node(fmt.Sprint("y-", i+1), 64)
		}
		for _, full := range []string{"x-5", "x-6"} {
			c.node(full, 64)
			for i := range 4 {
				c.pod(fmt.Sprint("low-", full, i), full, 0, 16)
			}
		}
		p := gangOf(10, 20, members("ps", 4, 0, 32), members("worker", 16, 4, 16))
		s := c.snapshot()
		x := &poolOnly{class: 1, nodes: map[int]bool{}}
		for n := range s.Nodes {
			x.nodes[n] = s.Nodes[n].Name[0] == 'x'
		}
		if d := mustDecide(t, s, p, x); d.Outcome != Fits || len(d.Victims) > 0 {
			t.Errorf("%s (%s) with %d victims, want that it fits with ps on the nodes y", d.Outcome, d.Message, len(d.Victims))
		}
	})
}
