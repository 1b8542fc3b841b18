package core

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// TestLostWorkNeverRaisesPriority compares OrderLostWork with OrderPriority. OrderLostWork must not
// lead to a higher priority of a victim, more broken budgets, or more lost work.
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
		// Reports count the work without steps and without the cost for each pod.
		plain := *p
		plain.Step, plain.PodCost = 0, 0
		for _, d := range []*Decision{&got, &want} {
			wantReported(t, d, refScore(s, &plain, unitsNamed(s, d.Victims)).LostWork)
		}
	})
	if preempts == 0 || cheaper == 0 {
		t.Errorf("%d preemptions, %d of them cheaper: the cases prove nothing", preempts, cheaper)
	}
}

// TestYoungWorkByPriority checks that lost work decides nothing if all work has run for less than a
// step: the cost of the victims is at most the cost of the victims by priorities. So in a new
// cluster, OrderLostWork evicts the fewest and least important pods.
func TestYoungWorkByPriority(t *testing.T) {
	t.Parallel()
	preempts := 0
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		sh := randomShape{
			nodes: 6, units: 24, full: true, lost: true, members: 6, classes: 1 + pick(2), gang: pick(2) == 0,
			gangs: pick(2) == 0, groups: pick(2) == 0, budgets: pick(3) == 0,
		}
		s, p := randomCase(pick, sh)
		p.Step, p.PodCost, p.Restart = p.Now+1, 3600e9, 0
		for u := range s.Units {
			for i := range s.Units[u].Pods {
				s.Units[u].Pods[i].Progress.Restart = 0
			}
		}
		byPriority := *p
		byPriority.Order = OrderPriority
		got, want := mustDecide2(t, s, p), mustDecide2(t, s, &byPriority)
		if got.Outcome != want.Outcome {
			t.Fatalf("%s, want %s as by priorities", got.Outcome, want.Outcome)
		}
		if got.Outcome != Preempts {
			return
		}
		preempts++
		if got.Score.LostWork != 0 || better(*got.Score, *want.Score) > 0 {
			t.Fatalf("%+v, want at most %+v as by priorities", *got.Score, *want.Score)
		}
	})
	if preempts == 0 {
		t.Error("no preemptions: the cases prove nothing")
	}
}

// wantReported checks that a decision reports the given lost work, even if the search does not
// compare it. The lost work of victims and broken gangs must add up to this value.
func wantReported(t *rapid.T, d *Decision, lost int64) {
	t.Helper()
	parts := int64(0)
	for i := range d.Victims {
		parts += d.Victims[i].LostWork
	}
	for i := range d.BrokenGangs {
		parts += d.BrokenGangs[i].LostWork
	}
	if d.LostWork != lost || parts != lost {
		t.Fatalf("order %q reports lost work %d in parts of %d, want %d", d.Preemptor.Order, d.LostWork, parts, lost)
	}
}

// unitsNamed returns the indexes of victims in the snapshot.
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

// TestLostWorkUnderBounds has a set of victims that the bounds of queues do not allow. The decision
// must not replace a victim of this set by a victim of a higher priority. Queue a uses 6, and its
// share is 5. Its two small pods lose the least work. The bounds allow a reclaim of 3 only as one
// pod.
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

// TestLostWorkOfAStoppedGang has a node with two victims of one gang. The second victim adds no
// lost work, because the first victim stops the gang already. So this node is the cheapest,
// although it looks more expensive.
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

