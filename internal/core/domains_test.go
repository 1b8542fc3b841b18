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

const rackKey = "example.com/rack"

// inRacks makes a gang require one rack. There are few racks, and some nodes are in no rack.
func inRacks(pick chooser, s *Snapshot, p *Preemptor) *Preemptor {
	q := *p
	q.Domain = &TopologyLevel{Key: rackKey, Of: make([]string, len(s.Nodes))}
	for n := range s.Nodes {
		q.Domain.Of[n] = []string{"", "r1", "r1", "r2", "r2", "r3"}[pick(6)]
	}
	return &q
}

// refRacks returns the racks that the preemptor may use: a map from the name to the indexes of the
// nodes.
func refRacks(s *Snapshot, p *Preemptor) map[string][]int {
	racks := map[string][]int{}
	for _, n := range refNodes(s) {
		if name := p.Domain.Of[n]; name != "" && (len(p.Domain.Homes) == 0 || slices.Equal(p.Domain.Homes, []string{name})) {
			racks[name] = append(racks[name], n)
		}
	}
	return racks
}

// refPlaces returns the number of places for the first class, if room has the free room of each
// node.
func refPlaces(p *Preemptor, room [][]int64, nodes []int) (places int) {
	for _, n := range nodes {
		places += howMany(p.Classes[0].Request, room[n], roomToCount)
	}
	return places
}

// rackOf returns the rack of a decision's placements. It fails the test if they are in several
// racks.
func rackOf(t *rapid.T, s *Snapshot, p *Preemptor, d *Decision) string {
	rack := ""
	for i, pl := range d.Placements {
		n := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == pl.Node })
		if at := p.Domain.Of[n]; at == "" || i > 0 && at != rack {
			t.Fatalf("member %s is in rack %q, others in %q", pl.Member, at, rack)
		}
		rack = p.Domain.Of[n]
	}
	if d.Domain == nil || d.Domain.Name != rack || d.Domain.Key != rackKey {
		t.Fatalf("members are in rack %q, the decision has %+v", rack, d.Domain)
	}
	return rack
}

// TestRacksAgainstBruteForce compares decisions with an exhaustive search in each rack. The gangs
// have one class and depend only on room, so the decisions must be optimal.
func TestRacksAgainstBruteForce(t *testing.T) {
	shape := randomShape{nodes: 6, units: 9, members: 5, classes: 1, gang: true, leaving: true}
	rapid.Check(t, func(t *rapid.T) {
		shape := shape
		shape.full = rapid.Bool().Draw(t, "full")
		pick := fromRapid(t)
		s, p := randomCase(pick, shape)
		p = inRacks(pick, s, p)
		if pick(3) == 0 {
			p.Domain.Homes = []string{"r2"}
		}
		checkRacks(t, s, p, decideOrFail(t, s, p, nil))
	})
}

func checkRacks(t *rapid.T, s *Snapshot, p *Preemptor, d Decision) {
	checkSound(t, s, p, &d)
	now := make([][]int64, len(s.Nodes))
	for i := range s.Nodes {
		now[i] = slices.Clone(s.Nodes[i].Free)
	}
	later := refRoom(s, nil)
	var best Score
	want, outcome, members, fewest, most := "", Infeasible, 0, 0, 0
	for _, name := range []string{"r1", "r2", "r3"} {
		nodes := refRacks(s, p)[name]
		sc, ok := exhaustiveIn(s, p, refCounts(p), [][]int{nodes})
		if len(nodes) == 0 || !ok {
			continue
		}
		how, room := Preempts, later
		if sc == noVictims() {
			how = Waits
		}
		if refFeasibleIn(p, now, nodes) {
			how, room = Fits, now
		}
		places, fit := refPlaces(p, room, nodes), 0
		if how == Fits {
			fit = min(places, len(p.Classes[0].Members))
		}
		rank := map[Outcome]int{Fits: 0, Waits: 1, Preempts: 2, Infeasible: 3}
		better := rank[how] < rank[outcome] || how == outcome && (better(sc, best) < 0 || better(sc, best) == 0 &&
			cmp.Or(cmp.Compare(members, fit), cmp.Compare(places, fewest), cmp.Compare(most, len(nodes))) < 0)
		if better {
			want, outcome, best, members, fewest, most = name, how, sc, fit, places, len(nodes)
		}
	}
	if d.Outcome != outcome {
		t.Fatalf("%s in %q, want %s in %q: %s", d.Outcome, rackOf(t, s, p, &d), outcome, want, d.Message)
	}
	if d.Outcome == Infeasible {
		return
	}
	if got := rackOf(t, s, p, &d); got != want {
		t.Fatalf("%s in %q, want %q", d.Outcome, got, want)
	}
	if d.Outcome == Preempts && better(*d.Score, best) != 0 {
		t.Fatalf("the score is %+v, want %+v", *d.Score, best)
	}
}

