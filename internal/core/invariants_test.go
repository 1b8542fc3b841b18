package core

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var (
	podShape   = randomShape{nodes: 5, units: 14, groups: true, budgets: true, leaving: true}
	gangShape  = randomShape{nodes: 5, units: 14, members: 6, classes: 1, gang: true, groups: true, budgets: true, leaving: true}
	mixedShape = randomShape{nodes: 4, units: 10, members: 3, classes: 3, gang: true, groups: true, budgets: true, leaving: true, roles: true}
	// bareShape has no budgets and no groups. For such a gang, counting members gives an optimal
	// decision.
	bareShape = randomShape{nodes: 5, units: 14, members: 6, classes: 1, gang: true, leaving: true}
	// besideShape has running gangs whose members are preempted one by one.
	besideShape = randomShape{nodes: 5, units: 14, full: true, members: 6, classes: 1, gang: true, groups: true, gangs: true, gangRoles: true, leaving: true}
	calmShape   = randomShape{nodes: 4, units: 12, members: 4, classes: 2, gang: true, groups: true, budgets: true, leaving: true, tolerations: true, static: true}
)

func drawShape(t *rapid.T) randomShape {
	return rapid.SampledFrom([]randomShape{podShape, gangShape, bareShape, mixedShape, calmShape, besideShape}).Draw(t, "shape")
}

func toJSON(t *rapid.T, d *Decision) string {
	raw, err := json.Marshal(d)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	return string(raw)
}

func decideOrFail(t *rapid.T, s *Snapshot, p *Preemptor, o Oracle) Decision {
	d, err := Decide(s, p, o)
	if err != nil {
		t.Fatalf("Decide: %v", err)
	}
	return d
}

// victimUnits returns the indexes of a decision's victims in the snapshot.
func victimUnits(t *rapid.T, s *Snapshot, d *Decision) []int {
	var units []int
	for i := range d.Victims {
		u := slices.IndexFunc(s.Units, func(u Unit) bool { return u.UID == d.Victims[i].UID })
		if u < 0 {
			t.Fatalf("victim %s is no unit", d.Victims[i].Name)
		}
		units = append(units, u)
	}
	return units
}

// checkSound checks the invariants of a decision.
func checkSound(t *rapid.T, s *Snapshot, p *Preemptor, d *Decision) {
	if d.Outcome == Infeasible {
		if len(d.Placements)+len(d.Victims) > 0 {
			t.Fatalf("infeasible, but with placements or victims")
		}
		return
	}
	gone := map[int]bool{}
	for i, u := range victimUnits(t, s, d) {
		if !judgeAlone(p, &s.Units[u]).Eligible {
			t.Fatalf("victim %s is not eligible", s.Units[u].Name)
		}
		if len(d.Victims[i].Pods) != len(s.Units[u].Pods) {
			t.Fatalf("victim %s is split: %d of %d pods", s.Units[u].Name, len(d.Victims[i].Pods), len(s.Units[u].Pods))
		}
		gone[u] = true
	}
	set := slices.Collect(maps.Keys(gone))
	var broken []string
	for _, g := range d.BrokenGangs {
		broken = append(broken, g.UID)
	}
	slices.Sort(broken)
	if want := refBroken(s, set); !slices.Equal(broken, want) || d.Score != nil && d.Score.BrokenGangs != len(want) {
		t.Fatalf("gangs %v fall below minCount, want %v; score %+v", broken, want, d.Score)
	}
	if (len(gone) > 0) != (d.Outcome == Preempts) {
		t.Fatalf("%s with %d victims", d.Outcome, len(gone))
	}
	if err := checkElsewhere(s, d); err != nil {
		t.Fatal(err)
	}
	room := refRoom(s, gone)
	if d.Outcome == Fits {
		for i := range s.Nodes {
			room[i] = slices.Clone(s.Nodes[i].Free)
		}
	}
	checkPlacements(t, s, p, d, room)
}

// checkElsewhere checks that ElsewhereUnits contains no victim and no unit on a node of the
// placements.
func checkElsewhere(s *Snapshot, d *Decision) error {
	if len(d.ElsewhereUnits) > min(capElsewhere, d.Reprieved) {
		return fmt.Errorf("%d units stay elsewhere, of %d that were reprieved", len(d.ElsewhereUnits), d.Reprieved)
	}
	for _, e := range d.ElsewhereUnits {
		if slices.ContainsFunc(d.Victims, func(v Victim) bool { return v.UID == e.UID }) {
			return fmt.Errorf("%s goes, and stays elsewhere", e.Name)
		}
		u := &s.Units[slices.IndexFunc(s.Units, func(u Unit) bool { return u.UID == e.UID })]
		for i := range u.Pods {
			if n := u.Pods[i].Node; n >= 0 && slices.ContainsFunc(d.Placements, func(p Placement) bool { return p.Node == s.Nodes[n].Name }) {
				return fmt.Errorf("%s stays elsewhere, and is on %s, which was chosen", e.Name, s.Nodes[n].Name)
			}
		}
	}
	return nil
}