// TestLossOfSavedGang checks that a checkpoint of one member applies to its whole gang, and not to
// other gangs.
func TestLossOfSavedGang(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	now := 1000 * second
	ofGang := func(name string, saved int64) unitOption {
		return func(u *Unit) {
			u.PodGroup, u.GroupName, u.Running = name, name, true
			u.Membership, u.Pods[0].Progress.Saved = &QueueMembership{MinCount: 2}, saved
		}
	}
	s := clusterOf("gpu").node("n", 5).
		pod("a1", "n", 0, 1, startedAt(now-100*second), ofGang("a", now-5*second)).pod("a2", "n", 0, 1, startedAt(now-100*second), ofGang("a", now-50*second)).
		pod("b1", "n", 0, 1, startedAt(now-100*second), ofGang("b", 0)).pod("b2", "n", 0, 1, startedAt(now-100*second), ofGang("b", 0)).snapshot()
	s.gangs = newGangIndex(s)
	l := newLosses(s, now, lossSettings{devices: Amounts{1000}})
	for u, want := range []int64{10_000, 10_000, 200_000, 200_000} {
		if got := l.charge(int32(u)); got != want {
			t.Errorf("%s: %d, want %d", s.Units[u].Name, got, want)
		}
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
	tree, _ := fairshare.NewTree(4, []fairshare.Queue{
		queue("capped", silentCap(4*second)), queue("leaf", under("capped")), queue("lifted", under("capped"), silentCap(math.MaxInt64)), queue("free"),
	})
	s.Queues = &Queues{Tree: tree}
	for name, tt := range map[string]struct {
		request      Amounts
		start, since int64
		want         int64
		progress     Progress
		// queue is the queue of the pod. standard is Preemptor.Restart.
		queue    string
		standard int64
		// step and podCost are Preemptor.Step and Preemptor.PodCost.
		step, podCost int64
	}{
		"whole steps":                        {request: Amounts{2, 0, 0, 0}, start: now - 11*second, step: 5 * second, want: 20_000},
		"less than a step":                   {request: Amounts{2, 0, 0, 0}, start: now - 4*second, step: 5 * second, podCost: 60 * second},
		"a checkpoint within a step":         {request: Amounts{2, 0, 0, 0}, start: now - 90*second, progress: Progress{Saved: now - 4*second}, step: 5 * second, podCost: 60 * second},
		"an interval in steps":               {request: Amounts{2, 0, 0, 0}, start: now - 99*second, progress: Progress{Interval: 10 * second}, step: 4 * second, want: 16_000},
		"a cap in steps":                     {request: Amounts{2, 0, 0, 0}, start: now - 99*second, queue: "capped", step: 3 * second, want: 6_000},
		"a restart is not in steps":          {request: Amounts{2, 0, 0, 0}, start: now - 4*second, step: 5 * second, standard: 3 * second, want: 6_000},
		"a step and the cost of a pod":       {request: Amounts{2, 0, 0, 0}, start: now - 5*second, step: 5 * second, podCost: 60 * second, want: 70_000},
		"the cost of a pod without steps":    {request: Amounts{2, 0, 0, 0}, start: now - 5*second, podCost: 60 * second, want: 70_000},
		"a pod that has not started is free": {request: Amounts{2, 0, 0, 0}, podCost: 60 * second},
		"silent in a queue with a cap":       {request: Amounts{2, 0, 0, 0}, start: now - 10*second, queue: "capped", want: 8_000},
		"silent below a queue with a cap":    {request: Amounts{2, 0, 0, 0}, start: now - 10*second, queue: "leaf", standard: second, want: 10_000},
		"silent for less than the cap":       {request: Amounts{2, 0, 0, 0}, start: now - 3*second, queue: "leaf", want: 6_000},
		"silent where the cap is lifted":     {request: Amounts{2, 0, 0, 0}, start: now - 10*second, queue: "lifted", want: 20_000},
		"silent beside a queue with a cap":   {request: Amounts{2, 0, 0, 0}, start: now - 10*second, queue: "free", want: 20_000},
		"an interval above the cap":          {request: Amounts{2, 0, 0, 0}, start: now - 10*second, queue: "capped", progress: Progress{Interval: 60 * second}, want: 8_000},
		"saved before the run, with a cap":   {request: Amounts{2, 0, 0, 0}, start: now - 10*second, queue: "capped", progress: Progress{Saved: now - 20*second}, want: 8_000},
		"saved longer ago than the cap":      {request: Amounts{2, 0, 0, 0}, start: now - 10*second, queue: "capped", progress: Progress{Saved: now - 6*second}, want: 12_000},
		"the standard restart":               {request: Amounts{2, 0, 0, 0}, start: now - 10*second, standard: 5 * second, want: 30_000},
		"a restart instead of the standard":  {request: Amounts{2, 0, 0, 0}, start: now - 10*second, standard: 5 * second, progress: Progress{Restart: second}, want: 22_000},
		"no restart instead of the standard": {request: Amounts{2, 0, 0, 0}, start: now - 10*second, standard: 5 * second, progress: Progress{Restart: NoRestart}, want: 20_000},
		"two GPUs for ten seconds":           {request: Amounts{2, 60, 90, 9}, start: now - 10*second, want: 20_000},
		"since the gang was whole":           {request: Amounts{2, 0, 0, 0}, start: now - 10*second, since: now - 4*second, want: 8_000},
		"a quarter of the CPUs":              {request: Amounts{0, 16, 10, 0}, start: now - 10*second, want: 2_500},
		"half of the memory":                 {request: Amounts{0, 16, 50, 9}, start: now - 10*second, want: 5_000},
		"next to nothing":                    {request: Amounts{0, 0, 0, 0}, start: now - 10*second, want: 10},
		"not started":                        {request: Amounts{2, 0, 0, 0}, since: now - 4*second},
		"started in the future":              {request: Amounts{2, 0, 0, 0}, start: now + second},
		"more than can be counted":           {request: Amounts{math.MaxInt64, 0, 0, 0}, start: 1, want: maxLoss},
		"a request below 0, as bad input is": {request: Amounts{-5, 16, 0, 0}, start: now - 10*second, want: 2_500},
		"a checkpoint":                       {request: Amounts{2, 0, 0, 0}, start: now - 10*second, progress: Progress{Saved: now - 3*second, Interval: second}, want: 6_000},
		"a checkpoint of an earlier run":     {request: Amounts{2, 0, 0, 0}, start: now - 10*second, progress: Progress{Saved: now - 30*second}, want: 20_000},
		"a checkpoint of a clock ahead":      {request: Amounts{2, 0, 0, 0}, start: now - 10*second, progress: Progress{Saved: now + 60*second}},
		"a checkpoint in the future":         {request: Amounts{2, 0, 0, 0}, start: now - 10*second, progress: Progress{Saved: now + 61*second}, want: 20_000},
		"a future of the group":              {request: Amounts{2, 0, 0, 0}, start: now - 10*second, progress: Progress{Saved: now - 3*second, GroupSaved: math.MaxInt64}, want: 6_000},
		"a checkpoint of the group":          {request: Amounts{2, 0, 0, 0}, start: now - 10*second, progress: Progress{Saved: now - 5*second, GroupSaved: now - 3*second}, want: 6_000},
		"every four seconds after a restart": {request: Amounts{2, 0, 0, 0}, start: now - 10*second, progress: Progress{Saved: now - 30*second, Interval: 4 * second}, want: 4_000},
		"a checkpoint every four seconds":    {request: Amounts{2, 0, 0, 0}, start: now - 10*second, progress: Progress{Interval: 4 * second}, want: 4_000},
		"a restart":                          {request: Amounts{2, 0, 0, 0}, start: now - 10*second, progress: Progress{Interval: 4 * second, Restart: 5 * second}, want: 14_000},
		"a restart of work not started":      {request: Amounts{2, 0, 0, 0}, progress: Progress{Restart: 5 * second}},
		"a restart of eternal length":        {request: Amounts{2, 0, 0, 0}, start: now - 10*second, progress: Progress{Restart: math.MaxInt64}, want: min(maxLoss, 2000*(math.MaxInt64/second))},
	} {
		s.Units = []Unit{{Start: tt.start, Since: tt.since, Membership: &QueueMembership{Queue: tt.queue}, Pods: []Pod{{Node: 0, Request: tt.request, Progress: tt.progress}}}}
		p := &Preemptor{Now: now, Devices: Amounts{1000, 0, 0, 0}, Restart: tt.standard, Step: tt.step, PodCost: tt.podCost}
		if got := newLosses(s, p.Now, settingsOf(s, p)).of(0); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}
