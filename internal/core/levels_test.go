package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const zoneKey = "topology.kubernetes.io/zone"

// inLevels makes a gang prefer racks, and sometimes zones as the farther level. Sometimes the gang
// requires a zone instead. A rack may be in several zones.
func inLevels(pick chooser, s *Snapshot, p *Preemptor) *Preemptor {
	q := *p
	racks, zones := make([]string, len(s.Nodes)), make([]string, len(s.Nodes))
	for n := range s.Nodes {
		racks[n] = []string{"", "r1", "r1", "r2", "r2", "r3"}[pick(6)]
		zones[n] = []string{"", "z1", "z1", "z2", "z2"}[pick(5)]
	}
	q.Preferred = []TopologyLevel{{Key: rackKey, Of: racks}}
	switch pick(3) {
	case 0:
		q.Preferred = append(q.Preferred, TopologyLevel{Key: zoneKey, Of: zones})
	case 1:
		q.Domain = &TopologyLevel{Key: zoneKey, Of: zones}
	}
	if pick(2) == 0 {
		q.LevelRule = NearerLevel
	}
	return &q
}

// withHomes sets the Homes of a gang as if some members already had a node.
func withHomes(pick chooser, p *Preemptor, nodes int) {
	of := func(names []string, at []int) (homes []string) {
		for _, n := range at {
			homes = append(homes, names[n])
		}
		slices.Sort(homes)
		return slices.Compact(homes)
	}
	at := []int{pick(nodes), pick(nodes)}
	for i := range p.Preferred {
		p.Preferred[i].Homes = of(p.Preferred[i].Of, at)
	}
	if p.Domain != nil {
		p.Domain.Homes = of(p.Domain.Of, at[:1])
	}
}

// refLevel is a level of the reference. domains maps the name of a domain to its nodes. key is ""
// for the last level, which has no preference.
type refLevel struct {
	key     string
	domains map[string][]int
}

// refLevels returns the levels of a gang, the nearest first.
func refLevels(s *Snapshot, p *Preemptor) []refLevel {
	allowed := func(n int) bool { return p.Domain == nil || p.Domain.mayUse(p.Domain.Of[n]) }
	var levels []refLevel
	for _, l := range p.Preferred {
		level := refLevel{key: l.Key, domains: map[string][]int{}}
		for _, n := range refNodes(s) {
			if l.Of[n] == "" || !allowed(n) || len(l.Homes) > 0 && !slices.Contains(l.Homes, l.Of[n]) {
				continue
			}
			name := l.Of[n]
			for o := range s.Nodes {
				if p.Domain != nil && allowed(o) && l.Of[o] == name && p.Domain.Of[o] != p.Domain.Of[n] {
					name = p.Domain.Of[n] + "/" + l.Of[n]
				}
			}
			level.domains[name] = append(level.domains[name], n)
		}
		levels = append(levels, level)
	}
	last := refLevel{domains: map[string][]int{}}
	for _, n := range refNodes(s) {
		switch {
		case p.Domain == nil:
			last.domains["all"] = append(last.domains["all"], n)
		case allowed(n):
			last.domains[p.Domain.Of[n]] = append(last.domains[p.Domain.Of[n]], n)
		}
	}
	return append(levels, last)
}

// refOutcome is the best outcome in the domains of a level.
type refOutcome struct {
	outcome Outcome
	score   Score
	name    string
	// fit is the number of members that fit in the domain. places is its number of free places, and
	// nodes its number of nodes.
	fit, places, nodes int
}

// refBest returns the best outcome in the domains of a level, by exhaustive search.
func refBest(s *Snapshot, p *Preemptor, l refLevel) refOutcome {
	now, later := make([][]int64, len(s.Nodes)), refRoom(s, nil)
	for i := range s.Nodes {
		now[i] = slices.Clone(s.Nodes[i].Free)
	}
	best := refOutcome{outcome: Infeasible}
	for name, nodes := range l.domains {
		sc, ok := exhaustiveIn(s, p, refCounts(p), [][]int{nodes})
		if !ok {
			continue
		}
		one, room := refOutcome{outcome: Preempts, score: sc, name: name}, later
		if sc == noVictims() {
			one.outcome = Waits
		}
		if refFeasibleIn(p, now, nodes) {
			one.outcome, room = Fits, now
		}
		one.places, one.nodes = refPlaces(p, room, nodes), len(nodes)
		if one.outcome == Fits {
			one.fit = min(one.places, len(p.Classes[0].Members))
		}
		if cmp.Or(cmp.Compare(refOrder(one.outcome), refOrder(best.outcome)), better(one.score, best.score),
			cmp.Compare(best.fit, one.fit), cmp.Compare(one.places, best.places), cmp.Compare(best.nodes, one.nodes),
			strings.Compare(one.name, best.name)) < 0 {
			best = one
		}
	}
	return best
}

