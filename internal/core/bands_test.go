package core

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// withoutBands returns an equal case without bands. Each unit with a priority lower than the
// preemptor's has the lowest priority of its band. withoutBands also changes d.Score to the score
// in the new case.
func withoutBands(t interface{ Fatalf(string, ...any) }, s *Snapshot, p *Preemptor, d *Decision) (*Snapshot, *Preemptor) {
	if len(p.Bands) == 0 {
		return s, p
	}
	flat, alone := *s, *p
	flat.Units, alone.Bands = slices.Clone(s.Units), nil
	for u := range flat.Units {
		for _, band := range p.Bands {
			if unit := &flat.Units[u]; unit.Priority < p.Priority && band.Min <= s.Units[u].Priority && s.Units[u].Priority <= band.Max {
				unit.Priority = band.Min
			}
		}
	}
	if d.Score != nil {
		score := refScore(s, p, unitsNamed(s, d.Victims))
		score.BrokenBudgets = d.Score.BrokenBudgets
		if score != *d.Score {
			t.Fatalf("the score is %+v, want %+v", *d.Score, score)
		}
		score = refScore(&flat, &alone, unitsNamed(&flat, d.Victims))
		d.Score = &score
	}
	return &flat, &alone
}

// TestBandsAreOnePriority compares two decisions. The first has bands. The second has no bands, but
// each unit has the lowest priority of its band.
func TestBandsAreOnePriority(t *testing.T) {
	t.Parallel()
	preempts, differ := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		s, p := randomCase(pick, randomShape{
			nodes: 6, units: 24, full: true, members: 6, classes: 1 + pick(2), gang: pick(2) == 0, gangs: pick(2) == 0, groups: pick(2) == 0,
			budgets: pick(3) == 0, tolerations: pick(2) == 0, static: pick(2) == 0, leaving: true, lost: pick(2) == 0, banded: true, stopped: pick(2) == 0,
		})
		for u := range s.Units {
			// Raise the priorities, so that many units are not below the preemptor.
			s.Units[u].Priority += 3
		}
		got := mustDecide2(t, s, p)
		plain := *p
		plain.Bands = nil
		byPriority := mustDecide2(t, s, &plain)
		flat, alone := withoutBands(t, s, p, &got)
		want := mustDecide2(t, flat, alone)
		if got.Outcome != want.Outcome || !slices.Equal(victimNames(&got), victimNames(&want)) {
			t.Fatalf("%s %v, want %s %v", got.Outcome, victimNames(&got), want.Outcome, victimNames(&want))
		}
		if diff := cmp.Diff(want.Placements, got.Placements); diff != "" {
			t.Fatalf("placements (-want +got):\n%s", diff)
		}
		if got.Outcome != Preempts {
			return
		}
		preempts++
		if !slices.Equal(victimNames(&got), victimNames(&byPriority)) {
			differ++
		}
	})
	if preempts == 0 || differ == 0 {
		t.Errorf("%d preemptions, %d of them changed by bands: the cases prove nothing", preempts, differ)
	}
}

// TestBandsPermitNothing checks that bands change neither the set of potential victims nor the
// result whether there is room.
func TestBandsPermitNothing(t *testing.T) {
	t.Parallel()
	inBand := 0
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		shape := randomShape{
			nodes: 6, units: 24, full: true, members: 6, classes: 1, gang: pick(2) == 0, gangs: pick(2) == 0, groups: pick(2) == 0,
			tolerations: pick(2) == 0, static: pick(2) == 0, lost: pick(2) == 0, banded: true,
		}
		s, p := randomCase(pick, shape)
		queues := pick(2) == 0
		if queues {
			s, p, _ = reclaimCase(t, shape)
		}
		for u := range s.Units {
			// Raise the priorities, so that many units are not below the preemptor.
			s.Units[u].Priority += 3
		}
		plain := *p
		plain.Bands = nil
		got, want := mustDecide2(t, s, p), mustDecide2(t, s, &plain)
		if diff := cmp.Diff(want.Protected, got.Protected); diff != "" {
			t.Fatalf("protected (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want.ProtectedUnits, got.ProtectedUnits); diff != "" {
			t.Fatalf("protected units (-want +got):\n%s", diff)
		}
		if g, w := got.Reprieved+len(got.Victims), want.Reprieved+len(want.Victims); g != w {
			t.Fatalf("%d potential victims, want %d", g, w)
		}
		if !queues && got.Outcome != want.Outcome {
			t.Fatalf("%s, want %s", got.Outcome, want.Outcome)
		}
		for _, v := range got.Victims {
			if v.Rule == RuleNotLowerPriority || v.Rule == RuleLowerPriority && v.Priority >= p.Priority {
				t.Fatalf("%s has the priority %d, the preemptor %d", v.Name, v.Priority, p.Priority)
			}
			if slices.ContainsFunc(p.Bands, func(b Band) bool { return b.Min <= v.Priority && p.Priority <= b.Max }) {
				inBand++
			}
		}
	})
	if inBand == 0 {
		t.Error("no victim is in the band of its preemptor: the cases prove nothing")
	}
}