func refFeasibleIn(p *Preemptor, room [][]int64, nodes []int) bool {
	copied := make([][]int64, len(room))
	for i := range room {
		copied[i] = slices.Clone(room[i])
	}
	return refPack(p, copied, nodes, refCounts(p))
}

// TestRacksAreNearlyOptimal compares decisions with an exhaustive search in each rack. Groups,
// budgets, several classes or lost work make the decisions inexact.
func TestRacksAreNearlyOptimal(t *testing.T) {
	tests := map[string]randomShape{
		"groups":        {nodes: 6, units: 10, members: 4, classes: 1, gang: true, groups: true, leaving: true},
		"budgets":       {nodes: 6, units: 10, members: 4, classes: 1, gang: true, groups: true, budgets: true},
		"many groups":   {nodes: 6, units: 11, full: true, members: 4, classes: 1, gang: true, groups: true},
		"beside gangs":  {nodes: 6, units: 11, full: true, members: 4, classes: 1, gang: true, gangs: true},
		"beside equals": {nodes: 6, units: 11, full: true, members: 4, classes: 1, gang: true, gangs: true, whole: true, flat: true},
		"two classes":   {nodes: 5, units: 9, members: 3, classes: 2, gang: true, groups: true},
	}
	for name, shape := range inEveryOrder(tests, func(s *randomShape) *randomShape { return s }) {
		t.Run(name, func(t *testing.T) {
			cases, optimal, first := 0, 0, ""
			for seed := uint64(0); cases < *optimalityCases/2 && seed < uint64(10*(*optimalityCases)); seed++ {
				pick := fromRand(seed)
				s, p := randomCase(pick, shape)
				p = inRacks(pick, s, p)
				d, err := Decide(s, p, nil)
				if err != nil {
					t.Fatal(err)
				}
				s, p = withoutBands(t, s, p, &d)
				var racks [][]int
				for _, nodes := range refRacks(s, p) {
					racks = append(racks, nodes)
				}
				best, ok := exhaustiveIn(s, p, refCounts(p), racks)
				if ok != (d.Outcome != Infeasible) && (ok || len(p.Classes) == 1) {
					t.Fatalf("seed %d: %s (%s), and a way exists: %t", seed, d.Outcome, d.Message, ok)
				}
				if !ok || d.Outcome != Preempts {
					continue
				}
				cases++
				switch c := better(*d.Score, best); {
				case c < 0 && len(p.Classes) == 1:
					t.Fatalf("seed %d: score %+v is better than the best, %+v", seed, *d.Score, best)
				case c <= 0:
					optimal++
				case first == "":
					first = fmt.Sprintf("seed %d: %+v instead of %+v", seed, *d.Score, best)
				}
			}
			t.Logf("%d of %d optimal; %s", optimal, cases, first)
			if optimal*100 < cases*97 || cases < 50 {
				t.Errorf("%d of %d are optimal, want 97%% of at least 50", optimal, cases)
			}
		})
	}
}

// TestRacksWithOracle checks that members share a rack and also pass the rules of an Oracle.
func TestRacksWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		s, p := randomCase(pick, gangShape)
		p = inRacks(pick, s, p)
		w := randomWorld(pick, s, p, rapid.Bool().Draw(t, "spread"))
		d := decideOrFail(t, s, p, w)
		if len(w.problems) > 0 || !w.restored() {
			t.Fatalf("the oracle's state is wrong: %v", w.problems)
		}
		checkSound(t, s, p, &d)
		if d.Outcome != Infeasible {
			rackOf(t, s, p, &d)
			checkOrder(t, w, &d)
		}
	})
}

