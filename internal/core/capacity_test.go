package core

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestExceeds(t *testing.T) {
	full := func() *build {
		return clusterOf("gpu", "cpu").node("a", 8, 4).node("b", 8, 4).pod("x", "a", 9, 8).pod("y", "b", 9, 8)
	}
	delegating := full()
	delegating.s.Nodes[0].Allocatable[0], delegating.s.Nodes[0].Free[0] = 0, math.MaxInt32
	for name, c := range map[string]struct {
		cluster *build
		p       *Preemptor
		want    bool
	}{
		"a pod of a node's size":              {full(), podOf(0, 8, 4), false},
		"a larger pod":                        {full(), podOf(0, 9), true},
		"larger in the other resource":        {full(), podOf(0, 8, 5), true},
		"a pod without requests":              {full(), podOf(0), false},
		"an endless request":                  {full(), podOf(0, math.MaxInt64), true},
		"no nodes":                            {clusterOf("gpu"), podOf(0, 1), true},
		"devices that a claim maps":           {delegating, podOf(0, 9), false},
		"a gang of all nodes":                 {full(), gangOf(0, 4, members("w", 4, 0, 4)), false},
		"a gang of one member more":           {full(), gangOf(0, 5, members("w", 5, 0, 4)), true},
		"surplus beyond the nodes":            {full(), gangOf(0, 4, members("w", 9, 0, 4)), false},
		"only surplus, of a node's size":      {full(), gangOf(0, 0, members("w", 9, 0, 8)), false},
		"only surplus, too large":             {full(), gangOf(0, 0, members("w", 9, 0, 9)), true},
		"two classes that fit one by one":     {full(), gangOf(0, 4, members("v", 2, 0, 8), members("w", 2, 2, 8)), false},
		"a class that fits nowhere":           {full(), gangOf(0, 3, members("v", 2, 0, 8), members("w", 2, 2, 9)), true},
		"a class that fits nowhere, unneeded": {full(), gangOf(0, 2, members("v", 2, 0, 8), members("w", 2, 2, 9)), false},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.p.Classes {
				c.p.Classes[i].Request = amounts(c.p.Classes[i].Request, len(c.cluster.s.Resources))
			}
			if got := c.cluster.snapshot().Exceeds(c.p); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

// TestExceedingNeverFits checks that a preemptor that exceeds the nodes finds no room on them, even
// if nothing else is there.
func TestExceedingNeverFits(t *testing.T) {
	exceeding := 0
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		s, p := randomCase(pick, randomShape{nodes: 3, units: 6, members: 5, classes: 3, gang: pick(2) == 0, leaving: true})
		s, p = scaled(s, p, int64(1+pick(4)))
		if !s.Exceeds(p) {
			return
		}
		exceeding++
		empty := &Snapshot{Resources: s.Resources, Nodes: slices.Clone(s.Nodes), Budgets: s.Budgets}
		for n := range empty.Nodes {
			empty.Nodes[n].Free = empty.Nodes[n].Allocatable
		}
		d, err := Decide(empty, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d.Outcome != Infeasible {
			t.Fatalf("the outcome is %s on empty nodes: %+v", d.Outcome, d.Placements)
		}
	})
	if exceeding == 0 {
		t.Error("no case exceeds the nodes")
	}
}

// scaled multiplies the requests of a preemptor.
func scaled(s *Snapshot, p *Preemptor, by int64) (*Snapshot, *Preemptor) {
	for i := range p.Classes {
		request := slices.Clone(p.Classes[i].Request)
		for r := range request {
			request[r] *= by
		}
		p.Classes[i].Request = request
	}
	return s, p
}