// checkPlacements places the members into the given free room and fails if a member does not fit.
func checkPlacements(t *rapid.T, s *Snapshot, p *Preemptor, d *Decision, room [][]int64) {
	if len(d.Placements) < p.MinCount {
		t.Fatalf("%d placements, want at least %d", len(d.Placements), p.MinCount)
	}
	classOf := map[string]int{}
	for c := range p.Classes {
		for _, m := range p.Classes[c].Members {
			classOf[m.UID] = c
		}
	}
	first := make([]int, len(p.Classes))
	for _, pl := range d.Placements[:p.MinCount] {
		first[classOf[pl.UID]]++
	}
	if got, want := refRoles(p, first), refRoles(p, refCounts(p)); !maps.Equal(got, want) {
		t.Fatalf("the first members placed are %v by role, want %v", got, want)
	}
	for _, pl := range d.Placements {
		c, ok := classOf[pl.UID]
		if !ok {
			t.Fatalf("member %s is placed twice, or is none", pl.Member)
		}
		delete(classOf, pl.UID)
		n := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == pl.Node })
		if !refFits(p.Classes[c].Request, room[n]) {
			t.Fatalf("node %s is overcommitted", pl.Node)
		}
		for r, v := range p.Classes[c].Request {
			room[n][r] -= v
		}
	}
}

func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := randomCase(fromRapid(t), drawShape(t))
		d := decideOrFail(t, s, p, nil)
		checkSound(t, s, p, &d)
	})
}

// TestEveryVictimIsNeeded puts back one victim at a time. The preemptor must then have no room,
// even if all members may move.
func TestEveryVictimIsNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := randomCase(fromRapid(t), drawShape(t))
		d := decideOrFail(t, s, p, nil)
		if d.Outcome != Preempts {
			return
		}
		nodes, counts := refNodes(s), make([]int, len(p.Classes))
		if !p.Gang {
			nodes = []int{slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == d.Placements[0].Node })}
		}
		copy(counts, refCounts(p))
		victims := victimUnits(t, s, &d)
		gone := map[int]bool{}
		for _, u := range victims {
			gone[u] = true
		}
		if !refFeasible(s, p, gone, nodes, counts) {
			// The decision placed other members than the needed members with the lowest ranks.
			return
		}
		for _, u := range victims {
			delete(gone, u)
			if refFeasible(s, p, gone, nodes, counts) {
				t.Fatalf("victim %s is not needed", s.Units[u].Name)
			}
			gone[u] = true
		}
	})
}

// TestLargeGangsTakeWhatTheyNeed puts back one victim at a time. The gangs have one class and are
// too large for the local search.
func TestLargeGangsTakeWhatTheyNeed(t *testing.T) {
	sh := randomShape{nodes: 60, units: 400, members: 100, classes: 1, gang: true, full: true}
	count := func(s *Snapshot, p *Preemptor, gone map[int]bool) int {
		members := 0
		for _, room := range refRoom(s, gone) {
			for ; refFits(p.Classes[0].Request, room); members++ {
				for r, v := range p.Classes[0].Request {
					room[r] -= v
				}
			}
		}
		return members
	}
	large := 0
	for seed := range uint64(400) {
		s, p := randomCase(fromRand(seed), sh)
		d := mustDecide(t, s, p, nil)
		if d.Outcome != Preempts || len(s.Units) <= 64 {
			continue
		}
		large++
		gone := map[int]bool{}
		for i := range d.Victims {
			gone[slices.IndexFunc(s.Units, func(u Unit) bool { return u.UID == d.Victims[i].UID })] = true
		}
		if got := count(s, p, gone); got < p.MinCount {
			t.Fatalf("seed %d: room for %d members, want %d", seed, got, p.MinCount)
		}
		for u := range gone {
			without := maps.Clone(gone)
			delete(without, u)
			if count(s, p, without) >= p.MinCount {
				t.Fatalf("seed %d: victim %s is not needed", seed, s.Units[u].Name)
			}
		}
	}
	if large < 50 {
		t.Errorf("%d large cases, want at least 50", large)
	}
}

