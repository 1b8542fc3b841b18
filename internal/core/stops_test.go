package core

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// stopped gives a unit a number of stops.
func stopped(times int32) unitOption { return func(u *Unit) { u.Stops.Count = times } }

// countingStops makes the search for a preemptor compare stops.
func countingStops(p *Preemptor) *Preemptor {
	p.CountsStops = true
	return p
}

// TestStops checks that stops decide between victims that otherwise cost the same.
func TestStops(t *testing.T) {
	t.Parallel()
	twoNodes := func(a, b int32, old ...unitOption) *build {
		return clusterOf("gpu").node("a", 8).node("b", 8).
			pod("old", "a", 3, 8, append(old, startedAt(5), stopped(a))...).pod("young", "b", 3, 8, startedAt(6), stopped(b))
	}
	oneNode := func() *build {
		return clusterOf("gpu").node("a", 12).
			pod("old", "a", 3, 4, startedAt(5)).pod("young", "a", 3, 4, startedAt(6), stopped(2)).pod("younger", "a", 3, 4, startedAt(7), stopped(1))
	}
	tests := map[string]struct {
		cluster     *build
		preemptor   *Preemptor
		oracle      Oracle
		wantVictims []string
		want        int
	}{
		"work that was stopped stays": {
			cluster: twoNodes(0, 1), preemptor: countingStops(podOf(10, 8)), wantVictims: []string{"old"},
		},
		"the start decides by default": {
			cluster: twoNodes(0, 1), preemptor: podOf(10, 8), wantVictims: []string{"young"},
		},
		"fewer stops": {
			cluster: twoNodes(1, 2), preemptor: countingStops(podOf(10, 8)), wantVictims: []string{"old"}, want: 1,
		},
		"at most three count": {
			cluster: twoNodes(3, 9), preemptor: countingStops(podOf(10, 8)), wantVictims: []string{"young"}, want: 3,
		},
		"a negative number counts as none": {
			cluster: twoNodes(0, -2), preemptor: countingStops(podOf(10, 8)), wantVictims: []string{"young"},
		},
		"surplus comes first": {
			cluster:   twoNodes(3, 0, isSurplus(true)),
			preemptor: countingStops(podOf(10, 8)), wantVictims: []string{"old"}, want: 3,
		},
		"a lower priority comes first": {
			cluster:   twoNodes(3, 0, func(u *Unit) { u.Priority = 2 }),
			preemptor: countingStops(podOf(10, 8)), wantVictims: []string{"old"}, want: 3,
		},
		"on one node": {
			cluster: oneNode(), preemptor: countingStops(podOf(10, 4)), wantVictims: []string{"old"},
		},
		"two on one node": {
			cluster: oneNode(), preemptor: countingStops(podOf(10, 8)), wantVictims: []string{"old", "younger"}, want: 1,
		},
		"on one node, beside other pods": {
			cluster: oneNode(), preemptor: countingStops(podOf(10, 8)), oracle: minded{}, wantVictims: []string{"old", "younger"}, want: 1,
		},
		"for a gang": {
			cluster:   oneNode().node("b", 8).pod("old-b", "b", 3, 4, startedAt(4)).pod("young-b", "b", 3, 4, startedAt(9), stopped(3)),
			preemptor: countingStops(gangOf(10, 2, members("w", 2, 0, 4))), wantVictims: []string{"old", "old-b"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := mustDecide(t, tt.cluster.snapshot(), tt.preemptor, tt.oracle)
			got := victimNames(&d)
			slices.Sort(got)
			if d.Outcome != Preempts || !slices.Equal(got, tt.wantVictims) {
				t.Fatalf("%s, victims %v, want %v", d.Outcome, got, tt.wantVictims)
			}
			if d.Score.Repeated != tt.want {
				t.Errorf("stops %d, want %d", d.Score.Repeated, tt.want)
			}
		})
	}
}