func refOrder(o Outcome) int {
	return map[Outcome]int{Fits: 0, Waits: 1, Preempts: 2, Infeasible: 3}[o]
}

// refChoose returns the index of the level that the rule selects. all has the outcomes of the
// levels, the nearest first.
func refChoose(rule LevelRule, all []refOutcome) int {
	chosen := len(all) - 1
	for i, one := range slices.Backward(all) {
		if one.outcome == Infeasible {
			continue
		}
		a, b := one.score, all[chosen].score
		a.EarliestStart, b.EarliestStart = 0, 0
		a.Repeated, b.Repeated = 0, 0
		if rule == NearerLevel || cmp.Or(cmp.Compare(refOrder(one.outcome), refOrder(all[chosen].outcome)), better(a, b)) <= 0 {
			chosen = i
		}
	}
	return chosen
}

// TestLevelsAgainstBruteForce compares decisions with an exhaustive search in each domain of each
// level. The gangs have one class and depend only on room, so the decisions must be optimal.
func TestLevelsAgainstBruteForce(t *testing.T) {
	shape := randomShape{nodes: 5, units: 7, members: 4, classes: 1, gang: true, leaving: true}
	counts := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		shape := shape
		shape.full, shape.flat = rapid.Bool().Draw(t, "full"), rapid.Bool().Draw(t, "flat")
		tryLevels(t, fromRapid(t), shape, counts)
		seed := rapid.Uint64().Draw(t, "seed")
		for i := range uint64(20) {
			tryLevels(t, fromRand(seed+i), shape, counts)
		}
	})
	for _, want := range []string{"Fits " + rackKey, "Preempts " + rackKey, "Preempts " + zoneKey, "Preempts "} {
		if counts[want] == 0 {
			t.Errorf("no case ends with %q: %v", want, counts)
		}
	}
}

// tryLevels compares the decision on a random case with the reference. It increments the entry of
// the outcome in counts.
func tryLevels(t *rapid.T, pick chooser, shape randomShape, counts map[string]int) {
	s, p := randomCase(pick, shape)
	p = inLevels(pick, s, p)
	if pick(3) == 0 {
		withHomes(pick, p, len(s.Nodes))
	}
	d := decideOrFail(t, s, p, nil)
	checkSound(t, s, p, &d)
	if p.Domain != nil && d.Domain != nil && d.Domain.Obstacle != "" || len(d.Levels) > 0 && d.Levels[0].Obstacle != "" {
		return
	}
	levels := refLevels(s, p)
	all := make([]refOutcome, len(levels))
	for i := range levels {
		all[i] = refBest(s, p, levels[i])
	}
	at := refChoose(p.LevelRule, all)
	counts[string(d.Outcome)+" "+levels[at].key]++
	checkLevels(t, s, p, &d, levels[at], all[at])
}

// checkLevels compares a decision with the outcome of the level that the reference selects.
func checkLevels(t *rapid.T, s *Snapshot, p *Preemptor, d *Decision, level refLevel, want refOutcome) {
	if d.Outcome != want.outcome {
		t.Fatalf("%s, want %s at %q in %q: %s", d.Outcome, want.outcome, level.key, want.name, d.Message)
	}
	if len(d.Levels) != len(p.Preferred) || d.Preemptor.Domain != p.Domain {
		t.Fatalf("%d levels for %d, and the domain %+v", len(d.Levels), len(p.Preferred), d.Preemptor.Domain)
	}
	if d.Outcome == Infeasible {
		return
	}
	for _, pl := range d.Placements {
		n := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == pl.Node })
		if !slices.Contains(level.domains[want.name], n) {
			t.Fatalf("member %s is on %s, which is not in %q of %q: %s", pl.Member, pl.Node, want.name, level.key, d.Message)
		}
	}
	if d.Outcome == Preempts && better(*d.Score, want.score) != 0 {
		t.Fatalf("the score is %+v, want %+v", *d.Score, want.score)
	}
}