// TestReprieveCounted removes all potential victims and calls reprieveCounted. The victims must
// make enough room, and each of them must be needed.
func TestReprieveCounted(t *testing.T) {
	reprieved := 0
	rapid.Check(t, func(t *rapid.T) {
		s, p := randomCase(fromRapid(t), rapid.SampledFrom([]randomShape{gangShape, bareShape}).Draw(t, "shape"))
		v := newView(s, p, Arithmetic{})
		newPolicy(v, protections()).everything(newSearch(v, protections()), nil)
		tr := newSimulation(v, v.c.later)
		pool := v.eligible(p.Priority)
		tr.removeAll(pool)
		c := newCounter(tr, want{class: 0, count: p.MinCount})
		if !c.room() {
			return
		}
		out := reprieveCounted(c, slices.Clone(pool))
		reprieved += len(pool) - len(out)
		tr = newSimulation(v, v.c.later)
		tr.removeAll(out)
		c = newCounter(tr, want{class: 0, count: p.MinCount})
		if !c.room() {
			t.Fatalf("room for %d members with %d of %d units out, want %d", c.total, len(out), len(pool), c.need)
		}
		for _, u := range out {
			if c.restore(u); c.room() {
				t.Fatalf("unit %s could come back", s.Units[u].Name)
			}
			c.remove(u)
		}
	})
	if reprieved == 0 {
		t.Error("no unit came back")
	}
}

// TestMoreRoomNeverRaisesTheCeiling adds a node, or makes a node admit the preemptor.
func TestMoreRoomNeverRaisesTheCeiling(t *testing.T) {
	shapes := []randomShape{
		{nodes: 5, units: 14, groups: true},
		{nodes: 5, units: 14, members: 6, classes: 1, gang: true, groups: true},
	}
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		s, p := randomCase(pick, rapid.SampledFrom(shapes).Draw(t, "shape"))
		w := newWorld(s, p)
		for n := range s.Nodes {
			w.classes[0].refuses[n] = pick(3) == 0
		}
		before := decideOrFail(t, s, p, w)
		if pick(2) == 0 {
			clear(w.classes[0].refuses)
		} else {
			size := slices.Repeat([]int64{int64(pick(8))}, len(s.Resources))
			s.Nodes = append(s.Nodes, Node{Name: "n", Free: size, Allocatable: size})
			w = newWorld(s, p)
			w.classes[0].refuses = append(w.classes[0].refuses[:0:0], make([]bool, len(s.Nodes))...)
		}
		after := decideOrFail(t, s, p, w)
		switch {
		case before.Outcome == Infeasible:
		case after.Outcome == Infeasible:
			t.Fatalf("feasible before, infeasible after")
		case before.Ceiling == nil && after.Ceiling != nil:
			t.Fatalf("no ceiling before, %d after", *after.Ceiling)
		case before.Ceiling != nil && after.Ceiling != nil && *after.Ceiling > *before.Ceiling:
			t.Fatalf("ceiling %d before, %d after", *before.Ceiling, *after.Ceiling)
		}
	})
}

// shuffled returns the same cluster and preemptor with nodes, units and members in another order.
func shuffled(r *rand.Rand, s *Snapshot, p *Preemptor) (*Snapshot, *Preemptor) {
	perm := r.Perm(len(s.Nodes))
	t := &Snapshot{Resources: s.Resources, Budgets: s.Budgets, Nodes: make([]Node, len(s.Nodes))}
	for i, to := range perm {
		t.Nodes[to] = s.Nodes[i]
	}
	move := func(pods []Pod) []Pod {
		out := slices.Clone(pods)
		for i := range out {
			if out[i].Node >= 0 {
				out[i].Node = perm[out[i].Node]
			}
		}
		r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return out
	}
	t.Units = slices.Clone(s.Units)
	for u := range t.Units {
		t.Units[u].Pods = move(t.Units[u].Pods)
	}
	r.Shuffle(len(t.Units), func(i, j int) { t.Units[i], t.Units[j] = t.Units[j], t.Units[i] })
	t.Leaving = move(s.Leaving)
	q := *p
	q.Classes = slices.Clone(p.Classes)
	for c := range q.Classes {
		ms := slices.Clone(q.Classes[c].Members)
		r.Shuffle(len(ms), func(i, j int) { ms[i], ms[j] = ms[j], ms[i] })
		q.Classes[c].Members = ms
	}
	r.Shuffle(len(q.Classes), func(i, j int) { q.Classes[i], q.Classes[j] = q.Classes[j], q.Classes[i] })
	return t, &q
}

func TestInputOrderNeverMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := randomCase(fromRapid(t), drawShape(t))
		want := decideOrFail(t, s, p, nil)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s2, p2 := shuffled(r, s, p)
		got := decideOrFail(t, s2, p2, nil)
		if a, b := toJSON(t, &want), toJSON(t, &got); a != b {
			t.Fatalf("the decision depends on the order of the input:\n%s\n%s", a, b)
		}
	})
}

func TestSameInputSameBytesAndUntouched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := randomCase(fromRapid(t), drawShape(t))
		before := deepCopy(t, s)
		first := decideOrFail(t, s, p, nil)
		second := decideOrFail(t, s, p, nil)
		if a, b := toJSON(t, &first), toJSON(t, &second); a != b {
			t.Fatalf("two decisions on one input:\n%s\n%s", a, b)
		}
		if !reflect.DeepEqual(before, s) {
			t.Fatalf("the snapshot has changed")
		}
	})
}

func deepCopy(t *rapid.T, s *Snapshot) *Snapshot {
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	var c Snapshot
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	return &c
}

// TestOracle checks decisions with an Oracle that has rules about more than room.
func TestOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		sh := drawShape(t)
		s, p := randomCase(pick, sh)
		w := randomWorld(pick, s, p, true)
		d := decideOrFail(t, s, p, w)
		checkSound(t, s, p, &d)
		if len(w.problems) > 0 {
			t.Fatalf("misuse of the oracle: %v", w.problems)
		}
		if !w.restored() {
			t.Fatalf("the oracle's simulation state is not restored")
		}
		checkOrder(t, w, &d)
	})
}

// checkOrder places the members one by one in the world w. Each member must pass its rules next to
// the members before it.
func checkOrder(t *rapid.T, w *world, d *Decision) {
	if d.Outcome == Infeasible {
		return
	}
	classOf := map[string]int{}
	for c := range w.p.Classes {
		for _, m := range w.p.Classes[c].Members {
			classOf[m.UID] = c
		}
	}
	w.with(victimUnits(t, w.s, d), func() {
		if d.Outcome == Fits {
			clear(w.leavingOut)
		}
		for _, pl := range d.Placements {
			c := classOf[pl.UID]
			n := slices.IndexFunc(w.s.Nodes, func(n Node) bool { return n.Name == pl.Node })
			if w.classes[c].refuses[n] || !w.hasRoom(c, n) || w.Stateful(c) && !w.Fits(c, n) {
				t.Fatalf("member %s is refused on %s: %s, %+v, ports %v, hostile %v, zones %v",
					pl.Member, pl.Node, toJSON(t, d), w.classes, w.ports, w.hostile, w.zones)
			}
			w.Place(c, n)
		}
	})
}

// TestOracleNeverInfeasible compares decisions with an exhaustive search, with an Oracle for host
// ports and anti-affinity. It also checks that every victim is needed.
func TestOracleNeverInfeasible(t *testing.T) {
	shapes := []randomShape{
		{nodes: 4, units: 8, groups: true},
		{nodes: 4, units: 8, members: 3, classes: 2, gang: true, groups: true},
	}
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		s, p := randomCase(pick, rapid.SampledFrom(shapes).Draw(t, "shape"))
		w := randomWorld(pick, s, p, true)
		d := decideOrFail(t, s, p, w)
		feasible := func(units []int, nodes []int) (ok bool) {
			w.with(units, func() { ok = w.canPlace(refCounts(p), nodes) })
			return ok
		}
		if d.Outcome == Infeasible {
			for _, nodes := range testDomains(s, p) {
				if feasible(refEligible(s, p), nodes) {
					t.Fatalf("infeasible, but there is a way on nodes %v: %s", nodes, d.Message)
				}
			}
			return
		}
		victims := victimUnits(t, s, &d)
		nodes := refNodes(s)
		if !p.Gang {
			nodes = []int{slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == d.Placements[0].Node })}
		}
		if d.Outcome != Preempts || !feasible(victims, nodes) {
			return
		}
		for i := range victims {
			if feasible(slices.Delete(slices.Clone(victims), i, i+1), nodes) {
				t.Fatalf("victim %s is not needed", d.Victims[i].Name)
			}
		}
	})
}

func testDomains(s *Snapshot, p *Preemptor) [][]int {
	if p.Gang {
		return [][]int{refNodes(s)}
	}
	var domains [][]int
	for _, n := range refNodes(s) {
		domains = append(domains, []int{n})
	}
	return domains
}
