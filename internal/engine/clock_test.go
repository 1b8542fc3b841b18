package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is a gang of two members. A user creates, deletes and relabels its pods, deletes and
// creates its PodGroup, and keeps pods from running. The scheduler places members, and may restart.
type world struct {
	gs      *testGangs
	group   Group
	members []Member
	now     time.Time
	groups  int
	pods    int
	// sealed is true if the scheduler writes the Terms of members into annotations. The scheduler
	// restarts only if sealed is true.
	sealed bool
	run    Run
	// complete is true if two members had a node at the same time, and some member has had a node
	// since then.
	complete bool
	// spent is the time for which the gang has been protected since complete became true.
	spent time.Duration
}

func (w *world) look() {
	w.gs.Touch(testGang)
	w.run, _ = w.gs.EndLook(testGang, w.gs.BeginLook(testGang), &w.group, slices.Clone(w.members), len(w.members), w.now)
	w.group.Start, w.group.Scheduled = w.run.Start, len(w.members) >= w.group.MinCount
	switch {
	case len(w.members) == 0:
		w.complete, w.spent = false, 0
	case len(w.members) >= w.group.MinCount:
		w.complete = true
	}
}

// since returns the start of the protection, computed in the same way as in package snapshot.
func (w *world) since() time.Time {
	since := w.run.Start
	if since.IsZero() {
		for _, m := range w.members {
			if m.Scheduled.After(since) {
				since = m.Scheduled
			}
		}
	}
	return w.run.Guaranteed(since)
}

// deeds returns the actions of the user and of the scheduler, by name.
func (w *world) deeds() map[string]func(*rapid.T) {
	pick := func(t *rapid.T) int {
		if len(w.members) == 0 {
			t.Skip("no member has a node")
		}
		return rapid.IntRange(0, len(w.members)-1).Draw(t, "member")
	}
	return map[string]func(*rapid.T){
		"place": func(*rapid.T) {
			if len(w.members) > w.group.MinCount {
				return
			}
			w.pods++
			m := Member{UID: fmt.Sprintf("m-%d", w.pods), Created: w.now, Scheduled: w.now}
			if w.sealed {
				m.Terms = &Terms{MinCount: 2, Since: w.run.Clock}
			}
			w.members = append(w.members, m)
		},
		"run":        func(t *rapid.T) { w.members[pick(t)].Running = true },
		"stop":       func(t *rapid.T) { w.members[pick(t)].Running = false },
		"delete":     func(t *rapid.T) { i := pick(t); w.members = slices.Delete(w.members, i, i+1) },
		"delete all": func(*rapid.T) { w.members = nil },
		"recreate the group": func(*rapid.T) {
			w.gs.ForgetRun(testGang)
			w.groups++
			w.group = Group{UID: fmt.Sprintf("g-%d", w.groups), MinCount: 2}
		},
		"restart the scheduler": func(*rapid.T) {
			if w.sealed {
				w.gs = newTestGangs()
			}
		},
		"wait": func(t *rapid.T) {
			for range rapid.IntRange(1, 20).Draw(t, "s") {
				if since := w.since(); w.complete && (since.IsZero() || w.now.Before(since.Add(guaranteed))) {
					w.spent += time.Second
				}
				w.now = w.now.Add(time.Second)
			}
		},
	}
}

// guaranteed is the time for which the scheduler protects a run in these tests.
const guaranteed = 5 * time.Second

// TestClockIsSpentOnce checks that no sequence of a user's actions protects a gang for longer than
// twice the guaranteed time. The time begins when enough members have a node, and may begin once
// more when they run. After that, the time must begin again only if all members have ended.
func TestClockIsSpentOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{gs: newTestGangs(), group: Group{UID: "g", MinCount: 2}, now: at(1000), sealed: rapid.Bool().Draw(t, "sealed")}
		deeds := w.deeds()
		deeds[""] = func(t *rapid.T) {
			w.look()
			if w.spent > 2*guaranteed {
				t.Fatalf("protected for %v by %v: %+v", w.spent, w.now, w.run)
			}
		}
		t.Repeat(deeds)
	})
}

