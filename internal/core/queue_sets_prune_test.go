package core

import (
	"slices"
	"testing"
)

// settledSearch returns a random small cluster with queues, and a waiting preemptor. It also
// returns the search for the preemptor, with all potential victims in order.
func settledSearch(seed uint64, most int) (*Snapshot, *Preemptor, *queuePolicy, *search) {
	pick := fromRand(seed)
	c := randomContention(pick)
	waits := c.jobs[pick(len(c.jobs))]
	c.settle(pick, waits, most)
	s, p := c.snapshot(), c.preemptor(waits)
	if pick(2) == 0 {
		p = podOf(waits.priority, waits.request...)
		p.Queue = waits.leaf
	}
	sr := newSearch(newView(s, p, Arithmetic{}), protections())
	sr.policy = newPolicy(sr.v, sr.protections)
	policy, isBounded := sr.policy.(*queuePolicy)
	if !isBounded || policy.leaf < 0 {
		return s, p, nil, nil
	}
	return s, p, policy, sr.among(policy.rank(&scratch{}), nil)
}

// TestReclaimable checks that reclaimable removes no unit that is in an allowed set. The reference
// decides which sets are allowed.
func TestReclaimable(t *testing.T) {
	t.Parallel()
	dropped, sets := 0, 0
	for seed := range 10 * uint64(*optimalityCases) {
		s, p, c, sr := settledSearch(seed, 9)
		if c == nil {
			continue
		}
		pool := sr.v.eligible(int32(sr.v.victims.below - 1))
		left := c.reclaimable(pool)
		dropped += len(pool) - len(left)
		if len(left) == len(pool) {
			continue
		}
		for bits := 1; bits < 1<<len(pool); bits++ {
			var set []int
			loses := false
			for i, u := range pool {
				if bits&(1<<i) != 0 {
					set = append(set, int(u))
					loses = loses || !slices.Contains(left, u)
				}
			}
			if sets++; loses && refForbids(s, p, set) == "" {
				t.Fatalf("seed %d: units %v may be taken, and of %v only %v are tried", seed, set, pool, left)
			}
		}
	}
	if t.Logf("%d units dropped, %d sets tried", dropped, sets); dropped == 0 {
		t.Error("no unit is dropped in any world")
	}
}

// TestFewerUnitsSameSet checks that reclaimable does not change the cost of the result, and that it
// saves steps.
func TestFewerUnitsSameSet(t *testing.T) {
	t.Parallel()
	ways, narrowed, all := 0, 0, 0
	for seed := range 10 * uint64(*optimalityCases) {
		_, _, c, sr := settledSearch(seed, 10)
		if c == nil {
			continue
		}
		outcome := func(narrow func(e *wholeSets)) (*wholeSets, int) {
			before := sr.v.meter.steps
			e, ok := sr.newWholeSets()
			if !ok {
				return &wholeSets{}, 0
			}
			narrow(e)
			e.goThrough()
			e.t.allBack()
			return e, sr.v.meter.steps - before
		}
		want, slow := outcome(func(e *wholeSets) { sortByImportance(e.s, e.pool) })
		got, fast := outcome(func(e *wholeSets) { e.narrow("") })
		if got.any != want.any || got.any && better(got.best.score, want.best.score) != 0 {
			t.Errorf("seed %d: %v with %+v, of all units %v with %+v", seed, got.any, got.best.score, want.any, want.best.score)
		}
		if want.any {
			ways++
		}
		narrowed, all = narrowed+fast, all+slow
	}
	if t.Logf("%d ways, in %d steps and in %d", ways, narrowed, all); ways == 0 || narrowed >= all {
		t.Errorf("%d ways, in %d steps, and %d with all units", ways, narrowed, all)
	}
}