func TestRackOfInput(t *testing.T) {
	three := func() *build {
		b := clusterOf("gpu").node("a1", 8).node("a2", 8).node("b1", 8).node("b2", 8).node("x1", 8)
		return b.pod("p-a1", "a1", 5, 8).pod("p-a2", "a2", 5, 8).pod("p-b1", "b1", 1, 8).pod("p-b2", "b2", 6, 8)
	}
	racks := []string{"a", "a", "b", "b", ""}
	gang := func(count int) *Preemptor { return gangOf(10, count, members("m", count, 0, 8)) }
	tests := map[string]struct {
		gang         *Preemptor
		domain       TopologyLevel
		wantOutcome  Outcome
		wantName     string
		wantVictims  []string
		wantObstacle DomainObstacle
		wantMessage  string
	}{
		"the rack that is cheapest to clear": {
			gang: gang(2), domain: TopologyLevel{Of: racks},
			wantOutcome: Preempts, wantName: "a", wantVictims: []string{"p-a1", "p-a2"},
			wantMessage: "gang of 2 fits on 2 nodes with example.com/rack=a once 2 pods are gone; in b it would be at least 2 pods, one of priority 6 or more",
		},
		"the free node has no rack": {
			gang: gang(1), domain: TopologyLevel{Of: racks},
			wantOutcome: Preempts, wantName: "b", wantVictims: []string{"p-b1"},
			wantMessage: "gang of 1 fits on b1 with example.com/rack=b once 1 pod is gone; in a it would be at least 1 pod, one of priority 5 or more",
		},
		"members run in the dearer rack": {
			gang: gang(1), domain: TopologyLevel{Of: racks, Homes: []string{"a"}},
			wantOutcome: Preempts, wantName: "a", wantVictims: []string{"p-a1"},
			wantMessage: "gang of 1 fits on a1 with example.com/rack=a once 1 pod is gone",
		},
		"no rack has enough nodes": {
			gang: gang(3), domain: TopologyLevel{Of: racks}, wantOutcome: Infeasible,
			wantMessage: "no domain of example.com/rack has room for the gang; in a, the one of 2 with the most, it needs 8 gpu on 3 nodes; " +
				"2 nodes have them after preemption (of 5 nodes: 1 without a value of the label example.com/rack)",
		},
		"a key that no node has": {
			gang: gang(2), domain: TopologyLevel{Of: make([]string, 5)},
			wantOutcome: Infeasible, wantObstacle: ObstacleNoDomain,
			wantMessage: "the members must share one value of the node label example.com/rack, and no node has one",
		},
		"members run in two racks": {
			gang: gang(1), domain: TopologyLevel{Of: racks, Homes: []string{"a", "b"}},
			wantOutcome: Infeasible, wantObstacle: ObstacleSeveralHomes,
			wantMessage: "the members that run must share one value of the node label example.com/rack, and are in several: a, b",
		},
		"members run on a node without the label": {
			gang: gang(1), domain: TopologyLevel{Of: racks, Homes: []string{""}},
			wantOutcome: Infeasible, wantObstacle: ObstacleNoHome,
			wantMessage: "members run on nodes without a value of the label example.com/rack, so the others have no domain to join",
		},
		"members run in a rack without usable nodes": {
			gang: gang(1), domain: TopologyLevel{Of: racks, Homes: []string{"c"}},
			wantOutcome: Infeasible, wantObstacle: ObstacleNoHome,
			wantMessage: "members run on nodes with example.com/rack=c, and no node with that label can be used",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.domain.Key = rackKey
			tt.gang.Domain = &tt.domain
			d, err := Decide(three().snapshot(), tt.gang, nil)
			if err != nil {
				t.Fatal(err)
			}
			var victims []string
			for _, v := range d.Victims {
				victims = append(victims, v.Name)
			}
			slices.Sort(victims)
			if d.Outcome != tt.wantOutcome || d.Domain.Name != tt.wantName || !slices.Equal(victims, tt.wantVictims) || d.Domain.Obstacle != tt.wantObstacle {
				t.Errorf("%s in %+v with victims %v; want %s in %q with %v, %q", d.Outcome, d.Domain, victims, tt.wantOutcome, tt.wantName, tt.wantVictims, tt.wantObstacle)
			}
			if d.Message != tt.wantMessage {
				t.Errorf("message:\n%s\nwant:\n%s", d.Message, tt.wantMessage)
			}
		})
	}
}