// TestLevelsWithOracle checks that the placements of a gang with levels pass the rules of an
// Oracle.
func TestLevelsWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		s, p := randomCase(pick, gangShape)
		p = inLevels(pick, s, p)
		w := randomWorld(pick, s, p, rapid.Bool().Draw(t, "spread"))
		d := decideOrFail(t, s, p, w)
		if len(w.problems) > 0 || !w.restored() {
			t.Fatalf("the oracle's state is wrong: %v", w.problems)
		}
		checkSound(t, s, p, &d)
		if d.Outcome != Infeasible {
			checkOrder(t, w, &d)
		}
	})
}

// TestLevelRule checks the choice between levels, and the messages about it.
func TestLevelRule(t *testing.T) {
	racks := []string{"a", "a", "b", "b", ""}
	nodes := func() *build {
		return clusterOf("gpu").node("a1", 8).node("a2", 8).node("b1", 8).node("b2", 8).node("x1", 8)
	}
	full := func() *build {
		return nodes().pod("p-a1", "a1", 5, 8).pod("p-a2", "a2", 5, 8).pod("p-b1", "b1", 1, 8).pod("p-b2", "b2", 6, 8).pod("p-x1", "x1", 1, 8)
	}
	tests := map[string]struct {
		cluster     *build
		members     int
		levels      []TopologyLevel
		required    []string
		homes       []string
		rule        LevelRule
		wantOutcome Outcome
		wantName    string
		wantVictims []string
		wantMessage string
	}{
		"a lower cost precedes the rack": {
			cluster: full(), members: 2, wantOutcome: Preempts, wantVictims: []string{"p-b1", "p-x1"},
			wantMessage: "gang of 2 fits on 2 nodes once 2 pods are gone; example.com/rack a would have cost 2 pods, of priorities up to 5",
		},
		"the rack precedes a lower cost": {
			cluster: full(), members: 2, rule: NearerLevel, wantOutcome: Preempts, wantName: "a", wantVictims: []string{"p-a1", "p-a2"},
			wantMessage: "gang of 2 fits on 2 nodes with example.com/rack=a once 2 pods are gone; in b it would be at least 2 pods, one of priority 6 or more",
		},
		"the rack costs nothing more": {
			cluster: nodes().pod("p-a1", "a1", 5, 8).pod("p-a2", "a2", 5, 8).pod("p-b1", "b1", 5, 8).pod("p-b2", "b2", 5, 8).pod("p-x1", "x1", 5, 8),
			members: 2, wantOutcome: Preempts, wantName: "a", wantVictims: []string{"p-a1", "p-a2"},
			wantMessage: "gang of 2 fits on 2 nodes with example.com/rack=a once 2 pods are gone; in b it would be at least 2 pods, one of priority 5 or more",
		},
		"the rack costs a pod more": {
			cluster: nodes().pod("p-a1", "a1", 5, 4).pod("p-a3", "a1", 5, 4).pod("p-a2", "a2", 5, 8).pod("p-b1", "b1", 5, 4).pod("p-b3", "b1", 5, 4).
				pod("p-b2", "b2", 5, 4).pod("p-b4", "b2", 5, 4).pod("p-x1", "x1", 5, 8),
			members: 2, wantOutcome: Preempts, wantVictims: []string{"p-a2", "p-x1"},
			wantMessage: "gang of 2 fits on 2 nodes once 2 pods are gone; example.com/rack a would have cost 1 pod more",
		},
		"free room elsewhere precedes the rack": {
			cluster: nodes().pod("p-a1", "a1", 5, 8).pod("p-b1", "b1", 1, 8).pod("p-x1", "x1", 5, 8), members: 2,
			wantOutcome: Fits,
			wantMessage: "gang of 2 fits on 2 nodes; example.com/rack a has room for 1 of 2 now, the most of its level",
		},
		"the rack precedes free room elsewhere": {
			cluster: nodes().pod("p-a1", "a1", 5, 8).pod("p-b1", "b1", 1, 8).pod("p-x1", "x1", 5, 8), members: 2, rule: NearerLevel,
			wantOutcome: Preempts, wantName: "b", wantVictims: []string{"p-b1"},
			wantMessage: "gang of 2 fits on 2 nodes with example.com/rack=b once 1 pod is gone; in a it would be at least 1 pod, one of priority 5 or more",
		},
		"no rack can hold the gang": {
			cluster: nodes(), members: 3, wantOutcome: Fits,
			wantMessage: "gang of 3 fits on 3 nodes; example.com/rack a has room for 2 of 3 now, the most of its level",
		},
		"no rack can hold the gang at any cost": {
			cluster: full(), members: 3, rule: NearerLevel, wantOutcome: Preempts, wantVictims: []string{"p-a1", "p-b1", "p-x1"},
			wantMessage: "gang of 3 fits on 3 nodes once 3 pods are gone; example.com/rack a has room for 2 of 3 after preemption, the most of its level",
		},
		"the second level": {
			cluster: nodes(), members: 3, wantOutcome: Fits, wantName: "k",
			levels:      []TopologyLevel{{Key: rackKey, Of: racks}, {Key: "example.com/block", Of: []string{"k", "k", "k", "k", "l"}}},
			wantMessage: "gang of 3 fits on 3 nodes with example.com/block=k; example.com/rack a has room for 2 of 3 now, the most of its level",
		},
		"the rack of the other members": {
			cluster: nodes().pod("p-a1", "a1", 20, 8), members: 1, homes: []string{"b"}, wantOutcome: Fits, wantName: "b",
			wantMessage: "gang of 1 fits on b1 with example.com/rack=b",
		},
		"one of the racks of the other members": {
			cluster: nodes().pod("p-a1", "a1", 20, 8), members: 1, homes: []string{"", "a", "b"}, wantOutcome: Fits,
			wantMessage: "gang of 1 fits on a2 with example.com/rack=a",
		},
		"the rack of the other members is full": {
			cluster: nodes().pod("p-a1", "a1", 5, 8).pod("p-a2", "a2", 5, 8), members: 1, homes: []string{"a"}, wantOutcome: Fits, wantName: "",
			wantMessage: "gang of 1 fits on b1; example.com/rack a has room for 0 of 1 now, the most of its level",
		},
		"a rack inside of the required zone": {
			cluster: nodes(), members: 2, required: []string{"y", "z", "z", "z", "z"}, wantOutcome: Fits, wantName: "b",
			wantMessage: "gang of 2 fits on 2 nodes with example.com/rack=b",
		},
		"a key that no node has": {
			cluster: full(), members: 1, levels: []TopologyLevel{{Key: rackKey, Of: make([]string, 5)}}, wantOutcome: Infeasible,
			wantMessage: "the members prefer one value of the node label example.com/rack, and no node has one",
		},
		"a key that no node has any more": {
			cluster: nodes(), members: 1, levels: []TopologyLevel{{Key: rackKey, Of: make([]string, 5), Homes: []string{""}}}, wantOutcome: Fits,
			wantMessage: "gang of 1 fits on a1",
		},
		"a level above the required one has no effect": {
			cluster: nodes(), members: 2, required: []string{"u", "v", "w", "w", ""}, wantOutcome: Fits, wantName: "b",
			wantMessage: "gang of 2 fits on 2 nodes with example.com/rack=b",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := gangOf(10, tt.members, members("m", tt.members, 0, 8))
			p.LevelRule, p.Preferred = tt.rule, tt.levels
			if p.Preferred == nil {
				p.Preferred = []TopologyLevel{{Key: rackKey, Of: racks, Homes: tt.homes}}
			}
			if tt.required != nil {
				p.Domain = &TopologyLevel{Key: zoneKey, Of: tt.required}
			}
			d, err := Decide(tt.cluster.snapshot(), p, nil)
			if err != nil {
				t.Fatal(err)
			}
			var victims []string
			for _, v := range d.Victims {
				victims = append(victims, v.Name)
			}
			slices.Sort(victims)
			together := ""
			if i := slices.IndexFunc(d.Levels, func(c LevelChoice) bool { return c.Together }); i >= 0 {
				together = d.Levels[i].Name
			}
			if d.Outcome != tt.wantOutcome || !slices.Equal(victims, tt.wantVictims) {
				t.Errorf("%s with victims %v, want %s with %v", d.Outcome, victims, tt.wantOutcome, tt.wantVictims)
			}
			if tt.wantName != "" && together != tt.wantName {
				t.Errorf("the members share %q, want %q: %+v", together, tt.wantName, d.Levels)
			}
			if d.Message != tt.wantMessage {
				t.Errorf("message:\n%s\nwant:\n%s", d.Message, tt.wantMessage)
			}
		})
	}
}