// TestStopsAreATieBreak checks exact searches. With stops, a decision must not cost more by the
// criteria that come before stops.
func TestStopsAreATieBreak(t *testing.T) {
	t.Parallel()
	changed := 0
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		s, p := randomCase(pick, randomShape{
			nodes: 6, units: 20, full: true, members: 4, classes: 1, gang: pick(2) == 0, flat: pick(2) == 0, lost: pick(4) == 0, stopped: true,
		})
		got := mustDecide2(t, s, p)
		off := *p
		off.CountsStops = false
		want := mustDecide2(t, s, &off)
		if got.Outcome != want.Outcome {
			t.Fatalf("%s, want %s as without stops", got.Outcome, want.Outcome)
		}
		if got.Outcome != Preempts {
			return
		}
		if want.Score.Repeated != 0 || got.Score.compareBeforeCascade(*want.Score) != 0 {
			t.Fatalf("the victims cost %+v, want %+v by the criteria before the stops", *got.Score, *want.Score)
		}
		if before := refScore(s, p, unitsNamed(s, want.Victims)).Repeated; got.Score.Repeated < before {
			changed++
		} else if got.Score.Repeated > before {
			t.Fatalf("stops %d, want at most %d as without the criterion", got.Score.Repeated, before)
		}
	})
	if changed == 0 {
		t.Error("The stops changed no decision: the cases prove nothing")
	}
}

// TestStopsSinceProgress checks which stops of a workload count.
func TestStopsSinceProgress(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	const stop, since, now = 100 * second, 200 * second, 300 * second
	tests := map[string]struct {
		unit func(u *Unit)
		now  int64
		want int32
	}{
		"just stopped":              {want: 2},
		"just below an hour":        {now: since + ProgressTime - 1, want: 2},
		"it has run for an hour":    {now: since + ProgressTime},
		"it does not run":           {unit: func(u *Unit) { u.Since = 0 }, now: since + 2*ProgressTime, want: 2},
		"it lacks a member":         {unit: func(u *Unit) { u.Lacks = 1 }, now: since + 2*ProgressTime, want: 2},
		"it began before the stop":  {unit: func(u *Unit) { u.Since = stop - 1 }, now: since + 2*ProgressTime, want: 2},
		"an earlier checkpoint":     {unit: func(u *Unit) { u.Pods[0].Progress.Saved = stop - second }, want: 2},
		"a checkpoint at the stop":  {unit: func(u *Unit) { u.Pods[0].Progress.Saved = stop }, want: 2},
		"a checkpoint":              {unit: func(u *Unit) { u.Pods[0].Progress.Saved = stop + second }},
		"a checkpoint of the group": {unit: func(u *Unit) { u.Pods[0].Progress.GroupSaved = stop + second }},
		"a checkpoint ahead of us":  {unit: func(u *Unit) { u.Pods[0].Progress.Saved = now + 2*ClockSkew }, want: 2},
		"an invalid number":         {unit: func(u *Unit) { u.Stops.Count = -1 }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := clusterOf("gpu").node("a", 8).pod("p", "a", 0, 8, func(u *Unit) {
				u.Stops, u.Since = Stops{Count: 2, Last: stop}, since
				if tt.unit != nil {
					tt.unit(u)
				}
			}).snapshot()
			p := countingStops(podOf(10, 8))
			p.Now = cmp.Or(tt.now, now)
			d := mustDecide(t, s, p, nil)
			if len(d.Victims) != 1 || d.Victims[0].Stops != tt.want || d.Score.Repeated != int(tt.want) {
				t.Errorf("victims %+v, score %+v, want %d stops", d.Victims, d.Score, tt.want)
			}
		})
	}
}

// TestStopsOfABrokenGang checks that a decision reports the stops of a gang that it breaks.
func TestStopsOfABrokenGang(t *testing.T) {
	t.Parallel()
	member := func(u *Unit) {
		u.PodGroup, u.GroupName, u.Running, u.Membership = "uid-g", "g", true, &QueueMembership{MinCount: 2}
		u.Stops.Count = 5
	}
	s := clusterOf("gpu").node("a", 8).node("b", 8).pod("m1", "a", 0, 8, member).pod("m2", "b", 0, 8, member).snapshot()
	d := mustDecide(t, s, countingStops(podOf(10, 8)), nil)
	if len(d.BrokenGangs) != 1 || d.BrokenGangs[0].Stops != 5 || d.Score.Repeated != 3 {
		t.Errorf("gangs %+v, score %+v, want 5 stops, and 3 of them to count", d.BrokenGangs, d.Score)
	}
}
