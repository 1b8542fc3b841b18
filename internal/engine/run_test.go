package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// at returns the time of these tests after a number of seconds.
func at(seconds float64) time.Time { return time.Unix(0, int64(seconds*float64(time.Second))) }

// crew is a member in any state. unplaced is true for a member that waits or has failed.
type crew struct {
	Member
	unplaced bool
}

// ran returns running members that were created and scheduled at a time in seconds.
func ran(prefix string, count int, since float64) []crew {
	out := make([]crew, count)
	for i := range out {
		out[i].Member = Member{UID: fmt.Sprintf("%s-%d", prefix, i), Running: true, Created: at(since), Scheduled: at(since)}
	}
	return out
}

// as returns a copy of the members, after the function has changed each.
func as(members []crew, change func(*crew)) []crew {
	out := slices.Clone(members)
	for i := range out {
		change(&out[i])
	}
	return out
}

func bound(m *crew)     { m.Running = false }
func succeeded(m *crew) { m.Running, m.Succeeded = false, true }
func unplaced(m *crew)  { m.Running, m.unplaced = false, true }

// look begins and ends a look at the members of the tests' gang.
func look(gs *testGangs, g *Group, members []crew, now time.Time) (Run, bool) {
	return endLook(gs, gs.BeginLook(testGang), g, members, now)
}

func endLook(gs *testGangs, look uint64, g *Group, members []crew, now time.Time) (Run, bool) {
	var placed []Member
	for _, m := range members {
		if !m.unplaced {
			placed = append(placed, m.Member)
		}
	}
	return gs.EndLook(testGang, look, g, placed, len(members), now)
}

// TestRuns checks the start of the run of a gang of two.
func TestRuns(t *testing.T) {
	t.Parallel()
	// step is a look at these members at a time. status is the start in the group's status; 0 for
	// none. want is the expected start.
	type step struct {
		at      float64
		status  float64
		members []crew
		want    float64
	}
	old, anew := ran("r", 2, 20), ran("n", 2, 100)
	replaced := []crew{old[0], anew[0]}
	done, bound := as(old[1:], succeeded), as(anew[:1], bound)
	cases := map[string][]step{
		"whole from the moment that it is seen": {{at: 25, members: old[:1]}, {at: 30.7, members: old, want: 30}, {at: 50, members: old, want: 30}},
		"whole before it is seen":               {{at: 30.7, members: old, want: 20}, {at: 50, members: old, want: 20}},
		"whole since its status says":           {{at: 50, status: 20, members: old, want: 20}, {at: 60, status: 20, members: old, want: 20}},
		"its status lags":                       {{at: 20, members: old, want: 20}, {at: 50, status: 5, members: old, want: 20}},
		"another process has a later start":     {{at: 20, members: old, want: 20}, {at: 50, status: 21, members: old, want: 21}},
		"one is bound, and does not run":        {{at: 120, members: slices.Concat(old[:1], bound), want: 0}, {at: 121, members: replaced, want: 121}},
		"its status is of a run before":         {{at: 120, status: 50, members: anew, want: 100}},
		"its status is older than one of them":  {{at: 120, status: 50, members: replaced, want: 100}},
		"one has succeeded":                     {{at: 20, members: old, want: 20}, {at: 50, members: slices.Concat(old[:1], done), want: 20}},
		"one has succeeded, a moment later": {
			{at: 20, members: old, want: 20}, {at: 50, members: old[:1], want: 20}, {at: 50.5, members: slices.Concat(old[:1], done), want: 20},
		},
		"more have come": {{at: 20, members: old, want: 20}, {at: 120, members: slices.Concat(old, anew), want: 20}},
		"more have come, and took over": {
			{at: 20, members: old, want: 20}, {at: 120, members: slices.Concat(old, anew), want: 20}, {at: 121, members: anew, want: 121},
		},
		"one of more has gone": {{at: 120, status: 20, members: slices.Concat(old, anew), want: 20}, {at: 121, members: replaced, want: 20}},
		"short for a moment":   {{at: 20, members: old, want: 20}, {at: 50, members: old[:1], want: 20}, {at: 50.9, members: old, want: 20}},
		"short for a moment, by others": {
			{at: 20, members: old, want: 20}, {at: 120, members: old[:1], want: 20}, {at: 120.9, status: 20, members: replaced, want: 120}, {at: 150, status: 20, members: replaced, want: 120},
		},
		"short, and still so":            {{at: 20, members: old, want: 20}, {at: 50, members: old[:1], want: 20}, {at: 51, status: 20, members: old[:1], want: 0}},
		"short, and whole by the same":   {{at: 20, members: old, want: 20}, {at: 50, members: old[:1], want: 20}, {at: 51, members: old[:1]}, {at: 52, status: 20, members: old, want: 52}},
		"replaced between two looks":     {{at: 20, members: old, want: 20}, {at: 120, status: 20, members: replaced, want: 100}, {at: 130, status: 20, members: replaced, want: 100}},
		"all replaced between two looks": {{at: 20, members: old, want: 20}, {at: 120, status: 20, members: anew, want: 100}},
		"nothing left":                   {{at: 20, members: old, want: 20}, {at: 50, status: 20}, {at: 120, status: 20, members: anew, want: 100}},
		"created ahead of the clock":     {{at: 20, members: anew, want: 100}, {at: 21, status: 100, members: anew, want: 100}},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gs := newTestGangs()
			g := &Group{UID: "g", MinCount: 2}
			var before, clock, degraded time.Time
			for i, l := range looks {
				if g.Start = (time.Time{}); l.status != 0 {
					g.Start = at(l.status)
				}
				if i == 0 {
					before, clock = g.Start, g.Start
				}
				var want time.Time
				if l.want != 0 {
					want = at(l.want)
				}
				var run Run
				moves := 0
				for range 2 {
					gs.Touch(testGang)
					now, moved := look(gs, g, l.members, at(l.at))
					if run = now; moved {
						moves++
					}
					if !run.Start.Equal(want) {
						t.Errorf("Look %d: started at %v, want %v", i, run.Start, want)
					}
				}
				wantMoves, wasDegraded := 0, degraded
				degraded = run.DegradedSince
				if (!want.Equal(before) || !run.Clock.Equal(clock) || !degraded.Equal(wasDegraded)) && len(l.members) > 0 {
					wantMoves = 1
				}
				clock = run.Clock
				if moves != wantMoves {
					t.Errorf("Look %d: the start moved %d times, want %d", i, moves, wantMoves)
				}
				before = want
			}
		})
	}
}