// TestLevelsOfBadInput checks the errors for invalid levels.
func TestLevelsOfBadInput(t *testing.T) {
	level := func(key string) TopologyLevel { return TopologyLevel{Key: key, Of: []string{"r"}} }
	for name, tt := range map[string]struct {
		p         *Preemptor
		preferred []TopologyLevel
		required  string
		rule      LevelRule
		want      string
	}{
		"a pod":              {p: podOf(1, 1), preferred: []TopologyLevel{level(rackKey)}, want: "only gangs"},
		"no key":             {preferred: []TopologyLevel{level("")}, want: `label ""`},
		"a node is missing":  {preferred: []TopologyLevel{{Key: rackKey}}, want: "0 of 1 nodes"},
		"a key twice":        {preferred: []TopologyLevel{level(rackKey), level(rackKey)}, want: "twice"},
		"the required key":   {preferred: []TopologyLevel{level(rackKey)}, required: rackKey, want: "twice"},
		"a rule not defined": {preferred: []TopologyLevel{level(rackKey)}, rule: "Best", want: `"Best"`},
	} {
		p := tt.p
		if p == nil {
			p = gangOf(1, 1, members("m", 1, 0, 1))
		}
		if p.Preferred, p.LevelRule = tt.preferred, tt.rule; tt.required != "" {
			p.Domain = &TopologyLevel{Key: tt.required, Of: []string{"r"}}
		}
		if _, err := Decide(clusterOf("gpu").node("a", 8).snapshot(), p, nil); !errors.Is(err, ErrBadInput) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want ErrBadInput with %q", name, err, tt.want)
		}
	}
}

