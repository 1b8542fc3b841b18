package core

import (
	"slices"
	"testing"
)

// roomUnderBounds reports whether taking some units of one node makes room for a single pod, where each of them may be
// taken, and all of them together: one set after the other is tried.
func roomUnderBounds(s *Snapshot, p *Preemptor) bool {
	v := newView(s, p, Arithmetic{})
	c := newContest(v)
	for n := range s.Nodes {
		var may []int32
		for u := range s.Units {
			if s.Units[u].firstNode() == int32(n) && c.judge(int32(u)).Eligible {
				may = append(may, int32(u))
			}
		}
		for set := 1; set < 1<<len(may); set++ {
			room := slices.Clone(v.freeLater(int32(n)))
			var taken []int32
			for i, u := range may {
				if set&(1<<i) != 0 {
					taken = append(taken, u)
					addTo(room, s.Units[u].Pods[0].Request)
				}
			}
			if _, ok := c.ledger().within(taken); ok && fits(p.Classes[0].Request, room) {
				return true
			}
		}
	}
	return false
}

// settle puts every job but one where there is room for it, a pod each.
func (c *contention) settle(pick chooser, waits *job) {
	free := make([]Amounts, c.nodes)
	for n := range free {
		free[n] = slices.Clone(c.size)
	}
	for _, j := range c.jobs {
		j.members, j.whole = 1, false
		j.request[0] = max(j.request[0], 1)
		if n := pick(c.nodes); j != waits && fits(j.request, free[n]) {
			j.nodes = []int{n}
			for r, v := range j.request {
				free[n][r] -= v
			}
		}
	}
}

// TestRoomUnderBounds compares the search of a pod under quotas and shares with all sets of victims on one node.
func TestRoomUnderBounds(t *testing.T) {
	possible, missed := 0, 0
	for seed := range 10 * uint64(*optimalityCases) {
		pick := fromRand(seed)
		c := randomContention(pick)
		waits := c.jobs[pick(len(c.jobs))]
		c.settle(pick, waits)
		s := c.snapshot()
		p := podOf(waits.priority, waits.request...)
		p.Queue = waits.leaf
		d := mustDecide(t, s, p, nil)
		if d.Outcome != Preempts && d.Outcome != Infeasible {
			continue
		}
		room := roomUnderBounds(s, p)
		switch {
		case room && d.Outcome == Infeasible:
			missed++
			t.Logf("seed %d: %s", seed, d.Message)
		case !room && d.Outcome == Preempts:
			t.Errorf("seed %d: %s, and no set of victims may be taken", seed, d.Message)
		}
		if room {
			possible++
		}
	}
	t.Logf("%d missed of %d", missed, possible)
	if possible == 0 || missed*100 > possible {
		t.Errorf("%d missed of %d, want 1 %% at most", missed, possible)
	}
}
