package core

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// optionsOf returns a choice with random options for some nodes. It needs no cluster.
func optionsOf(pick chooser, nodes, most int) *choice {
	ch := &choice{
		counter: &counter{simulation: &simulation{problem: &problem{s: &Snapshot{}}}}, after: math.MinInt64, limit: price{lost: math.MaxInt64, sum: math.MaxInt64}, proven: true, effort: exchangeEffort,
	}
	if pick(2) == 0 {
		ch.s.losses = &losses{}
	}
	ch.increments.Before = (*increment).before
	room := 0
	for n := range nodes {
		node := choiceNode{node: int32(n), options: []nodeOption{{cost: noCost()}}}
		cost := noCost()
		for gain := range pick(most + 1) {
			// Make some of the pods surplus. An additional victim must never lower the cost, even
			// if it is surplus: the number of pods is compared before the surplus.
			pods := pick(2)
			more := refCost{sum: int64(pick(7)), pods: int64(pods), surplus: int64(pods * pick(2)), start: int64(1 + pick(9))}
			if ch.s.losses != nil {
				more.lost = int64(pick(5))
			}
			cost = cost.plus(more.setCost())
			if pick(4) > 0 {
				node.options = append(node.options, nodeOption{gain: gain + 1, cost: cost})
			}
		}
		room += node.options[len(node.options)-1].gain
		ch.nodes = append(ch.nodes, node)
	}
	ch.missing = 1 + pick(room+2)
	return ch
}

// best returns the cost of the best choice, computed by dynamic programming over the nodes.
func (ch *choice) best() (refCost, bool) {
	none := refCost{sum: -1}
	best := slices.Repeat([]refCost{none}, ch.missing+1)
	best[0] = refCost{start: math.MaxInt64}
	for _, n := range ch.nodes {
		next := slices.Repeat([]refCost{none}, ch.missing+1)
		for m, old := range best {
			for _, o := range n.options {
				to := min(m+o.gain, ch.missing)
				sum := old.plus(refCostOf(o.cost))
				if old != none && (next[to] == none || sum.compare(next[to]) < 0) {
					next[to] = sum
				}
			}
		}
		best = next
	}
	return best[ch.missing], best[ch.missing] != none
}

// result returns the cost and the number of additional members of the final options.
func (ch *choice) result() (cost refCost, gain int) {
	cost.start = math.MaxInt64
	for _, n := range ch.nodes {
		o := n.options[n.taken]
		gain += o.gain
		cost = cost.plus(refCostOf(o.cost))
	}
	return cost, gain
}

// TestChoice checks that a choice has the lowest possible cost. The method best computes this cost.
func TestChoice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		ch := optionsOf(pick, 1+pick(10), 1+pick(6))
		want, possible := ch.best()
		first, ok := ch.cheapest()
		if ok != possible {
			t.Fatalf("there is a choice: %t, want %t", ok, possible)
		}
		if !ok {
			return
		}
		ch.later(first)
		got, gain := ch.result()
		if gain < ch.missing || !ch.proven || got != want {
			t.Fatalf("%+v for %d members, proven %t, want %+v for %d", got, gain, ch.proven, want, ch.missing)
		}
	})
}

// TestChoiceOutOfEffort checks that a choice makes enough room even if it has no effort left for
// exchanges.
func TestChoiceOutOfEffort(t *testing.T) {
	unproven := 0
	for seed := range uint64(300) {
		ch := optionsOf(fromRand(seed), 10, 6)
		ch.effort = 0
		if _, ok := ch.cheapest(); !ok {
			continue
		}
		if _, gain := ch.result(); gain < ch.missing {
			t.Errorf("seed %d: room for %d members, want %d", seed, gain, ch.missing)
		}
		if !ch.proven {
			unproven++
		}
	}
	if unproven == 0 {
		t.Error("every exchange came to an end")
	}
}

// TestCountedGangsAreOptimal compares decisions for gangs of one class with the optimum. All units
// are single pods.
func TestCountedGangsAreOptimal(t *testing.T) {
	preempts := 0
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		s, p := randomCase(pick, randomShape{nodes: 6, units: 24, full: true, members: 10, classes: 1, gang: true, leaving: true, lost: pick(2) == 0})
		step := []int32{1, 1000, 200_000_000}[pick(3)]
		for u := range s.Units {
			s.Units[u].Priority *= step
		}
		p.Priority *= step
		d := mustDecide2(t, s, p)
		if d.Outcome != Preempts {
			return
		}
		preempts++
		if best, ok := refGang(s, p); !ok || better(*d.Score, best) != 0 {
			t.Fatalf("score %+v, want %+v", *d.Score, best)
		}
	})
	if preempts == 0 {
		t.Error("no gang took anything")
	}
}

// TestChoiceTakesWhatIsLeftOver has two nodes with options for two members. For the last member, a
// node with an option for one member is cheaper, although its price per member is higher.
func TestChoiceTakesWhatIsLeftOver(t *testing.T) {
	tt := decideCase{
		cluster: clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).
			pod("a1", "a", 5, 8).pod("b1", "b", 5, 8).pod("c1", "c", 1, 4).pod("c2", "c", 1, 1).pod("c3", "c", 9, 3),
		preemptor:   gangOf(8, 3, members("w", 3, 0, 4)),
		wantOutcome: Preempts, wantVictims: []string{"a1", "c1"},
	}
	tt.run(t)
}

// TestChoiceMindsBudgets has two victims of the lowest priority that share a budget for one
// eviction. The decision must not break the budget, so one victim must have a higher priority.
func TestChoiceMindsBudgets(t *testing.T) {
	tt := decideCase{
		cluster: clusterOf("gpu").budget(1).node("a", 8).node("b", 8).node("c", 8).
			pod("a1", "a", 1, 8, withBudget(0)).pod("b1", "b", 1, 8, withBudget(0)).pod("c1", "c", 2, 8),
		preemptor:   gangOf(8, 2, members("w", 2, 0, 8)),
		wantOutcome: Preempts, wantVictims: []string{"c1", "a1"},
	}
	tt.run(t)
}