// TestCascadeOfLevels checks levels whose outcomes cost the same. With CascadeDecide, the outcome
// whose replacements evict fewer pods is better.
func TestCascadeOfLevels(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mode        CascadeMode
		rule        LevelRule
		lowest      int32
		wantVictims []string
		wantMessage string
	}{
		"they are measured":     {mode: CascadeMeasure, wantVictims: []string{"a1", "b1"}},
		"they decide":           {mode: CascadeDecide, wantVictims: []string{"c1", "d1"}, wantMessage: "; example.com/rack x would have cost 2 evictions by replacements more"},
		"the level precedes":    {mode: CascadeDecide, rule: NearerLevel, wantVictims: []string{"a1", "b1"}},
		"no replacement evicts": {mode: CascadeDecide, lowest: 5, wantVictims: []string{"a1", "b1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).node("d", 8).node("e", 7).node("f", 7).
				pod("a1", "a", 5, 6, startedAt(5)).pod("b1", "b", 5, 6, startedAt(5)).pod("c1", "c", 5, 3, startedAt(9)).pod("d1", "d", 5, 3, startedAt(9)).
				pod("e1", "e", tt.lowest, 4).pod("f1", "f", tt.lowest, 4).snapshot()
			p := gangOf(10, 2, members("w", 2, 0, 8))
			p.Preferred = []TopologyLevel{{Key: rackKey, Of: []string{"x", "x", "", "", "", ""}}}
			p.Cascade, p.LevelRule = tt.mode, tt.rule
			d := mustDecide(t, s, p, replacing{})
			if got := victimNames(&d); !slices.Equal(got, tt.wantVictims) {
				t.Errorf("%v, want %v: %s", got, tt.wantVictims, d.Message)
			}
			if !strings.HasSuffix(d.Message, tt.wantMessage) {
				t.Errorf("%q, want the end %q", d.Message, tt.wantMessage)
			}
		})
	}
}

