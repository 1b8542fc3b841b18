package bench

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

var table = flag.String("table", "", "measure at the documented sizes, and write the table into this file")

// sizes has the numbers of nodes for each table, and the numbers of runs.
type sizes struct {
	pod, constrained, ruled, contest int
	gangs                            []int
	groups, groupMembers             int
	queues                           int
	growth                           [2]int
	// These fields are about the comparisons with upstream:
	//
	//   - victims: the default number of nodes in the table of victims
	//   - scenes: additional rows of that table
	//   - rivals: the numbers of nodes in the table of times
	victims int
	scenes  []victimScene
	rivals  []int
	// These fields are numbers of runs:
	//
	//   - rounds: how often the sides alternate
	//   - laps: runs of a side before the sides alternate
	//   - growthRounds: pairs of runs, one on a small and one on a large cluster
	//   - faceRounds: rounds of the comparison with upstream on the smallest cluster; larger
	//     clusters have fewer
	rounds, laps, growthRounds, faceRounds int
}

var (
	// documented has the sizes for the documentation. A run takes some minutes.
	documented = sizes{
		pod: 5000, constrained: 1000, ruled: 5000, contest: 100, gangs: []int{100, 500, 1000, 5000},
		groups: 5000, groupMembers: 512, queues: 5000, growth: [2]int{1000, 10_000},
		victims: 100, scenes: slowScenes(), rivals: []int{100, 500, 1000},
		rounds: 10, laps: 20, growthRounds: 300, faceRounds: 4,
	}
	// quick has small sizes for the tests. A run takes seconds, and its times are not meaningful.
	quick = sizes{
		pod: 40, constrained: 20, ruled: 40, contest: 4, gangs: []int{10, 20},
		groups: 32, groupMembers: 8, queues: 1000, growth: [2]int{10, 100},
		victims: 20, rivals: []int{10, 20},
		rounds: 1, laps: 2, growthRounds: 2, faceRounds: 2,
	}
)

// TestTable measures all rows and prints the tables. Without the flag -table, it uses small sizes.
// Then it only checks that the measurements work, and that each decision is as expected.
func TestTable(t *testing.T) {
	metrics.Register()
	s := quick
	if *table != "" {
		s = documented
	}
	var r report
	t.Run("victims", func(t *testing.T) { s.measureVictims(t, &r) })
	t.Run("rivals", func(t *testing.T) { s.measureRivals(t, &r) })
	t.Run("pod", func(t *testing.T) { s.measurePod(t, &r) })
	for _, nodes := range s.gangs {
		// The smallest clusters have the same aim as clusters of 1,000 nodes.
		aim := 20 * time.Millisecond
		if nodes > 1000 {
			aim = 150 * time.Millisecond
		}
		shape := gangShape(nodes)
		t.Run(fmt.Sprintf("gang/nodes=%d", nodes), func(t *testing.T) { s.measureGang(t, &r, "gang", shape, aim) })
	}
	for _, gpus := range []int64{1, 8} {
		shape := groupShape(s.groups, s.groupMembers, gpus)
		t.Run(fmt.Sprintf("groups/gpus=%d", gpus), func(t *testing.T) { s.measureGang(t, &r, "groups", shape, 250*time.Millisecond) })
	}
	t.Run("constrained", func(t *testing.T) {
		s.measureGang(t, &r, "constrained", constrainedShape(s.constrained), 200*time.Millisecond)
	})
	rules := memberRules()
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		t.Run("rules/"+name, func(t *testing.T) {
			s.measureGang(t, &r, name, ruledShape(s.ruled, rules[name]), time.Second)
		})
	}
	t.Run("queues", func(t *testing.T) { s.measureQueues(t, &r) })
	t.Run("growth/pod", func(t *testing.T) { s.measureGrowth(t, &r, "pod", podShape, func(r *rig) trial { return r.pod(0) }) })
	t.Run("growth/gang", func(t *testing.T) {
		s.measureGrowth(t, &r, "gang", gangShape, func(r *rig) trial { return r.plan() })
	})
	kubernetes, err := kubernetesVersion()
	if err != nil {
		t.Fatal(err)
	}
	text := r.markdown(kubernetes)
	t.Logf("\n%s\nMissed: %s", text, strings.Join(r.missed(), "; "))
	if *table == "" || t.Failed() {
		return
	}
	if err := writeBlock(*table, text); err != nil {
		t.Error(err)
	}
}

// measurePod measures decisions for a single pod. It also measures memory: the growth of the heap
// by the first decision, and the bytes that a later decision allocates.
func (s *sizes) measurePod(t *testing.T, r *report) {
	shape := podShape(s.pod)
	name := fmt.Sprintf("%s nodes, %s pods of 50 priorities", thousands(shape.nodes), thousands(shape.pods()))
	rig := newRig(t, shape)
	changed := max(s.pod/100, 1)
	steady, busy := rig.pod(0), rig.pod(changed)
	before := heap()
	steady(&recorder{})
	r.spaces = append(r.spaces,
		space{"columns, by pod", name, (float64(heap()) - float64(before)) / float64(shape.pods()), 400},
		space{"allocated by the decision for a pod", name, allocated(steady, 10), 1 << 20})
	got := interleave(s.rounds,
		side{steady, 5 * s.laps}, side{busy, s.laps}, side{rig.upstream(upstream), s.laps}, side{rig.upstream(upstreamAllNodes), 1})
	core := interleave(s.rounds, side{onlyCore(t, shape), 5 * s.laps})[0]
	const shortlist, all = "10 % of the nodes", "all nodes"
	atRest, after := "all nodes, at rest", fmt.Sprintf("all nodes, after changes to %s", thousands(changed))
	r.races = append(r.races,
		race{"pod", name, atRest, shortlist, got[0], got[2], 40},
		race{"pod", name, atRest, all, got[0], got[3], 0},
		race{"pod", name, after, shortlist, got[1], got[2], 0},
		race{"pod", name, "the core alone", shortlist, core, got[2], 0})
}

func (s *sizes) measureGang(t *testing.T, r *report, name string, shape shape, aim time.Duration) {
	rig := newRig(t, shape)
	sides := []side{{rig.plan(), s.laps}, {rig.planAndOrder(), s.laps}}
	var core samples
	if shape.rule == nil {
		sides = append(sides, side{onlyCore(t, shape), s.laps})
	}
	got := interleave(s.rounds, sides...)
	if shape.rule == nil {
		core = got[2]
	}
	r.limits = append(r.limits, limit{
		name: name, core: core, planned: got[0], whole: got[1], aim: aim,
		shape: fmt.Sprintf("%s nodes, %s pods, gang of %s × %d GPU", thousands(shape.nodes), thousands(shape.pods()),
			thousands(shape.gang), shape.member.gpus),
	})
}

func (s *sizes) measureGrowth(t *testing.T, r *report, name string, of func(nodes int) shape, run func(*rig) trial) {
	small, large := of(s.growth[0]), of(s.growth[1])
	got := alternate(s.growthRounds, onlyCore(t, small), onlyCore(t, large), run(newRig(t, small)), run(newRig(t, large)))
	r.growths = append(r.growths,
		growth{name, "core", s.growth, got[0], got[1], 1.15}, growth{name, "in the scheduler", s.growth, got[2], got[3], 1.15})
}