// TestClockOfARun checks the clock of a gang of two after fixed sequences of looks at its members.
func TestClockOfARun(t *testing.T) {
	t.Parallel()
	sealed := func(m []crew, since float64) []crew {
		return as(m, func(c *crew) { c.Terms = &Terms{Priority: 5, Since: at(since)} })
	}
	old, later := ran("r", 2, 20), ran("n", 2, 100)
	type step struct {
		at      float64
		members []crew
		status  float64
		want    float64
	}
	cases := map[string][]step{
		"from when it ran":           {{at: 25, members: as(old, bound), want: 20}, {at: 40, members: old, want: 40}},
		"one replaced before it ran": {{at: 25, members: as(old, bound), want: 20}, {at: 110, members: []crew{old[0], later[0]}, want: 20}},
		"one by one": {
			{at: 25, members: old, want: 20}, {at: 90, members: old[:1], want: 20}, {at: 110, members: []crew{old[0], later[0]}, want: 20},
			{at: 120, members: later[:1], want: 20}, {at: 130, members: later, want: 20},
		},
		"all at once":                     {{at: 25, members: old, want: 20}, {at: 90}, {at: 110, members: later, want: 100}},
		"by another process":              {{at: 110, status: 100, members: []crew{old[0], sealed(later, 20)[0]}, want: 20}},
		"by another process, all are new": {{at: 110, status: 100, members: sealed(later, 20), want: 20}},
		"a seal of later than its status": {{at: 110, status: 20, members: sealed(old, 90), want: 20}},
		"one has succeeded":               {{at: 25, members: old, want: 20}, {at: 90, members: slices.Concat(as(old[:1], succeeded), later[:1]), want: 100}},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gs, g := newTestGangs(), &Group{UID: "g", MinCount: 2}
			for i, s := range steps {
				if g.Start = (time.Time{}); s.status != 0 {
					g.Start = at(s.status)
				}
				gs.Touch(testGang)
				run, _ := look(gs, g, s.members, at(s.at))
				want := time.Time{}
				if s.want != 0 {
					want = at(s.want)
				}
				if !run.Clock.Equal(want) {
					t.Errorf("Look %d: the clock is %v, want %v", i, run.Clock, want)
				}
			}
		})
	}
}

// TestClockOfADegradedGang checks that a restart of the scheduler does not reset the clock of a
// gang that has lost a member.
func TestClockOfADegradedGang(t *testing.T) {
	t.Parallel()
	gs, g, old := newTestGangs(), &Group{UID: "g", MinCount: 2, DegradedSince: at(100)}, ran("r", 2, 20)
	if run, _ := look(gs, g, old[:1], at(110)); !run.Clock.Equal(at(20)) {
		t.Errorf("the clock is %v after a restart, want %v", run.Clock, at(20))
	}
	gs.Touch(testGang)
	if run, _ := look(gs, g, append(old[:1:1], ran("n", 1, 120)...), at(121)); !run.Clock.Equal(at(20)) {
		t.Errorf("the clock is %v after a member was replaced, want %v", run.Clock, at(20))
	}
	if run, _ := look(newTestGangs(), g, ran("n", 1, 120), at(121)); !run.Clock.IsZero() {
		t.Errorf("the clock of new members is %v, want none", run.Clock)
	}
}

// TestSealed checks that [Sealed], which combines the Terms of all members, does not depend on the
// order of the members.
func TestSealed(t *testing.T) {
	t.Parallel()
	whole := &Terms{Queue: "a", Priority: 5, Class: "low", MinCount: 2, Whole: true}
	split := &Terms{Queue: "a", Priority: 5, Class: "low", MinCount: 2}
	higher := &Terms{Queue: "b", Priority: 7, Class: "high", MinCount: 3, Whole: true}
	for name, c := range map[string]struct {
		terms []*Terms
		want  Sealed
	}{
		"as a whole":           {[]*Terms{whole, whole}, Sealed{Known: true, Queue: "a", Class: "low", Priority: 5, MinCount: 2}},
		"one pod by pod":       {[]*Terms{whole, split}, Sealed{Known: true, Queue: "a", Class: "low", Priority: 5, MinCount: 2, Split: true}},
		"of different classes": {[]*Terms{higher, whole, whole}, Sealed{Known: true, Queue: "a", Class: "low", Priority: 5, MinCount: 3, Mixed: true, MixedQueues: true}},
		"one without terms":    {[]*Terms{nil, split}, Sealed{Known: true, Queue: "a", Class: "low", Priority: 5, MinCount: 2, Split: true}},
		"none":                 {[]*Terms{nil, nil}, Sealed{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				members := ran("r", len(c.terms), 20)
				for i := range members {
					members[i].Terms = c.terms[i]
				}
				run, _ := look(newTestGangs(), &Group{UID: "g", MinCount: 2}, members, at(25))
				if run.Sealed != c.want {
					t.Errorf("the terms are %+v, want %+v", run.Sealed, c.want)
				}
				slices.Reverse(c.terms)
			}
		})
	}
}

// TestClockMovesOnce checks that a gang's clock does not move back because of members that got
// their nodes before the gang ran.
func TestClockMovesOnce(t *testing.T) {
	t.Parallel()
	gs, g, members := newTestGangs(), &Group{UID: "g", MinCount: 2}, ran("r", 2, 20)
	look(gs, g, as(members, bound), at(25))
	surplus := as(ran("s", 1, 30), func(c *crew) { c.Terms = &Terms{MinCount: 2, Since: at(20)} })
	for i := range 2 {
		gs.Touch(testGang)
		run, _ := look(gs, g, slices.Concat(members, surplus), at(300))
		if !run.Clock.Equal(at(300)) {
			t.Errorf("look %d: the clock is %v, want %v", i, run.Clock, at(300))
		}
	}
}
