package engine

import (
	"slices"
	"testing"
	"time"
)

// TestInherited checks a gang of three whose members an earlier leader placed. It is degraded since
// the new leader's first look only if that leader bound some members and nothing explains why the
// others have no node.
func TestInherited(t *testing.T) {
	t.Parallel()
	sealed := func(minCount int) func(*crew) {
		return func(m *crew) { m.Terms = &Terms{MinCount: minCount} }
	}
	all := as(ran("r", 3, 10), sealed(3))
	half := as(all[:2], bound)
	cases := map[string]struct {
		// reported is the time since when the status reports too few members; 0 for never.
		reported float64
		degraded float64
		// standby are the looks of the process before it led. led are those after it.
		standby, led [][]crew
		// want is the time at the end. The looks of standby are at 20, 21 and so on, those of led at
		// 100, 101 and so on.
		want float64
	}{
		"no member has a node":                  {reported: 9, led: [][]crew{as(all, unplaced)}},
		"half is bound":                         {reported: 9, led: [][]crew{half}, want: 100},
		"half runs":                             {reported: 9, led: [][]crew{all[:2]}, want: 100},
		"half is bound in the second of report": {reported: 10, led: [][]crew{half}, want: 100},
		"half is bound, the rest comes":         {reported: 9, led: [][]crew{half, all}},
		"that, and one is lost":                 {reported: 9, led: [][]crew{half, all, all[:2]}, want: 102},
		"all are bound":                         {reported: 9, led: [][]crew{all}},
		"all are bound, one is lost":            {reported: 9, led: [][]crew{all, all[:2]}, want: 101},
		"half is bound, all of it goes":         {reported: 9, led: [][]crew{half, as(all, unplaced)}},
		"the status says since when":            {degraded: 12, led: [][]crew{half}, want: 12},
		"bound before the report":               {reported: 11, led: [][]crew{half}},
		"the report is of another spec":         {led: [][]crew{half}},
		"minCount was raised":                   {reported: 9, led: [][]crew{as(half, sealed(2))}},
		"one was bound after it was raised":     {reported: 9, led: [][]crew{slices.Concat(as(half[:1], sealed(2)), half[1:])}, want: 100},
		"minCount was lowered":                  {reported: 9, led: [][]crew{as(half, sealed(4))}, want: 100},
		"bound by another scheduler":            {reported: 9, led: [][]crew{ran("r", 2, 10)}},
		"the standby saw half":                  {reported: 9, standby: [][]crew{as(all, unplaced), half}, led: [][]crew{half}, want: 100},
		"the standby began with half":           {reported: 9, standby: [][]crew{half}, led: [][]crew{half}, want: 100},
		"the standby saw all":                   {reported: 9, standby: [][]crew{half, all}, led: [][]crew{half}, want: 100},
		"the standby saw the loss":              {reported: 9, standby: [][]crew{all, half}, led: [][]crew{half}, want: 21},
		"a standby does not know":               {reported: 9, standby: [][]crew{half, half}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gs, g := newTestGangs(), &Group{UID: "g", MinCount: 3}
			if c.reported != 0 {
				g.UnscheduledSince = at(c.reported)
			}
			if c.degraded != 0 {
				g.DegradedSince = at(c.degraded)
			}
			var run Run
			for i, members := range c.standby {
				gs.Touch(testGang)
				run, _ = look(gs, g, members, at(20+float64(i)))
			}
			if len(c.led) > 0 {
				gs.Lead()
			}
			for i, members := range c.led {
				gs.Touch(testGang)
				run, _ = look(gs, g, members, at(100+float64(i)))
			}
			var want time.Time
			if c.want != 0 {
				want = at(c.want)
			}
			if got := run.DegradedSince; !got.Equal(want) {
				t.Errorf("Degraded since %v, want %v", got, want)
			}
		})
	}
}