// askedOnce is an Oracle that counts the calls of Admits by node.
type askedOnce struct {
	Arithmetic
	asked map[int]int
}

func (o askedOnce) Admits(_, node int) string {
	o.asked[node]++
	return ""
}

// TestLevelsShareTheirAnswers checks that Admits is called only once per class and node, for all
// levels together.
func TestLevelsShareTheirAnswers(t *testing.T) {
	t.Parallel()
	s := clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).
		pod("p-a", "a", 5, 8).pod("p-b", "b", 5, 8).pod("p-c", "c", 5, 8).snapshot()
	p := gangOf(10, 2, members("m", 2, 0, 8))
	p.Preferred = []TopologyLevel{
		{Key: rackKey, Of: []string{"r", "r", "s"}}, {Key: "example.com/block", Of: []string{"k", "k", "k"}},
	}
	p.Domain = &TopologyLevel{Key: zoneKey, Of: []string{"z", "z", "z"}}
	o := askedOnce{asked: make(map[int]int)}
	if d := mustDecide(t, s, p, o); d.Outcome != Preempts {
		t.Fatal(d.Message)
	}
	if len(o.asked) == 0 {
		t.Error("Admits is not asked")
	}
	for node, times := range o.asked {
		if times > 1 {
			t.Errorf("Admits is asked %d times about node %s", times, s.Nodes[node].Name)
		}
	}
}

// TestRoomOfDomains checks the numbers of members that fit in each domain, and the reported units
// in the way.
func TestRoomOfDomains(t *testing.T) {
	b := clusterOf("gpu").node("a1", 8).node("a2", 8).node("b1", 8).node("b2", 8)
	b.pod("p-a1", "a1", 5, 8).pod("p-b1", "b1", 20, 8).pod("p-b2", "b2", 30, 4)
	p := gangOf(10, 3, members("m", 3, 0, 8))
	p.Domain = &TopologyLevel{Key: rackKey, Of: []string{"a", "a", "b", "b"}}
	d, err := Decide(b.snapshot(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []OtherDomain{
		{Name: "a", Members: 2, Now: 1},
		{Name: "b", InTheWay: []RuleCount{{Rule: RuleNotLowerPriority, Units: 2}}},
	}
	if d.Domain == nil || !slices.EqualFunc(d.Domain.Others, want, func(a, b OtherDomain) bool {
		return a.Name == b.Name && a.Members == b.Members && a.Now == b.Now && slices.Equal(a.InTheWay, b.InTheWay)
	}) {
		t.Errorf("%+v, want the domains %+v", d.Domain, want)
	}
}

// BenchmarkLevels decides for a gang of 64 that prefers racks, in full clusters of 5,000 nodes.
func BenchmarkLevels(b *testing.B) {
	for _, perRack := range []int{8, 32} {
		b.Run(fmt.Sprintf("%d nodes each", perRack), func(b *testing.B) {
			s, p := rackCase(5000, perRack, false)
			p.Preferred, p.Domain = []TopologyLevel{{Key: rackKey, Of: p.Domain.Of}}, nil
			for b.Loop() {
				d, err := Decide(s, p, nil)
				if err != nil || d.Outcome != Preempts {
					b.Fatal(d.Outcome, err)
				}
			}
		})
	}
}

// TestLevelDifference checks the message about a level that costs more than the chosen level. The
// message must name the first criterion that differs.
func TestLevelDifference(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		level, chosen Score
		want          string
	}{
		"higher priorities": {Score{PrioritySum: 9}, Score{PrioritySum: 8}, "2 pods of higher priorities"},
		"less surplus":      {Score{Surplus: 1}, Score{Surplus: 2}, "1 pod more that its gang needs"},
		"another queue":     {Score{}, Score{}, "2 pods of another rule, queue or start"},
	} {
		victims := []Victim{{Pods: make([]VictimPod, 2)}}
		level := &LevelChoice{Score: &c.level, Pods: 2}
		if got := level.difference(&Decision{Score: &c.chosen, Victims: victims}); got != c.want {
			t.Errorf("%s: the difference is %q, want %q", name, got, c.want)
		}
	}
}