// TestSurplusStaysInTheRack places surplus members, together with the gang and in a later decision.
func TestSurplusStaysInTheRack(t *testing.T) {
	b := clusterOf("gpu").node("a1", 8).node("a2", 8).node("b1", 8).node("b2", 8).node("b3", 8).pod("p-b3", "b3", 20, 8)
	p := gangOf(10, 1, members("m", 3, 0, 8))
	p.Domain = &TopologyLevel{Key: rackKey, Of: []string{"a", "a", "b", "b", "b"}}
	for _, minCount := range []int{0, 1} {
		p.MinCount = minCount
		d, err := Decide(b.snapshot(), p, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d.Outcome != Fits || len(d.Placements) != 2 || d.Domain.Name != "b" {
			t.Errorf("minCount %d: %s, %v in %+v; want two members in b, the fuller one", minCount, d.Outcome, d.Placements, d.Domain)
		}
	}
}

// TestRackForMostMembers places a gang with minCount 1 in racks with different numbers of free
// places.
func TestRackForMostMembers(t *testing.T) {
	tests := map[string]struct {
		members int
		want    string
	}{
		"one member takes the fullest":   {1, "a"},
		"two members share the next one": {2, "b"},
		"three have one choice":          {3, "c"},
		"no rack has room for all four":  {4, "c"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := clusterOf("gpu").node("a", 8).node("b", 16).node("c", 24)
			p := gangOf(10, 1, members("m", tt.members, 0, 8))
			p.Domain = &TopologyLevel{Key: rackKey, Of: []string{"a", "b", "c"}}
			d, err := Decide(b.snapshot(), p, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d.Outcome != Fits || d.Domain.Name != tt.want || len(d.Placements) != min(tt.members, 3) {
				t.Errorf("%s: %v in %+v; want all that fit in %s", d.Outcome, d.Placements, d.Domain, tt.want)
			}
		})
	}
}

// TestNominatedRackIsKept decides again for a gang after its victims have terminated in one rack.
// The gang must use this rack, although a fuller rack has room.
func TestNominatedRackIsKept(t *testing.T) {
	b := clusterOf("gpu").node("a1", 8).node("a2", 8).node("b1", 8).node("b2", 8).pod("p-a2", "a2", 20, 4)
	p := gangOf(10, 1, members("m", 1, 0, 4))
	p.Domain = &TopologyLevel{Key: rackKey, Of: []string{"a", "a", "b", "b"}}
	p.Nominated = []Placement{{Member: "m-00", UID: "uid-m-00", Node: "b2"}}
	d, err := Decide(b.snapshot(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d.Outcome != Fits || d.Domain.Name != "b" || d.Placements[0].Node != "b2" {
		t.Errorf("%s on %v in %+v; want b2", d.Outcome, d.Placements, d.Domain)
	}
}

func TestRackOfBadInput(t *testing.T) {
	b := clusterOf("gpu").node("a", 8)
	pod := podOf(1, 1)
	pod.Domain = &TopologyLevel{Key: rackKey, Of: []string{"r"}}
	short := gangOf(1, 1, members("m", 1, 0, 1))
	short.Domain = &TopologyLevel{Key: rackKey}
	for _, p := range []*Preemptor{pod, short} {
		if _, err := Decide(b.snapshot(), p, nil); !errors.Is(err, ErrBadInput) || !strings.Contains(err.Error(), rackKey) && p == short {
			t.Errorf("error %v, want ErrBadInput", err)
		}
	}
}

// BenchmarkRacks decides for gangs of 64 in full clusters of 5,000 nodes with many domains.
func BenchmarkRacks(b *testing.B) {
	for _, perRack := range []int{1, 8, 32, 500} {
		for _, flat := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d nodes each, equal %t", perRack, flat), func(b *testing.B) {
				s, p := rackCase(5000, perRack, flat)
				for b.Loop() {
					d, err := Decide(s, p, nil)
					if err != nil || d.Outcome != Preempts {
						b.Fatal(d.Outcome, err)
					}
				}
			})
		}
	}
}

// rackCase returns a full cluster with 64 GPUs per node, in racks of perRack nodes, and a gang of
// 64. With flat, all units have the same priority and start.
func rackCase(nodes, perRack int, flat bool) (*Snapshot, *Preemptor) {
	pick := fromRand(1)
	c := NewCluster([]string{"gpu"})
	p := gangOf(100, 64, members("m", 64, 0, 1))
	p.Domain = &TopologyLevel{Key: rackKey}
	for n := range nodes {
		name := fmt.Sprintf("n%05d", n)
		state := &NodeState{Node: Node{Name: name, Free: Amounts{0}, Allocatable: Amounts{64}}}
		for i := range 8 {
			pod := RunningPod{Pod: Pod{Namespace: "ns", Name: fmt.Sprintf("%s-%d", name, i), UID: fmt.Sprintf("%s-%d", name, i), Request: Amounts{8}, Start: 1}, Priority: 1}
			if !flat {
				pod.Priority, pod.Start = int32(1+pick(50)), int64(1+pick(1000))
			}
			state.Pods = append(state.Pods, pod)
		}
		if err := c.SetNode(state); err != nil {
			panic(err)
		}
	}
	s := c.Snapshot()
	for n := range s.Nodes {
		p.Domain.Of = append(p.Domain.Of, fmt.Sprintf("r%05d", n/perRack))
	}
	return s, p
}