// TestLeadLooksAgain checks that a standby that becomes the leader looks again at the gangs that
// it never saw whole, and only at these.
func TestLeadLooksAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		members []crew
		want    bool
	}{
		"two of three have a node": {members: ran("r", 2, 10), want: true},
		"all have a node":          {members: ran("r", 3, 10)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gs, g := newTestGangs(), &Group{UID: "g", MinCount: 3}
			gs.Touch(testGang)
			look(gs, g, c.members, at(20))
			gs.Lead()
			if got := !isCurrent(gs); got != c.want {
				t.Errorf("It looks again: %t, want %t", got, c.want)
			}
		})
	}
}

// TestLostBeforeTheStatus checks a gang of three that this process binds and that loses a member
// before the status reports all of them. It is degraded once no member is assumed without a node.
func TestLostBeforeTheStatus(t *testing.T) {
	t.Parallel()
	members := as(ran("r", 3, 10), func(m *crew) { m.Running, m.Terms = false, &Terms{MinCount: 3} })
	type step func(gs *testGangs)
	settles := func(i int) step { return func(gs *testGangs) { gs.Settled(testGang, members[i].UID) } }
	fails := func(i int) step { return func(gs *testGangs) { gs.Release(testGang, members[i].UID) } }
	leaves := func(i int) step { return func(gs *testGangs) { gs.MemberLeaves(testGang, members[i].UID) } }
	for name, c := range map[string]struct {
		steps []step
		// placed is the number of members with a node at the last look.
		placed int
		want   bool
	}{
		"two are being bound":               {steps: []step{settles(0)}, placed: 1},
		"one is being bound":                {steps: []step{settles(0), settles(1)}, placed: 2},
		"all are bound":                     {steps: []step{settles(0), settles(1), settles(2)}, placed: 3},
		"the last binding fails":            {steps: []step{settles(0), settles(1), fails(2)}, placed: 2, want: true},
		"a binding fails before the others": {steps: []step{fails(2), settles(0), settles(1)}, placed: 2, want: true},
		"a binding fails, one is unknown":   {steps: []step{settles(0), fails(2)}, placed: 1},
		"a member is deleted":               {steps: []step{settles(0), settles(1), leaves(2)}, placed: 2, want: true},
		"all bindings fail":                 {steps: []step{fails(0), fails(1), fails(2)}, placed: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gs, g := newTestGangs(), &Group{UID: "g", MinCount: 3, UnscheduledSince: at(9)}
			gs.Lead()
			for _, m := range members {
				gs.Reserve(testGang, m.UID, "node")
			}
			gs.Touch(testGang)
			look(gs, g, as(members, unplaced), at(20))
			for _, step := range c.steps {
				step(gs)
			}
			if isCurrent(gs) {
				t.Error("No look is due")
			}
			now := slices.Concat(members[:c.placed], as(members[c.placed:], unplaced))
			if run, _ := look(gs, g, now, at(21)); !run.DegradedSince.IsZero() != c.want {
				t.Errorf("Degraded since %v; want %t", run.DegradedSince, c.want)
			}
		})
	}
}

// TestBindingDuringALook checks that a gang is not degraded because a member was bound after the
// look had listed the members.
func TestBindingDuringALook(t *testing.T) {
	t.Parallel()
	members := as(ran("r", 2, 10), func(m *crew) { m.Running, m.Terms = false, &Terms{MinCount: 2} })
	gs, g := newTestGangs(), &Group{UID: "g", MinCount: 2, UnscheduledSince: at(9)}
	gs.Lead()
	for _, m := range members {
		gs.Reserve(testGang, m.UID, "node")
	}
	gs.Settled(testGang, members[0].UID)
	begun := gs.BeginLook(testGang)
	gs.Settled(testGang, members[1].UID)
	if run, _ := endLook(gs, begun, g, slices.Concat(members[:1], as(members[1:], unplaced)), at(20)); !run.DegradedSince.IsZero() {
		t.Errorf("Degraded since %v", run.DegradedSince)
	}
	if run, _ := look(gs, g, members, at(21)); !run.DegradedSince.IsZero() {
		t.Errorf("Degraded since %v after the next look", run.DegradedSince)
	}
}
