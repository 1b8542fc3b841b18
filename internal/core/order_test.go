package core

import (
	"testing"

	"pgregory.net/rapid"
)

// TestLostWorkNeverRaisesPriority checks that counting lost work evicts no higher priority, breaks
// no more budgets and loses no more work than the order by priorities.
func TestLostWorkNeverRaisesPriority(t *testing.T) {
	t.Parallel()
	preempts, cheaper := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		sh := randomShape{
			nodes: 8, units: 30, full: true, lost: true, members: 8, classes: 1 + pick(2), gang: pick(2) == 0,
			gangs: pick(2) == 0, groups: pick(2) == 0, budgets: pick(3) == 0,
		}
		s, p := randomCase(pick, sh)
		got := mustDecide2(t, s, p)
		byPriority := *p
		byPriority.Order = OrderPriority
		want := mustDecide2(t, s, &byPriority)
		if got.Outcome != want.Outcome {
			t.Fatalf("%s, want %s as by priorities", got.Outcome, want.Outcome)
		}
		if got.Outcome != Preempts {
			return
		}
		preempts++
		score := *want.Score
		score.LostWork = refScore(s, p, unitsNamed(s, want.Victims)).LostWork
		if better(*got.Score, score) > 0 {
			t.Fatalf("%+v, want at most %+v", *got.Score, score)
		}
		if lost := refScore(s, p, unitsNamed(s, got.Victims)).LostWork; lost != got.Score.LostWork {
			t.Fatalf("the score has lost work %d, want %d", got.Score.LostWork, lost)
		}
		if got.Score.LostWork < score.LostWork {
			cheaper++
		}
	})
	if preempts == 0 || cheaper == 0 {
		t.Errorf("%d preemptions, %d of them cheaper: the cases prove nothing", preempts, cheaper)
	}
}

// unitsNamed returns the indices of victims.
func unitsNamed(s *Snapshot, victims []Victim) (units []int) {
	for _, v := range victims {
		for u := range s.Units {
			if s.Units[u].UID == v.UID {
				units = append(units, u)
			}
		}
	}
	return units
}