// TestBandsOfOnePriority checks that bands with one priority each do not change a decision.
func TestBandsOfOnePriority(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		shape := randomShape{
			nodes: 6, units: 24, full: true, members: 6, classes: 1, gang: pick(2) == 0, gangs: pick(2) == 0, groups: pick(2) == 0,
			budgets: pick(3) == 0, lost: pick(2) == 0,
		}
		s, p := randomCase(pick, shape)
		if pick(2) == 0 {
			s, p, _ = reclaimCase(t, shape)
		}
		want, err := json.Marshal(mustDecide2(t, s, p))
		if err != nil {
			t.Fatal(err)
		}
		for priority := int32(-1); priority < 12; priority++ {
			p.Bands = append(p.Bands, Band{Min: priority, Max: priority})
		}
		got, err := json.Marshal(mustDecide2(t, s, p))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Fatalf("decision (-want +got):\n%s", diff)
		}
	})
}

// TestLostWorkInBand checks that lost work decides between units of one band, and priorities decide
// between bands.
func TestLostWorkInBand(t *testing.T) {
	t.Parallel()
	const second = int64(1e9)
	now := 1000 * second
	for name, tt := range map[string]struct {
		bands []Band
		want  string
	}{
		"no bands":                      {want: "low"},
		"one band":                      {bands: []Band{{0, 9}}, want: "middle"},
		"a band that ends between them": {bands: []Band{{0, 4}}, want: "low"},
		"a band with the preemptor":     {bands: []Band{{0, 100}}, want: "middle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).
				pod("low", "a", 1, 8, startedAt(now-500*second)).pod("middle", "b", 5, 8, startedAt(now-10*second)).
				pod("equal", "c", 50, 8, startedAt(now-second)).snapshot()
			p := podOf(50, 8)
			p.Order, p.Now, p.Devices, p.Bands = OrderLostWork, now, Amounts{1000}, tt.bands
			if d := mustDecide(t, s, p, nil); !slices.Equal(victimNames(&d), []string{tt.want}) {
				t.Errorf("victims %v, want %s", victimNames(&d), tt.want)
			}
		})
	}
}

// TestBandsUnderQueues checks units of one band in a queue above its fair share. Lost work must
// decide between them.
func TestBandsUnderQueues(t *testing.T) {
	t.Parallel()
	const second = int64(1e9)
	now := 1000 * second
	for name, tt := range map[string]struct {
		bands []Band
		want  string
	}{
		"no bands": {want: "low"},
		"one band": {bands: []Band{{0, 9}}, want: "middle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := clusterOf("gpu").node("a", 8).node("b", 8).
				pod("low", "a", 1, 8, inQueue("a"), startedAt(now-500*second)).pod("middle", "b", 5, 8, inQueue("a"), startedAt(now-10*second)).snapshot()
			s.Queues = queuesFor(s, []fairshare.Queue{queue("a"), queue("c")})
			s.Queues.Shares = []Amounts{{8}, {8}}
			p := with(podOf(0, 8), ofQueue("c"))
			p.Order, p.Now, p.Devices, p.Bands = OrderLostWork, now, Amounts{1000}, tt.bands
			if d := mustDecide(t, s, p, nil); !slices.Equal(victimNames(&d), []string{tt.want}) {
				t.Errorf("%s: victims %v, want %s", d.Message, victimNames(&d), tt.want)
			}
		})
	}
}
