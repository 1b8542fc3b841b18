package core

import (
	"flag"
	"fmt"
	"testing"
)

var optimalityCases = flag.Int("core.cases", 150, "random cases per row of the optimality test, half of that in other orders, and a fifth of those played on under queues")

// TestOptimality compares decisions with the plain algorithm and with an exhaustive search over all
// sets of victims, in every order of victims. It prints how often the decision was optimal. If the
// search compares lost work, the total lost work of the decisions of a row may be 2 percent more
// than the total of the optima.
func TestOptimality(t *testing.T) {
	type row struct {
		shape       randomShape
		wantOptimal float64
		wantExcess  float64
	}
	tests := map[string]row{
		"pod":                   {randomShape{nodes: 4, units: 10, groups: true}, 0.95, 0.03},
		"pod, budgets":          {randomShape{nodes: 4, units: 10, groups: true, budgets: true}, 0.95, 0.03},
		"gang, pods":            {randomShape{nodes: 4, units: 10, members: 4, classes: 1, gang: true}, 0.95, 0.03},
		"gang, groups":          {randomShape{nodes: 4, units: 10, members: 4, classes: 1, gang: true, groups: true, leaving: true}, 0.95, 0.03},
		"gang, groups, budgets": {randomShape{nodes: 4, units: 10, members: 4, classes: 1, gang: true, groups: true, budgets: true}, 0.95, 0.03},
		"gang, many victims":    {randomShape{nodes: 5, units: 14, full: true, members: 6, classes: 1, gang: true}, 0.95, 0.03},
		"gang, many groups":     {randomShape{nodes: 5, units: 14, full: true, members: 6, classes: 1, gang: true, groups: true}, 0.95, 0.03},
		"gang, many budgets":    {randomShape{nodes: 4, units: 12, full: true, members: 5, classes: 1, gang: true, groups: true, budgets: true}, 0.95, 0.03},
		"gang, tolerations":     {randomShape{nodes: 4, units: 10, members: 4, classes: 1, gang: true, groups: true, budgets: true, tolerations: true}, 0.95, 0.03},
		"pod, beside gangs":     {randomShape{nodes: 4, units: 12, full: true, gangs: true, whole: true}, 0.99, 0.03},
		"pod, beside surplus":   {randomShape{nodes: 4, units: 12, full: true, gangs: true, gangRoles: true}, 0.95, 0.03},
		"gang, beside gangs":    {randomShape{nodes: 4, units: 12, full: true, members: 5, classes: 1, gang: true, gangs: true, whole: true}, 1, 0},
		"pod, beside equals":    {randomShape{nodes: 3, units: 12, full: true, gangs: true, whole: true, flat: true}, 0.99, 0.03},
		"gang, beside equals":   {randomShape{nodes: 4, units: 12, full: true, members: 5, classes: 1, gang: true, gangs: true, whole: true, flat: true}, 1, 0},
		"gang, beside surplus":  {randomShape{nodes: 4, units: 12, full: true, members: 5, classes: 1, gang: true, gangs: true}, 0.95, 0.03},
		"gang, beside roles":    {randomShape{nodes: 4, units: 12, full: true, members: 5, classes: 1, gang: true, gangs: true, gangRoles: true}, 0.95, 0.03},
		"gang, beside all":      {randomShape{nodes: 4, units: 12, full: true, members: 5, classes: 1, gang: true, gangs: true, groups: true, budgets: true}, 0.95, 0.03},
		"gang, two classes":     {randomShape{nodes: 3, units: 9, members: 3, classes: 2, gang: true, groups: true, budgets: true}, 0.95, 0.03},
		"gang, two roles":       {randomShape{nodes: 3, units: 9, members: 3, classes: 3, gang: true, groups: true, roles: true}, 0.95, 0.03},
	}
	for name, tt := range inEveryOrder(tests, func(r *row) *randomShape { return &r.shape }) {
		if tt.shape.lost {
			// With gangs, lost work is not a sum over victims, so no search is exact.
			tt.wantOptimal, tt.wantExcess = min(tt.wantOptimal, 0.99), 0.03
		}
		t.Run(name, func(t *testing.T) {
			var tally optimalityTally
			cases := *optimalityCases
			if tt.shape.stopped || tt.shape.lost || tt.shape.banded {
				cases /= 2
			}
			for seed := uint64(0); tally.cases < cases && seed < uint64(20*cases); seed++ {
				tally.one(t, seed, tt.shape)
			}
			optimal := float64(tally.optimal) / float64(tally.cases)
			excess := float64(tally.pods-tally.bestPods) / float64(max(tally.bestPods, 1))
			t.Logf("%d cases of %.1f victims: %.2f%% optimal, mean excess of evicted pods %.3f%%, of lost work %.3f%%; the plain algorithm: %.2f%% optimal, excess %.2f%%, fails in %d; without the local search: %.2f%% optimal, excess %.2f%%; %s",
				tally.cases, float64(tally.bestPods)/float64(tally.cases), 100*optimal, 100*excess, 100*tally.lost.excess(),
				100*float64(tally.plainOptimal)/float64(tally.cases), 100*float64(tally.plainPods)/float64(max(tally.bestPods, 1)),
				tally.plainFails, 100*float64(tally.rawOptimal)/float64(tally.cases), 100*float64(tally.rawPods)/float64(max(tally.bestPods, 1)), tally.firstMiss)
			if optimal < tt.wantOptimal {
				t.Errorf("optimal in %.2f of the cases, want at least %.2f", optimal, tt.wantOptimal)
			}
			if excess > tt.wantExcess {
				t.Errorf("mean excess %.4f, want at most %.4f", excess, tt.wantExcess)
			}
			tally.lost.check(t)
		})
	}
}

