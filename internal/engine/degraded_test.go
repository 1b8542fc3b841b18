package engine

import (
	"slices"
	"testing"
	"time"
)

// TestDegraded checks the time since when a gang of three lacks members.
func TestDegraded(t *testing.T) {
	t.Parallel()
	type step struct {
		at       float64
		members  []crew
		minCount int
		want     float64
	}
	all, waits := ran("r", 3, 10), as(ran("p", 3, 10), unplaced)
	bound := func(n int) []crew { return as(ran("b", n, 10), bound) }
	done, failed := as(all[2:], succeeded), as(all[2:], unplaced)
	cases := map[string]struct {
		scheduled bool
		since     float64
		basic     bool
		looks     []step
	}{
		"placed one after the other": {looks: []step{{at: 20, members: slices.Concat(bound(1), waits[:2])}, {at: 200, members: slices.Concat(bound(2), waits[:1])}, {at: 300, members: bound(3)}}},
		"waits for images":           {looks: []step{{at: 20, members: bound(3)}, {at: 900, members: bound(3)}}},
		"lost one":                   {looks: []step{{at: 20, members: all}, {at: 30, members: all[:2], want: 30}, {at: 90, members: slices.Concat(all[:2], waits[:1]), want: 30}}},
		"lost one before it ran":     {looks: []step{{at: 20, members: bound(3)}, {at: 30, members: bound(2), want: 30}}},
		"lost one that failed":       {looks: []step{{at: 20, members: all}, {at: 30, members: slices.Concat(all[:2], failed), want: 30}}},
		"one replaced, one missing":  {looks: []step{{at: 20, members: all}, {at: 30, members: all[:1], want: 30}, {at: 50, members: slices.Concat(all[:1], bound(1)), want: 30}}},
		"whole again, and lost again": {looks: []step{
			{at: 20, members: all}, {at: 30, members: all[:2], want: 30}, {at: 40, members: slices.Concat(all[:2], bound(1))}, {at: 50, members: all[:2], want: 50},
		}},
		"one has succeeded":                     {looks: []step{{at: 20, members: all}, {at: 30, members: slices.Concat(all[:2], done)}}},
		"one has succeeded, its pod is gone":    {looks: []step{{at: 20, members: all}, {at: 30, members: slices.Concat(all[:2], done)}, {at: 40, members: all[:2]}}},
		"that, fewer are needed, lost one":      {looks: []step{{at: 20, members: all}, {at: 30, members: slices.Concat(all[:2], done)}, {at: 40, members: all[:2], minCount: 2}, {at: 50, members: all[:1], minCount: 2, want: 50}}},
		"fewer are needed":                      {looks: []step{{at: 20, members: all}, {at: 30, members: all[:2], want: 30}, {at: 40, members: all[:2], minCount: 2}}},
		"more are needed":                       {looks: []step{{at: 20, members: all}, {at: 30, members: all, minCount: 4}, {at: 40, members: slices.Concat(all, bound(1)), minCount: 4}, {at: 50, members: all, minCount: 4, want: 50}}},
		"lost one, and more are needed":         {looks: []step{{at: 20, members: all}, {at: 30, members: all[:2], want: 30}, {at: 40, members: all[:2], minCount: 4, want: 30}}},
		"all lost":                              {looks: []step{{at: 20, members: all}, {at: 30, members: all[:2], want: 30}, {at: 40, members: waits}, {at: 50, members: slices.Concat(bound(1), waits[:2])}}},
		"the status says it was whole":          {scheduled: true, looks: []step{{at: 30, members: all[:2], want: 30}}},
		"the status says since when":            {since: 12, looks: []step{{at: 30, members: all[:2], want: 12}, {at: 40, members: slices.Concat(all[:1], bound(1)), want: 12}}},
		"the status is of before":               {since: 12, looks: []step{{at: 30, members: all}, {at: 40, members: all[:2], want: 40}}},
		"nothing is known of when it was whole": {looks: []step{{at: 30, members: all[:2]}}},
		"no gang":                               {basic: true, looks: []step{{at: 20, members: all}, {at: 30, members: all[:2]}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gs, g := newTestGangs(), &Group{UID: "g", Scheduled: c.scheduled}
			if c.since != 0 {
				g.DegradedSince = at(c.since)
			}
			for i, l := range c.looks {
				if g.MinCount = 3; l.minCount > 0 {
					g.MinCount = l.minCount
				}
				if c.basic {
					g.MinCount = 0
				}
				var want time.Time
				if l.want != 0 {
					want = at(l.want)
				}
				gs.Touch(testGang)
				run, _ := look(gs, g, l.members, at(l.at))
				if got := run.DegradedSince; !got.Equal(want) {
					t.Errorf("Look %d: degraded since %v, want %v", i, got, want)
				}
			}
		})
	}
}

// TestDegradedInParts checks a gang of two parts: it needs two members of a and one of b. Surplus
// members of one part do not replace lost members of the other part.
func TestDegradedInParts(t *testing.T) {
	t.Parallel()
	type step struct {
		at   float64
		a, b []crew
		// moved is true if the gang now needs one member of a and two of b.
		moved bool
		want  float64
	}
	a, b := ran("a", 3, 10), ran("b", 1, 10)
	cases := map[string][]step{
		"lost the only one":               {{at: 20, a: a, b: b}, {at: 30, a: a, want: 30}, {at: 40, a: a, b: ran("c", 1, 40)}},
		"lost surplus":                    {{at: 20, a: a, b: b}, {at: 30, a: a[:2], b: b}},
		"has succeeded":                   {{at: 20, a: a, b: b}, {at: 30, a: a, b: as(b, succeeded)}},
		"has succeeded, its pod is gone":  {{at: 20, a: a, b: b}, {at: 30, a: a, b: as(b, succeeded)}, {at: 40, a: a}},
		"surplus has succeeded":           {{at: 20, a: a, b: b}, {at: 30, a: as(a, succeeded), b: b}, {at: 40, b: b}},
		"was never placed":                {{at: 20, a: a}, {at: 30, a: a}},
		"the needs move to the other":     {{at: 20, a: a, b: b}, {at: 30, a: a, b: b, moved: true}, {at: 40, a: a[:1], b: b, moved: true}},
		"that, and lost one before":       {{at: 20, a: a, b: b}, {at: 30, a: a, want: 30}, {at: 40, a: a, b: b, moved: true, want: 30}},
		"the needs move, whole, lost one": {{at: 20, a: a, b: b}, {at: 30, a: a, b: ran("b", 2, 30), moved: true}, {at: 40, a: a, b: b, moved: true, want: 40}},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gs := newTestGangs()
			for i, s := range steps {
				needs := map[string]int{"a": 2, "b": 1}
				if s.moved {
					needs = map[string]int{"a": 1, "b": 2}
				}
				g := &Group{UID: "g", MinCount: 3, Parts: &Parts{Needs: needs, IsWhole: func(placed map[string]int) bool {
					return placed["a"] >= needs["a"] && placed["b"] >= needs["b"]
				}}}
				of := func(part string) func(*crew) { return func(m *crew) { m.Part = part } }
				var want time.Time
				if s.want != 0 {
					want = at(s.want)
				}
				gs.Touch(testGang)
				run, _ := look(gs, g, slices.Concat(as(s.a, of("a")), as(s.b, of("b"))), at(s.at))
				if got := run.DegradedSince; !got.Equal(want) {
					t.Errorf("Look %d: degraded since %v, want %v", i, got, want)
				}
			}
		})
	}
}
