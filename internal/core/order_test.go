package core

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
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

// TestLostWorkUnderBounds checks that a set which the bounds of queues refuse is not replaced by
// victims of a higher priority. Queue a uses 6 of its share of 5. Its two small pods lose the least
// work, but reclaiming 3 is allowed only at once, as one pod.
func TestLostWorkUnderBounds(t *testing.T) {
	t.Parallel()
	const hour = int64(time.Hour)
	tree, _ := fairshare.NewTree(1, []fairshare.Queue{queue("a"), queue("c")})
	for name, p := range map[string]*Preemptor{
		"pod":  with(podOf(100, 3), ofQueue("c")),
		"gang": with(gangOf(100, 1, members("m", 1, 0, 3)), ofQueue("c")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := 2000 * hour
			s := clusterOf("gpu").node("n", 9).
				pod("a1", "n", 0, 1, inQueue("a"), startedAt(now-hour)).
				pod("b1", "n", 0, 2, inQueue("a"), startedAt(now-50*hour)).
				pod("a2", "n", 0, 3, inQueue("a"), startedAt(now-100*hour)).
				pod("outside", "n", 50, 3, startedAt(now-1000*hour)).snapshot()
			s.Queues = &Queues{Tree: tree, Shares: []Amounts{{5}, {4}}}
			p.Order, p.Now, p.Devices = OrderLostWork, now, Amounts{1000}
			d := mustDecide(t, s, p, nil)
			if d.Outcome != Preempts || len(d.Victims) != 1 || d.Victims[0].Name != "a2" {
				t.Errorf("%s %v, want a2 as by priorities", d.Outcome, d.Victims)
			}
		})
	}
}

// TestLostWorkOfAStoppedGang checks that a second member of a gang that stops anyway costs nothing,
// on a node that looks more expensive than another.
func TestLostWorkOfAStoppedGang(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	now := 1000 * second
	ofGang := func(u *Unit) {
		u.PodGroup, u.GroupName, u.Running = "g", "g", true
		u.Membership = &QueueMembership{MinCount: 3}
	}
	s := clusterOf("gpu").node("a", 3).node("b", 2).
		pod("y", "a", 0, 1, startedAt(now-10*second)).
		pod("m1", "a", 0, 1, startedAt(now-100*second), ofGang).pod("m3", "a", 0, 1, startedAt(now-100*second), ofGang).
		pod("x", "b", 0, 1, startedAt(now-5*second)).pod("m2", "b", 0, 1, startedAt(now-100*second), ofGang).snapshot()
	p := podOf(10, 2)
	p.Order, p.Now, p.Devices = OrderLostWork, now, Amounts{1000}
	if d := mustDecide(t, s, p, nil); d.Score == nil || d.Score.LostWork != 300_000 {
		t.Errorf("%+v for %v, want 300 device-seconds", d.Score, d.Victims)
	}
}

// TestLoss checks the lost work of single pods, in milli-device-seconds.
func TestLoss(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	now := 1000 * second
	s := &Snapshot{
		Resources: []string{"nvidia.com/gpu", "cpu", "memory", "example.com/other"},
		Nodes:     []Node{{Name: "n", Allocatable: Amounts{8, 64, 100, 9}}},
	}
	p := &Preemptor{Now: now, Devices: Amounts{1000, 0, 0, 0}}
	for name, tt := range map[string]struct {
		request      Amounts
		start, since int64
		want         int64
	}{
		"two GPUs for ten seconds":           {Amounts{2, 60, 90, 9}, now - 10*second, 0, 20_000},
		"since the gang was whole":           {Amounts{2, 0, 0, 0}, now - 10*second, now - 4*second, 8_000},
		"a quarter of the CPUs":              {Amounts{0, 16, 10, 0}, now - 10*second, 0, 2_500},
		"half of the memory":                 {Amounts{0, 16, 50, 9}, now - 10*second, 0, 5_000},
		"next to nothing":                    {Amounts{0, 0, 0, 0}, now - 10*second, 0, 10},
		"not started":                        {Amounts{2, 0, 0, 0}, 0, now - 4*second, 0},
		"started in the future":              {Amounts{2, 0, 0, 0}, now + second, 0, 0},
		"more than can be counted":           {Amounts{math.MaxInt64, 0, 0, 0}, 1, 0, maxLoss},
		"a request below 0, as bad input is": {Amounts{-5, 16, 0, 0}, now - 10*second, 0, 2_500},
	} {
		s.Units = []Unit{{Start: tt.start, Since: tt.since, Pods: []Pod{{Node: 0, Request: tt.request}}}}
		if got := newLosses(s, p).of(0); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}