type optimalityTally struct {
	cases, optimal, plainOptimal, plainFails, pods, bestPods, plainPods, rawOptimal, rawPods int
	lost                                                                                     lostTally
	firstMiss                                                                                string
}

// one decides one case and compares the result. For cases without victims, it compares only whether
// there is room.
func (o *optimalityTally) one(t *testing.T, seed uint64, sh randomShape) {
	s, p := randomCase(fromRand(seed), sh)
	d, err := Decide(s, p, nil)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	s, p = withoutBands(t, s, p, &d)
	counts := refCounts(p)
	best, ok := exhaustive(s, p, counts)
	if !ok {
		if d.Outcome != Infeasible && len(p.Classes) == 1 {
			t.Fatalf("seed %d: %s, but no set of victims makes room", seed, d.Outcome)
		}
		if d.Outcome == Infeasible {
			eligible := map[int]bool{}
			for _, u := range refEligible(s, p) {
				eligible[u] = true
			}
			if p.Gang && refAnyMix(p, refRoom(s, eligible), refNodes(s), make([]int, len(p.Classes)), 0, p.MinCount) {
				t.Errorf("seed %d: infeasible, but some mix of members has room", seed)
			}
		}
		return
	}
	if d.Outcome == Infeasible {
		t.Errorf("seed %d: infeasible, but there is a way for %+v", seed, best)
		return
	}
	free := d.Outcome == Fits || d.Outcome == Waits
	if free && len(p.Classes) > 1 && refAnyMix(p, refRoom(s, nil), refNodes(s), make([]int, len(p.Classes)), 0, p.MinCount) {
		// The reference counts only the needed members with the lowest ranks, so it may need
		// victims. Other members fit without victims.
		return
	}
	if (best == noVictims()) != free {
		t.Errorf("seed %d: %s, but the best score is %+v", seed, d.Outcome, best)
		return
	}
	if d.Outcome != Preempts {
		return
	}
	o.cases++
	o.pods += d.Score.Pods
	o.bestPods += best.Pods
	o.lost.add(*d.Score, best)
	switch c := better(*d.Score, best); {
	case c < 0:
		t.Errorf("seed %d: score %+v is better than the best of all sets, %+v", seed, *d.Score, best)
	case c == 0:
		o.optimal++
	case o.firstMiss == "":
		o.firstMiss = fmt.Sprintf("first miss: seed %d, %+v instead of %+v", seed, *d.Score, best)
	}
	plain, ok := plainAlgorithm(s, p, counts)
	if !ok {
		o.plainFails++
		return
	}
	o.plainPods += plain.Pods - best.Pods
	if better(plain, best) == 0 {
		o.plainOptimal++
	}
	if better(plain, *d.Score) < 0 {
		t.Errorf("seed %d: the plain algorithm comes to %+v, which is better than %+v", seed, plain, *d.Score)
	}
	if p.Gang {
		v := newView(s, p, Arithmetic{})
		sr := newSearch(v, protections())
		sr.policy = newPolicy(v, protections())
		sr.policy.everything(sr, nil)
		g, _ := sr.competition()
		o.rawPods += g.best.score.Pods - best.Pods
		if better(g.best.score, best) == 0 {
			o.rawOptimal++
		}
	}
}

// TestNeverWorseThanPlain compares decisions with the plain algorithm, on clusters that are too
// large for an exhaustive search.
func TestNeverWorseThanPlain(t *testing.T) {
	shapes := map[string]randomShape{
		"pod":                   {nodes: 12, units: 60, full: true, groups: true, leaving: true},
		"pod, budgets":          {nodes: 12, units: 60, full: true, groups: true, leaving: true, budgets: true},
		"gang":                  {nodes: 12, units: 60, full: true, members: 12, classes: 1, gang: true, groups: true, leaving: true},
		"gang, budgets":         {nodes: 12, units: 60, full: true, members: 12, classes: 1, gang: true, groups: true, budgets: true},
		"gang, tolerations":     {nodes: 12, units: 60, full: true, members: 12, classes: 1, gang: true, groups: true, budgets: true, tolerations: true},
		"pod, beside gangs":     {nodes: 12, units: 60, full: true, gangs: true, gangRoles: true, groups: true},
		"gang, beside gangs":    {nodes: 12, units: 60, full: true, members: 12, classes: 1, gang: true, gangs: true, gangRoles: true},
		"gang, beside equals":   {nodes: 12, units: 60, full: true, members: 12, classes: 1, gang: true, gangs: true, flat: true},
		"gang, several classes": {nodes: 12, units: 60, full: true, members: 6, classes: 3, gang: true, groups: true, budgets: true},
	}
	for name, sh := range inEveryOrder(shapes, func(sh *randomShape) *randomShape { return sh }) {
		t.Run(name, func(t *testing.T) {
			worse, preempts := 0, 0
			for seed := range uint64(*optimalityCases) {
				s, p := randomCase(fromRand(seed), sh)
				d := mustDecide(t, s, p, nil)
				s, p = withoutBands(t, s, p, &d)
				plain, ok := plainAlgorithm(s, p, refCounts(p))
				if !ok || d.Outcome == Fits || d.Outcome == Waits {
					continue
				}
				if preempts++; d.Outcome == Infeasible || better(plain, *d.Score) < 0 {
					if worse++; worse == 1 {
						t.Errorf("seed %d: the plain algorithm comes to %+v, which is better than %s, %+v", seed, plain, d.Outcome, d.Score)
					}
				}
			}
			t.Logf("worse than the plain algorithm in %d of %d cases with victims", worse, preempts)
		})
	}
}