// isCurrent reports whether the run of the tests' gang is known without another look.
func isCurrent(gs *testGangs) bool {
	_, ok := gs.Current(testGang, "g")
	return ok
}

// TestLookedAt checks when the run of a group must be looked at, and when a run begins.
func TestLookedAt(t *testing.T) {
	t.Parallel()
	gs, g, members := newTestGangs(), &Group{UID: "g", MinCount: 2, Start: at(5)}, ran("r", 2, 10)
	gs.Touch(testGang)
	if len(gs.Touched()) != 1 || isCurrent(gs) {
		t.Error("Members have come, and no look is due")
	}
	if run, moved := look(gs, g, members, at(20)); !run.Start.Equal(at(10)) || !moved || !gs.IsWhole(testGang) || !isCurrent(gs) {
		t.Errorf("Started at %v (moved: %t), want when the members were scheduled", run.Start, moved)
	}
	// 1. The gang lacks a member. Looks are due without further events, until the run ends.
	gs.Lost(testGang)
	if !gs.MayLack() || len(gs.WithLost()) != 1 {
		t.Error("A member was lost, and no look is due")
	}
	_, degraded := look(gs, g, members[:1], at(60))
	if len(gs.WithLost()) > 0 || len(gs.Touched()) != 1 || !gs.DegradedSince(testGang).Equal(at(60)) {
		t.Errorf("Degraded since %v", gs.DegradedSince(testGang))
	}
	if !gs.GoesStale(testGang, true) || gs.GoesStale(testGang, true) {
		t.Error("It goes stale once")
	}
	if _, over := look(gs, g, members[:1], at(61)); !degraded || !over || gs.IsWhole(testGang) || len(gs.Touched()) > 0 {
		t.Error("It is degraded at once, and whole no more a moment later, and then no look is due")
	}
	// 2. The gang is whole again. Its clock continues.
	mark := gs.Mark()
	gs.Touch(testGang)
	look(gs, g, members, at(62))
	if gs.MayLack() || gs.HasBegun(testGang, mark) {
		t.Error("A member that was replaced begins the clock again")
	}
	gs.Lost(testGang)
	if look(gs, g, members[:1], at(63)); !gs.GoesStale(testGang, true) {
		t.Error("It was whole, and is stale still")
	}
	// 3. Another group gets the same name.
	another := *g
	another.UID = "another"
	if run, _ := look(gs, &another, members, at(64)); !run.Start.Equal(at(10)) {
		t.Errorf("Another group of that name started at %v, want what its own status and members say", run.Start)
	}
	gs.Touch(testGang)
	gs.ForgetRun(testGang)
	if len(gs.Touched()) > 0 {
		t.Error("A look at a group that is gone is due")
	}
	// 4. The group is created again while its members stay. Later, all members are replaced.
	another.UID = "third"
	if run, _ := look(gs, &another, members, at(65)); !run.Clock.Equal(at(10)) || gs.HasBegun(testGang, mark) {
		t.Errorf("The clock of the members is %v after their group was created again", run.Clock)
	}
	gs.Touch(testGang)
	if run, _ := look(gs, &another, ran("n", 2, 70), at(71)); !run.Clock.Equal(at(70)) || !gs.HasBegun(testGang, mark) {
		t.Errorf("The clock of other members is %v", run.Clock)
	}
	gs.ForgetRun(testGang)
	gs.Leaves(testGang)
	if n := gs.facts(); n > 0 {
		t.Error("A group that is gone has a record")
	}
}

