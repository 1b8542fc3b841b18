package core

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// TestWholeSets has units that may be evicted only together.
func TestWholeSets(t *testing.T) {
	twoGangs := func() *build {
		return clusterOf("gpu").node("n1", 8).node("n2", 8).node("n3", 8).node("n4", 8).
			group("a1", 0, 8, []string{"n1", "n2"}, inQueue("a")).
			group("b1", 0, 8, []string{"n3"}, inQueue("b"), startedAt(1)).group("b2", 0, 8, []string{"n4"}, inQueue("b"), startedAt(2))
	}
	lentOut := func() *build {
		return clusterOf("cpu").node("n", 5).
			elasticGang("a1", "a", 2, 0, 1, []string{"n", "n", "n", "n"}, since(10*minute)).pod("c1", "n", 0, 1, inQueue("c"))
	}
	lenders := []fairshare.Queue{queue("a", reclaimAfter(5*minute)), queue("b", quota(4)), queue("c")}
	tests := map[string]struct {
		cluster     *build
		queues      []fairshare.Queue
		preemptor   *Preemptor
		wantOutcome Outcome
		wantVictims map[string]Rule
	}{
		"its own less important work makes room within the fair share of its queue": {
			cluster: twoGangs(), queues: []fairshare.Queue{queue("a", quota(16)), queue("b")},
			preemptor:   with(gangOf(50000, 3, members("w", 3, 0, 8)), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: map[string]Rule{"a1": RuleLowerPriority, "b2": RuleReclaim},
		},
		"but not where its own work is as important": {
			cluster: twoGangs(), queues: []fairshare.Queue{queue("a", quota(16)), queue("b")},
			preemptor: with(gangOf(0, 3, members("w", 3, 0, 8)), ofQueue("a")), wantOutcome: Infeasible,
		},
		"at every level": {
			// org uses its share of 16. So a may reclaim from b only the room that the eviction of
			// a1 frees in org.
			cluster: twoGangs(), queues: []fairshare.Queue{queue("org", quota(16)), queue("a", under("org"), quota(16)), queue("b")},
			preemptor:   with(gangOf(50000, 3, members("w", 3, 0, 8)), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: map[string]Rule{"a1": RuleLowerPriority, "b2": RuleReclaim},
		},
		"quota comes back from queues within their fair share: to a gang": {
			cluster: lentOut(), queues: lenders, preemptor: with(gangOf(0, 3, members("w", 3, 0, 1)), ofQueue("b"), at(11*minute)),
			wantOutcome: Preempts, wantVictims: map[string]Rule{"a1-2": RuleReclaim, "a1-3": RuleReclaim, "c1": RuleReclaim},
		},
		"and to a pod": {
			cluster: lentOut(), queues: lenders, preemptor: with(podOf(0, 3), ofQueue("b"), at(11*minute)),
			wantOutcome: Preempts, wantVictims: map[string]Rule{"a1-2": RuleReclaim, "a1-3": RuleReclaim, "c1": RuleReclaim},
		},
		"what is above its fair share goes first": {
			cluster: lentOut(), queues: lenders, preemptor: with(podOf(0, 1), ofQueue("b"), at(11*minute)),
			wantOutcome: Preempts, wantVictims: map[string]Rule{"a1-3": RuleReclaim},
		},
		"at its queue's limit, more important work takes the place of less important": {
			cluster: clusterOf("gpu").node("n", 8).node("m", 8).pod("low", "n", 1, 4, inQueue("a")).pod("mid", "n", 2, 4, inQueue("a")),
			queues:  []fairshare.Queue{queue("a", limit(8))}, preemptor: with(podOf(3, 4), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: map[string]Rule{"low": RuleLowerPriority},
		},
		"as many as the limit takes": {
			cluster: clusterOf("gpu").node("n", 8).node("m", 8).pod("low", "n", 1, 4, inQueue("a")).pod("mid", "n", 2, 4, inQueue("a")),
			queues:  []fairshare.Queue{queue("a", limit(9))}, preemptor: with(podOf(3, 6), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: map[string]Rule{"low": RuleLowerPriority, "mid": RuleLowerPriority},
		},
		"and a gang that of gangs": {
			cluster: clusterOf("gpu").node("n1", 8).node("n2", 8).node("n3", 8).node("n4", 8).node("n5", 8).
				group("low", 1, 8, []string{"n1", "n2"}, inQueue("a")).group("lower", 0, 8, []string{"n3"}, inQueue("a")),
			queues: []fairshare.Queue{queue("a", limit(24))}, preemptor: with(gangOf(3, 2, members("w", 2, 0, 8)), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: map[string]Rule{"low": RuleLowerPriority},
		},
		"not that of equals": {
			cluster: clusterOf("gpu").node("n", 8).node("m", 8).pod("low", "n", 3, 8, inQueue("a")),
			queues:  []fairshare.Queue{queue("a", limit(8))}, preemptor: with(podOf(3, 4), ofQueue("a")), wantOutcome: Infeasible,
		},
		"nor that of other queues": {
			cluster: clusterOf("gpu").node("n", 8).node("m", 8).pod("low", "n", 1, 4, inQueue("a")).pod("b", "n", 0, 4, inQueue("b")),
			queues:  []fairshare.Queue{queue("a", limit(5)), queue("b")}, preemptor: with(podOf(1, 4), ofQueue("a")), wantOutcome: Infeasible,
		},
		"at the limit of a queue above, what a queue beside it has lent": {
			cluster:     clusterOf("gpu").node("n", 8).node("m", 8).pod("b1", "n", 5, 4, inQueue("b")).pod("b2", "n", 5, 4, inQueue("b"), startedAt(2)),
			queues:      []fairshare.Queue{queue("org", limit(8)), queue("a", under("org")), queue("b", under("org"))},
			preemptor:   with(podOf(1, 4), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: map[string]Rule{"b1": RuleReclaim},
		},
		"system-critical work keeps to the limit, too": {
			cluster: clusterOf("gpu").node("n", 8).node("m", 8).pod("low", "n", 1, 4, inQueue("a")).pod("x", "n", 0, 4),
			queues:  []fairshare.Queue{queue("a", limit(4))}, preemptor: with(podOf(systemCritical, 4), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: map[string]Rule{"low": RuleLowerPriority},
		},
		"what is above its fair share goes first, with some of what is not": {
			// By fair share, one of the seven units of a may be evicted. The preemptor needs the
			// room of this unit and c1 on n1, or of d1 and e1 on n2. Usage above the fair share
			// comes first, so the victims are a1 and c1, although d1 and e1 are less important.
			cluster: clusterOf("cpu").node("n1", 2).node("n2", 2).node("m1", 3).node("m2", 3).node("n4", 1).
				pod("a1", "n1", 1, 1, inQueue("a")).pod("c1", "n1", 0, 1, inQueue("c")).
				group("a2", 9, 1, []string{"m1", "m1", "m1", "m2", "m2", "m2"}, inQueue("a"), func(u *Unit) { u.Static = true }).
				pod("d1", "n2", 0, 1, inQueue("d")).pod("e1", "n2", 0, 1, inQueue("e")),
			queues: []fairshare.Queue{
				queue("a", func(q *fairshare.Queue) { q.Weight = 6 }), queue("b", quota(2)), queue("c"), queue("d"), queue("e"),
			},
			preemptor: with(podOf(0, 2), ofQueue("b")), wantOutcome: Preempts,
			wantVictims: map[string]Rule{"a1": RuleReclaim, "c1": RuleReclaim},
		},
		"a resource that the quota does not name is no matter of it": {
			cluster: clusterOf("cpu", "pods").node("n", 5, 110).
				elasticGang("a1", "a", 2, 0, 1, []string{"n", "n", "n", "n"}, since(10*minute)).podOf("c1", "n", 0, []int64{1, 1}, inQueue("c")),
			queues: lenders, preemptor: with(podOf(0, 3, 1), ofQueue("b"), at(11*minute)), wantOutcome: Preempts,
			wantVictims: map[string]Rule{"a1-2": RuleReclaim, "a1-3": RuleReclaim, "c1": RuleReclaim},
		},
		"beyond the quota, the fair share of others is theirs": {
			cluster: lentOut(), queues: []fairshare.Queue{queue("a", reclaimAfter(5*minute)), queue("b", quota(2)), queue("c")},
			preemptor: with(podOf(0, 3), ofQueue("b"), at(11*minute)), wantOutcome: Infeasible,
		},
		"and so is what they have within their quota": {
			cluster: lentOut(), queues: []fairshare.Queue{queue("a", reclaimAfter(5*minute)), queue("b", quota(4)), queue("c", quota(1))},
			preemptor: with(podOf(0, 3), ofQueue("b"), at(11*minute)), wantOutcome: Infeasible,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := mustDecide(t, tt.cluster.queues(tt.queues...).shared(tt.preemptor), tt.preemptor, nil)
			var got map[string]Rule
			for i := range d.Victims {
				if got == nil {
					got = make(map[string]Rule)
				}
				got[d.Victims[i].Name] = d.Victims[i].Rule
			}
			if diff := cmp.Diff(tt.wantVictims, got); diff != "" || d.Outcome != tt.wantOutcome {
				t.Errorf("%s (%s), want %s; victims (-want +got):\n%s", d.Outcome, d.Message, tt.wantOutcome, diff)
			}
		})
	}
}

// TestManyAtTheLimit has a queue at its limit. A preemptor of this queue must evict only as many of
// the queue's pods as it needs, the least important first. The number of pods, a budget and the
// rules of an Oracle must not change this.
func TestManyAtTheLimit(t *testing.T) {
	t.Parallel()
	cluster := func(own, others, elsewhere int, opts func(node int) []unitOption) *build {
		c := clusterOf("gpu").budget(0)
		for n := range 400 {
			name := fmt.Sprint("n", n)
			c.node(name, 8)
			for i := range own {
				all := append([]unitOption{inQueue("a"), startedAt(int64(n))}, opts(n)...)
				c.pod(fmt.Sprint("own-", n, "-", i), name, int32(1+i), 1, all...)
			}
			for i := range others {
				c.pod(fmt.Sprint("other-", n, "-", i), name, 0, 0)
			}
		}
		for n := range elsewhere {
			name := fmt.Sprint("other", n)
			c.node(name, 8).pod("on-"+name, name, 0, 8)
		}
		return c.queues(queue("a", limit(int64(400*own))))
	}
	tests := map[string]struct {
		own, others, elsewhere int
		budgeted               bool
		preemptor              *Preemptor
		minds                  bool
		// wantVictims is the expected number of victims. wantHighest is the maximum priority of a
		// victim.
		wantVictims int
		wantHighest int32
		wantOutcome Outcome
	}{
		"a pod that minds others":               {own: 1, preemptor: podOf(9, 1), minds: true, wantVictims: 1, wantHighest: 1, wantOutcome: Preempts},
		"one that minds nothing, among many":    {own: 4, others: 130, preemptor: podOf(9, 1), wantVictims: 1, wantHighest: 1, wantOutcome: Preempts},
		"one that is as large as several":       {own: 2, preemptor: podOf(9, 3), minds: true, wantVictims: 3, wantHighest: 1, wantOutcome: Preempts},
		"a gang of a driver and workers":        {own: 2, preemptor: gangOf(9, 3, members("d", 1, 0, 2), members("w", 2, 1, 3)), wantVictims: 8, wantHighest: 1, wantOutcome: Preempts},
		"a gang of hundreds, of one class":      {own: 4, others: 130, preemptor: gangOf(9, 128, members("w", 128, 0, 1)), wantVictims: 128, wantHighest: 1, wantOutcome: Preempts},
		"none that a budget keeps":              {own: 1, budgeted: true, preemptor: podOf(9, 1), minds: true, wantVictims: 1, wantHighest: 1, wantOutcome: Preempts},
		"one that needs a node of its own":      {own: 7, elsewhere: 50, preemptor: podOf(9, 8), minds: true, wantVictims: 8, wantHighest: 7, wantOutcome: Preempts},
		"but none where all are more important": {own: 1, preemptor: podOf(1, 1), minds: true, wantOutcome: Infeasible},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := with(tt.preemptor, ofQueue("a"))
			var o Oracle
			if tt.minds {
				o = &hostSpread{placed: make(map[int]int)}
			}
			opts := func(node int) []unitOption {
				if tt.budgeted && (node == 0 || node >= 390) {
					return []unitOption{withBudget(0)}
				}
				return nil
			}
			d := mustDecide(t, cluster(tt.own, tt.others, tt.elsewhere, opts).shared(p), p, o)
			if d.Outcome != tt.wantOutcome || len(d.Victims) != tt.wantVictims {
				t.Fatalf("%s (%s) with %d victims, want %s with %d", d.Outcome, d.Message, len(d.Victims), tt.wantOutcome, tt.wantVictims)
			}
			for i := range d.Victims {
				if v := &d.Victims[i]; v.Rule != RuleLowerPriority || v.Priority > tt.wantHighest {
					t.Errorf("%s of priority %d goes by %s", v.Name, v.Priority, v.Rule)
				}
			}
			if d.Score != nil && d.Score.BrokenBudgets > 0 {
				t.Error("a budget is broken for nothing")
			}
		})
	}
}

// settle places jobs, except the job waits, up to a maximum number of units.
func (c *contention) settle(pick chooser, waits *job, most int) {
	free := make([]Amounts, c.nodes)
	for n := range free {
		free[n] = slices.Clone(c.size)
	}
	units := 0
	for _, j := range c.jobs {
		j.request[0] = max(j.request[0], 1)
		count := j.members
		if j.whole {
			count = 1
		}
		if j == waits || units+count > most {
			continue
		}
		var nodes []int
		for range j.members {
			if n := pick(c.nodes); fits(j.request, free[n]) {
				nodes = append(nodes, n)
				for r, v := range j.request {
					free[n][r] -= v
				}
			}
		}
		if j.nodes = nodes; len(nodes) > 0 {
			units += count
		}
	}
}

// anySet returns a set of units that may be evicted and makes enough room, by trying all sets.
func anySet(s *Snapshot, p *Preemptor) ([]int, bool) {
	for bits := 1; bits < 1<<len(s.Units); bits++ {
		var set []int
		for u := range s.Units {
			if bits&(1<<u) != 0 {
				set = append(set, u)
			}
		}
		if refForbids(s, p, set) == "" && refMakesRoom(s, p, set) {
			return set, true
		}
	}
	return nil, false
}

// TestEverySetOfUnits compares decisions with all sets of units, in trees with quotas, weights,
// priorities and several levels. If an allowed set makes enough room, the decision must have
// victims. The victims must be such a set.
func TestEverySetOfUnits(t *testing.T) {
	ways, together := 0, 0
	for seed := range 10 * uint64(*optimalityCases) {
		pick := fromRand(seed)
		c := randomContention(pick)
		waits := c.jobs[pick(len(c.jobs))]
		c.settle(pick, waits, 10)
		s, p := c.snapshot(), c.preemptor(waits)
		if pick(2) == 0 {
			p = podOf(waits.priority, waits.request...)
			p.Queue = waits.leaf
		}
		d := mustDecide(t, s, p, nil)
		if d.Outcome != Preempts && d.Outcome != Infeasible {
			continue
		}
		set, ok := anySet(s, p)
		if ok != (d.Outcome == Preempts) {
			t.Errorf("seed %d: %s, and of all sets %v may be taken", seed, d.Message, set)
		}
		if d.Outcome != Preempts {
			continue
		}
		ways++
		if err := checkElsewhere(s, &d); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		rules := make(map[Rule]bool)
		set = set[:0]
		for i := range d.Victims {
			rules[d.Victims[i].Rule] = true
			set = append(set, slices.IndexFunc(s.Units, func(u Unit) bool { return u.UID == d.Victims[i].UID }))
		}
		if why := refForbids(s, p, set); why != "" || !refMakesRoom(s, p, set) {
			t.Errorf("seed %d: %s; %s", seed, d.Message, why)
		}
		if len(rules) > 1 {
			together++
		}
	}
	t.Logf("%d ways, %d of them by two rules", ways, together)
	if ways == 0 || together == 0 {
		t.Errorf("%d ways, %d of them by two rules, want some", ways, together)
	}
}
