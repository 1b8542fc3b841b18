package core

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// coverCase is a node with some units, and the room that must be freed.
type coverCase struct {
	col   *nodeColumn
	view  *problem
	short []int64
	units []refUnit
}

func newCoverCase(pick chooser, most int) *coverCase {
	dims, n := 1+pick(3), 1+pick(most)
	b := clusterOf([]string{"gpu", "cpu", "memory"}[:dims]...)
	b.node("a", slices.Repeat([]int64{1000}, dims)...)
	weights := []int32{1, 1000, math.MaxInt32 / 4}
	step := weights[pick(len(weights))]
	for i := range n {
		request := make([]int64, dims)
		for r := range request {
			request[r] = int64(pick(6))
		}
		priority := step * int32(pick(4))
		if pick(10) == 0 {
			priority = math.MinInt32
		}
		b.podOf(string(rune('a'+i)), "a", priority, request, startedAt(int64(pick(4))), isSurplus(pick(3) == 0))
	}
	s := b.snapshot()
	c := &coverCase{view: newView(s, podOf(math.MaxInt32, make([]int64, dims)...), Arithmetic{}), short: make([]int64, dims)}
	c.col = &c.view.c.nodes[0]
	for r, v := range c.col.sum(n, dims) {
		c.short[r] = int64(pick(int(v)+2)) - 1
	}
	for _, u := range c.col.units {
		cost := refCost{lost: refLoss(s, c.view.p, int(u)), sum: unitWeight(s, u), pods: 1, surplus: int64(s.Units[u].surplusPods()), start: math.MaxInt64}
		if s.Units[u].Priority == c.top() {
			cost.start = startOrLast(s.Units[u].Start)
		}
		c.units = append(c.units, refUnit{s.Units[u].Pods[0].Request, cost})
	}
	return c
}

func (c *coverCase) top() int32 { return c.col.priorities[len(c.col.priorities)-1] }

// best returns the cost of the cheapest set of units, by trying all sets.
func (c *coverCase) best() (refCost, bool) {
	best, found := refCost{}, false
	for mask := range 1 << len(c.units) {
		cost, left := refCost{start: math.MaxInt64}, slices.Clone(c.short)
		for i, u := range c.units {
			if mask&(1<<i) == 0 {
				continue
			}
			cost = cost.plus(u.cost)
			for r, v := range u.frees {
				left[r] -= v
			}
		}
		if slices.Max(left) <= 0 && (!found || cost.compare(best) < 0) {
			best, found = cost, true
		}
	}
	return best, found
}

// solve returns the result of a cover with the given effort.
func (c *coverCase) solve(effort int) (set []int32, cost setCost, proven, ok bool) {
	x := newNodeVictims(c.view, nil)
	x.cover.effort = effort
	var all []int32
	for pos := range c.col.units {
		all = append(all, int32(pos))
	}
	x.cover.load(x, c.col, all, slices.Repeat([]int64{1}, c.view.dims), int64(c.top()))
	return x.cover.solve(c.short)
}

// TestCover compares the result of cover with the best of all sets.
func TestCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCoverCase(fromRapid(t), 9)
		best, want := c.best()
		set, cost, proven, ok := c.solve(coverEffort)
		if ok != want || !proven {
			t.Fatalf("found %t, proven %t, want found %t and proven", ok, proven, want)
		}
		if got := refCostOf(cost); ok && got.compare(best) != 0 {
			t.Fatalf("%v at %+v, want %+v", set, got, best)
		}
		c.holds(t, set, cost, ok)
	})
}

// TestCoverOutOfEffort checks that a cover without effort left still returns a set that makes
// enough room.
func TestCoverOutOfEffort(t *testing.T) {
	unproven := 0
	for seed := range uint64(200) {
		c := newCoverCase(fromRand(seed), 25)
		set, cost, proven, ok := c.solve(0)
		c.holds(t, set, cost, ok)
		if !proven {
			unproven++
		}
	}
	if unproven == 0 {
		t.Error("every search came to an end")
	}
}

// TestCoverBesideSurplusOfNoUse has surplus units that free nothing of the missing resource. They
// must not make the search longer.
func TestCoverBesideSurplusOfNoUse(t *testing.T) {
	b := clusterOf("gpu", "cpu")
	b.node("a", 100_000, 100_000)
	for i := range 30 {
		b.podOf(fmt.Sprintf("u%02d", i), "a", 1, []int64{int64(100 + i), 0}, startedAt(int64(100-i)))
	}
	for i := range 2 {
		b.podOf(fmt.Sprintf("s%d", i), "a", 1, []int64{0, 1}, isSurplus(true))
	}
	c := &coverCase{view: newView(b.snapshot(), podOf(math.MaxInt32, 0, 0), Arithmetic{}), short: []int64{511, 0}}
	c.col = &c.view.c.nodes[0]
	set, cost, proven, ok := c.solve(coverEffort)
	if !ok || !proven || cost.pods != 5 || cost.start != 95 {
		t.Errorf("%v at %+v, proven %t; want five that start at 95 or later, proven", set, cost, proven)
	}
}

// holds checks that a set frees the missing room, has the given cost, and is sorted.
func (c *coverCase) holds(t interface{ Errorf(string, ...any) }, set []int32, cost setCost, ok bool) {
	if !ok {
		return
	}
	sum, left := noCost(), slices.Clone(c.short)
	for i, pos := range set {
		if i > 0 && pos >= set[i-1] {
			t.Errorf("positions %v, want them most important first", set)
		}
		u := &c.units[pos]
		sum = sum.plus(u.cost.setCost())
		for r, v := range u.frees {
			left[r] -= v
		}
	}
	if slices.Max(left) > 0 || sum != cost {
		t.Errorf("%v leaves %v short and costs %+v, want %+v", set, left, sum, cost)
	}
}