// TestLooksAtTheSameTime checks that the Gangs misses no change when looks overlap with each other
// and with changes.
func TestLooksAtTheSameTime(t *testing.T) {
	t.Parallel()
	g, all := &Group{UID: "g", MinCount: 2}, ran("r", 2, 10)
	cases := map[string]struct {
		do          func(gs *testGangs)
		whole       bool
		wantTouched int
		wantRecords int
	}{
		"the later list counts": {do: func(gs *testGangs) {
			first, second := gs.BeginLook(testGang), gs.BeginLook(testGang)
			endLook(gs, second, g, all, at(20))
			endLook(gs, first, g, all[:1], at(20))
		}, whole: true, wantRecords: 1},
		"the later list ends later": {do: func(gs *testGangs) {
			first, second := gs.BeginLook(testGang), gs.BeginLook(testGang)
			endLook(gs, first, g, all[:1], at(20))
			endLook(gs, second, g, all, at(20))
		}, whole: true, wantRecords: 1},
		"a change during the look": {do: func(gs *testGangs) {
			first := gs.BeginLook(testGang)
			gs.Touch(testGang)
			endLook(gs, first, g, all, at(20))
		}, whole: true, wantTouched: 1, wantRecords: 1},
		"a member comes during the look": {do: func(gs *testGangs) {
			first := gs.BeginLook(testGang)
			gs.Touch(testGang)
			endLook(gs, first, g, nil, at(20))
		}, wantTouched: 1, wantRecords: 1},
		"all members leave during the look": {do: func(gs *testGangs) {
			first := gs.BeginLook(testGang)
			gs.Leaves(testGang)
			endLook(gs, first, g, all, at(20))
		}},
		"all members leave before the list": {do: func(gs *testGangs) {
			look(gs, g, all, at(20))
			first := gs.BeginLook(testGang)
			endLook(gs, first, g, nil, at(30))
			gs.Leaves(testGang)
		}},
		"the PodGroup is deleted during the look": {do: func(gs *testGangs) {
			first := gs.BeginLook(testGang)
			gs.ForgetRun(testGang)
			endLook(gs, first, g, all, at(20))
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gs := newTestGangs()
			gs.Touch(testGang)
			c.do(gs)
			if gs.IsWhole(testGang) != c.whole || len(gs.Touched()) != c.wantTouched || gs.facts() != c.wantRecords {
				t.Errorf("whole: %t, touched: %d, records: %d, want %t, %d and %d",
					gs.IsWhole(testGang), len(gs.Touched()), gs.facts(), c.whole, c.wantTouched, c.wantRecords)
			}
		})
	}
}

// TestKept checks that EndKept reports the end of kept room, even for a gang without members.
func TestKept(t *testing.T) {
	t.Parallel()
	// covered is the room of a gang with reservations for all lost members. lacking is the room of
	// a gang with two lost members. Both gangs have priority 0 and no queue.
	covered, lacking := Kept{}, Kept{Lost: 2}
	cases := map[string]struct {
		rooms []Kept
		leave bool
		now   map[workload.Key]Kept
		want  bool
	}{
		"as before":              {rooms: []Kept{lacking}, now: map[workload.Key]Kept{testGang: lacking}},
		"less":                   {rooms: []Kept{lacking}, now: map[workload.Key]Kept{testGang: covered}, want: true},
		"none":                   {rooms: []Kept{lacking}, want: true},
		"covered meanwhile":      {rooms: []Kept{lacking, covered}, want: true},
		"the gang has left":      {rooms: []Kept{lacking}, leave: true, want: true},
		"no room was ever kept":  {},
		"all covered, as before": {rooms: []Kept{covered}, now: map[workload.Key]Kept{testGang: covered}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gs := newTestGangs()
			for _, room := range c.rooms {
				gs.Keeps(testGang, room)
			}
			if c.leave {
				gs.Leaves(testGang)
			}
			if gs.HasKept() != (len(c.rooms) > 0) {
				t.Errorf("room was kept: %t", gs.HasKept())
			}
			if got := gs.EndKept(c.now); got != c.want {
				t.Errorf("ended: %t, want %t", got, c.want)
			}
			if c.want && (gs.HasKept() || gs.facts() > 0) {
				t.Error("a record of the room is left")
			}
		})
	}
}

// TestEnded checks that Ended returns a member with an unknown result until the result is known, or
// until the time Until.
func TestEnded(t *testing.T) {
	t.Parallel()
	gs := newTestGangs()
	gs.AwaitResult(testGang, "a", Ended{Pod: "a", Until: at(1)})
	gs.AwaitResult(testGang, "b", Ended{Pod: "b", Until: at(2)})
	gs.AwaitResult(testGang, "c", Ended{Pod: "c", Until: at(2)})
	gs.ResultKnown(testGang, "c")
	if got := gs.Ended(testGang, at(1)); len(got) != 1 || got[0].Pod != "b" {
		t.Errorf("%v are awaited", got)
	}
	if gs.ExpireResults(at(1)); len(gs.records[testGang].gang.ended) != 1 {
		t.Error("An expired member is kept, or another one is not")
	}
	if gs.ExpireResults(at(2)); gs.facts() > 0 {
		t.Error("A record is left")
	}
}
