package gang

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// node describes a group of a test. A name in capital letters is a CompositePodGroup, others are
// PodGroups. need is the minCount or minGroupCount; 0 means the basic policy.
type node struct {
	name, parent string
	need         int
	// whole is true in disruption mode All or PodGroup.
	whole bool
	// priority is the priority of the group; 0 means 10.
	priority int32
	change   func(*Group)
}

// forest creates groups in the given order. It returns their Trees, the Store with the groups, and
// all moves on the way.
func forest(nodes ...node) (*Trees, *Store, []Move) {
	store := &Store{}
	trees := NewTrees(store)
	var moves []Move
	for _, n := range nodes {
		store.Set(n.group())
		_, moved := trees.Changed(keyNamed(n.name))
		moves = append(moves, moved...)
	}
	return trees, store, moves
}

func (n *node) group() *Group {
	g := &Group{
		Key: keyNamed(n.name), UID: types.UID(n.name), Whole: n.whole, Priority: ptr.To(max(n.priority, 10)),
		PreemptionPolicy: corev1.PreemptLowerPriority,
	}
	if n.parent != "" {
		g.Parent = keyNamed(n.parent)
	}
	if IsTree(g.Key) {
		g.MinGroupCount = n.need
	} else {
		g.MinCount = n.need
	}
	if n.change != nil {
		n.change(g)
	}
	return g
}

func keyNamed(name string) types.NamespacedName {
	if strings.ToUpper(name) == name {
		return TreeKey("ml", name)
	}
	return types.NamespacedName{Namespace: "ml", Name: name}
}

func TestTreesFindFlaws(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		nodes      []node
		want       string // the workload of the PodGroup a
		wantReason string
		wantNamed  string
	}{
		"no parent":         {nodes: []node{{name: "a", need: 1}}, want: "a"},
		"a root":            {nodes: []node{{name: "R", need: 1}, {name: "a", need: 1, parent: "R"}}, want: "R"},
		"children first":    {nodes: []node{{name: "a", need: 1, parent: "M"}, {name: "M", need: 1, parent: "R"}, {name: "R", need: 1}}, want: "R"},
		"four levels":       {nodes: []node{{name: "R", need: 1}, {name: "S", need: 1, parent: "R"}, {name: "T", need: 1, parent: "S"}, {name: "a", need: 1, parent: "T"}}, want: "R"},
		"missing parent":    {nodes: []node{{name: "a", need: 1, parent: "R"}}, want: "R", wantReason: v1alpha1.ReasonParentNotFound, wantNamed: `PodGroup ml/a names the parent "R", and namespace ml`},
		"missing root":      {nodes: []node{{name: "M", need: 1, parent: "R"}, {name: "a", need: 1, parent: "M"}}, want: "R", wantReason: v1alpha1.ReasonParentNotFound, wantNamed: `CompositePodGroup ml/M names the parent "R"`},
		"cycle":             {nodes: []node{{name: "S", need: 1, parent: "R"}, {name: "R", need: 1, parent: "S"}, {name: "a", need: 1, parent: "S"}}, want: "R", wantReason: v1alpha1.ReasonParentCycle, wantNamed: "CompositePodGroup ml/R is its own ancestor, over 2 levels"},
		"its own parent":    {nodes: []node{{name: "R", need: 1, parent: "R"}, {name: "a", need: 1, parent: "R"}}, want: "R", wantReason: v1alpha1.ReasonParentCycle, wantNamed: "over 1 levels"},
		"below a cycle":     {nodes: []node{{name: "S", need: 1, parent: "S"}, {name: "T", need: 1, parent: "S"}, {name: "a", need: 1, parent: "T"}}, want: "S", wantReason: v1alpha1.ReasonParentCycle},
		"five levels":       {nodes: []node{{name: "R", need: 1}, {name: "S", need: 1, parent: "R"}, {name: "T", need: 1, parent: "S"}, {name: "U", need: 1, parent: "T"}, {name: "a", need: 1, parent: "U"}}, want: "R", wantReason: v1alpha1.ReasonTreeTooDeep, wantNamed: "PodGroup ml/a is at a level below the fourth"},
		"five levels aside": {nodes: []node{{name: "R", need: 1}, {name: "S", need: 1, parent: "R"}, {name: "T", need: 1, parent: "S"}, {name: "U", need: 1, parent: "T"}, {name: "b", need: 1, parent: "U"}, {name: "a", need: 1, parent: "R"}}, want: "R", wantReason: v1alpha1.ReasonTreeTooDeep, wantNamed: "PodGroup ml/b"},
		"other priority":    {nodes: []node{{name: "R", need: 1}, {name: "a", need: 1, parent: "R"}, {name: "b", need: 1, parent: "R", priority: 20}}, want: "R", wantReason: v1alpha1.ReasonPriorityDiffers, wantNamed: "PodGroup ml/b has priority 20, and CompositePodGroup ml/R, the root of its tree, has 10"},
		"never preempts":    {nodes: []node{{name: "R", need: 1}, {name: "a", need: 1, parent: "R", change: func(g *Group) { g.PreemptionPolicy = corev1.PreemptNever }}}, want: "R", wantReason: v1alpha1.ReasonPriorityDiffers, wantNamed: "preemptionPolicy Never"},
		"other queue":       {nodes: []node{{name: "R", need: 1}, {name: "a", need: 1, parent: "R"}, {name: "b", need: 1, parent: "R", change: func(g *Group) { g.Queue = "q" }}}, want: "R", wantReason: v1alpha1.ReasonQueueDiffers, wantNamed: `PodGroup ml/b names the Queue "q"`},
		"basic PodGroup":    {nodes: []node{{name: "R", need: 1}, {name: "a", parent: "R"}}, want: "R", wantReason: v1alpha1.ReasonUnsupported, wantNamed: "PodGroup ml/a has the basic scheduling policy"},
		"topology":          {nodes: []node{{name: "R", need: 1}, {name: "a", need: 1, parent: "R", change: func(g *Group) { g.TopologyKey = "rack" }}}, want: "R", wantReason: v1alpha1.ReasonUnsupported, wantNamed: "spec.schedulingConstraints"},
		"raised":            {nodes: []node{{name: "R", need: 1}, {name: "a", need: 1, parent: "R", change: func(g *Group) { g.PreemptionPriorityClass = "high" }}}, want: "R", wantReason: v1alpha1.ReasonUnsupported, wantNamed: "spec.preemptionPriorityClassName"},
		"ambiguous":         {nodes: []node{{name: "R", need: 1}, {name: "a", need: 1, parent: "R", change: func(g *Group) { g.Ambiguous = true }}}, want: "R", wantReason: v1alpha1.ReasonAmbiguousName},
		"no priority yet":   {nodes: []node{{name: "R", need: 1}, {name: "a", need: 1, parent: "R"}, {name: "b", need: 1, parent: "R", change: func(g *Group) { g.Priority = nil }}}, want: "R", wantReason: v1alpha1.ReasonPending, wantNamed: "PodGroup ml/b waits for its priority"},
		"basic root":        {nodes: []node{{name: "R"}, {name: "a", need: 1, parent: "R"}}, want: "a"},
		"gang in basic":     {nodes: []node{{name: "R"}, {name: "S", need: 1, parent: "R"}, {name: "a", need: 1, parent: "S"}}, want: "S"},
		"basic in gang":     {nodes: []node{{name: "R", need: 1}, {name: "S", parent: "R"}, {name: "a", need: 1, parent: "S"}}, want: "R", wantReason: v1alpha1.ReasonUnsupported, wantNamed: "CompositePodGroup ml/S has the basic scheduling policy below CompositePodGroup ml/R"},
		"flaw in basic":     {nodes: []node{{name: "R"}, {name: "a", need: 1, parent: "R"}, {name: "b", need: 1, parent: "R", priority: 20}}, want: "R", wantReason: v1alpha1.ReasonPriorityDiffers},
		"waits in basic":    {nodes: []node{{name: "R"}, {name: "a", need: 1, parent: "R"}, {name: "b", need: 1, parent: "R", change: func(g *Group) { g.Priority = nil }}}, want: "a"},
		"another namespace": {nodes: []node{{name: "a", need: 1, parent: "R"}, {name: "R", need: 1, change: func(g *Group) { g.Key.Namespace = "other" }}}, want: "R", wantReason: v1alpha1.ReasonParentNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trees, _, _ := forest(tc.nodes...)
			key := trees.WorkloadOf(keyNamed("a"))
			if want := keyNamed(tc.want); key != want {
				t.Fatalf("workload %v, want %v", key, want)
			}
			g, ok := trees.Group(key)
			if !ok {
				t.Fatalf("no group %v", key)
			}
			if g.Flaw.Reason != tc.wantReason || !strings.Contains(g.Flaw.Message, tc.wantNamed) {
				t.Errorf("flaw %+v, want %s about %q", g.Flaw, tc.wantReason, tc.wantNamed)
			}
			if below := trees.Below(key); !slices.Contains(below, keyNamed("a")) || !slices.Contains(below, key) {
				t.Errorf("below %v: %v", key, below)
			}
			if g.IsPlaced(&Members{}) {
				t.Error("the group has no members, and is placed")
			}
			if v := Gate(key, g, &Members{}); tc.wantReason != "" && v != g.Flaw {
				t.Errorf("the gate says %+v, want the flaw", v)
			}
		})
	}
}

// TestFlawedTreesListEachGroupOnce checks that the parts of a tree with a cycle, or with too many
// levels, are complete and finite. Users read them in answers about the tree.
func TestFlawedTreesListEachGroupOnce(t *testing.T) {
	t.Parallel()
	chain := []node{{name: "A", need: 1}}
	for c := 'B'; c <= 'Z'; c++ {
		chain = append(chain, node{name: string(c), need: 1, parent: string(c - 1)})
	}
	for name, tc := range map[string]struct {
		nodes []node
		// of is the name of the group whose tree is listed. The field want lists each group of that
		// tree with its need.
		of   string
		want []string
	}{
		"a cycle": {
			nodes: []node{{name: "R", need: 1, parent: "S"}, {name: "S", need: 2, parent: "R"}, {name: "a", need: 3, parent: "R"}},
			of:    "R", want: []string{"R 1", "a 3", "S 2"},
		},
		"its own parent": {nodes: []node{{name: "R", need: 1, parent: "R"}, {name: "a", need: 3, parent: "R"}}, of: "R", want: []string{"R 1", "a 3"}},
		"five levels": {
			nodes: append(slices.Clone(chain[:4]), node{name: "a", need: 3, parent: "D"}), of: "A", want: []string{"A 1", "B 1", "C 1", "D 1", "a 3"},
		},
		"six levels": {
			nodes: append(slices.Clone(chain[:5]), node{name: "a", need: 3, parent: "E"}), of: "A", want: []string{"A 1", "B 1", "C 1", "D 1", "E 1", "a 3"},
		},
	} {
		trees, _, _ := forest(tc.nodes...)
		g, ok := trees.Group(keyNamed(tc.of))
		if !ok || g.Flaw == (Verdict{}) {
			t.Fatalf("%s: the tree is %+v, want a flaw", name, g)
		}
		var got []string
		var list func(part *Tree)
		list = func(part *Tree) {
			at := strings.TrimPrefix(part.Key.Name, TreeKey("", "").Name)
			got = append(got, fmt.Sprint(at, " ", part.Need))
			for _, below := range part.Parts {
				list(below)
			}
		}
		list(g.Tree)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: the groups are %q, want %q", name, got, tc.want)
		}
	}
}

func TestTreesFollowChanges(t *testing.T) {
	t.Parallel()
	trees, store, moves := forest(node{name: "a", need: 2, parent: "M"}, node{name: "M", need: 1, parent: "R"}, node{name: "R", need: 1})
	if want := []Move{
		{PodGroup: keyNamed("a"), From: keyNamed("a"), To: keyNamed("M")}, {PodGroup: keyNamed("a"), From: keyNamed("M"), To: keyNamed("R")},
	}; !cmp.Equal(moves, want) {
		t.Errorf("moves %v, want %v", moves, want)
	}
	if g, _ := trees.Group(keyNamed("R")); g.MinCount != 2 || g.Flaw != (Verdict{}) {
		t.Errorf("the tree has minCount %d and the flaw %v", g.MinCount, g.Flaw)
	}
	second := node{name: "b", need: 3, parent: "R"}
	store.Set(second.group())
	if workloads, _ := trees.Changed(keyNamed("b")); !cmp.Equal(workloads, []types.NamespacedName{keyNamed("R")}) {
		t.Errorf("workloads %v", workloads)
	}
	if g, _ := trees.Group(keyNamed("R")); len(g.Tree.Leaves()) != 2 || g.MinCount != 2 {
		t.Errorf("the tree has PodGroups %v and minCount %d", g.Tree.Leaves(), g.MinCount)
	}
	store.Delete(keyNamed("M"))
	if workloads, moved := trees.Changed(keyNamed("M")); len(moved) != 1 || moved[0].To != keyNamed("M") || len(workloads) != 2 {
		t.Errorf("workloads %v, moves %v", workloads, moved)
	}
	for _, name := range []string{"a", "b"} {
		store.Delete(keyNamed(name))
		trees.Changed(keyNamed(name))
	}
	if _, ok := trees.Group(keyNamed("M")); ok || trees.parented.Load() != 0 || len(trees.workloads)+len(trees.parents)+len(trees.children) != 0 {
		t.Errorf("left behind: %v %v %v", trees.parents, trees.children, trees.workloads)
	}
}

// TestGroupsAroundAPodGroup checks which PodGroups of a tree are whole together with all groups
// above them. The tree needs two of its three parts. One part needs both of its PodGroups.
func TestGroupsAroundAPodGroup(t *testing.T) {
	t.Parallel()
	trees, _, _ := forest(
		node{name: "R", need: 2}, node{name: "M", need: 2, parent: "R"}, node{name: "a", need: 2, parent: "M"}, node{name: "b", need: 1, parent: "M"},
		node{name: "c", need: 1, parent: "R"}, node{name: "d", need: 3, parent: "R"},
	)
	tree, _ := trees.Group(keyNamed("R"))
	for name, tc := range map[string]struct {
		placed map[string]int
		want   []string
	}{
		"nothing":              {},
		"one part":             {placed: map[string]int{"c": 1}},
		"two parts":            {placed: map[string]int{"c": 1, "d": 3}, want: []string{"c", "d"}},
		"two parts and a rest": {placed: map[string]int{"a": 2, "c": 1, "d": 4}, want: []string{"c", "d"}},
		"a part that is short": {placed: map[string]int{"a": 1, "b": 1, "c": 1, "d": 3}, want: []string{"c", "d"}},
		"all parts":            {placed: map[string]int{"a": 2, "b": 1, "c": 1, "d": 3}, want: []string{"a", "b", "c", "d"}},
		"two parts, d short":   {placed: map[string]int{"a": 2, "b": 1, "c": 1, "d": 2}, want: []string{"a", "b", "c"}},
	} {
		var whole []string
		for _, leaf := range []string{"a", "b", "c", "d"} {
			if tree.Tree.IsWholeAround(leaf, tc.placed) {
				whole = append(whole, leaf)
			}
		}
		if !slices.Equal(whole, tc.want) {
			t.Errorf("%s: whole around %v, want %v", name, whole, tc.want)
		}
	}
}

func TestUnitIsTheHighestWholeAncestor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		root, middle, leaf bool
		want               string
	}{
		"none":   {want: "R"},
		"leaf":   {leaf: true, want: "a"},
		"middle": {leaf: true, middle: true, want: "M"},
		"root":   {root: true, want: "R"},
		"both":   {root: true, leaf: true, want: "R"},
	} {
		trees, _, _ := forest(node{name: "R", need: 1, whole: tc.root}, node{name: "M", need: 1, parent: "R", whole: tc.middle}, node{name: "a", need: 1, parent: "M", whole: tc.leaf})
		if unit := trees.UnitOf(keyNamed("a")); unit != keyNamed(tc.want) {
			t.Errorf("%s: the unit is %v, want %s", name, unit, tc.want)
		}
	}
	for middle, want := range map[bool]string{true: "M", false: "a"} {
		trees, _, _ := forest(node{name: "M", need: 1, parent: "R", whole: middle}, node{name: "a", need: 1, parent: "M"})
		if unit := trees.UnitOf(keyNamed("a")); unit != keyNamed(want) {
			t.Errorf("without the root, and mode All %t below it: the unit is %v, want %s", middle, unit, want)
		}
	}
}

func TestTreeGate(t *testing.T) {
	t.Parallel()
	trees, _, _ := forest(node{name: "R", need: 2}, node{name: "a", need: 2, parent: "R"}, node{name: "b", need: 1, parent: "R"}, node{name: "c", need: 3, parent: "R"})
	g, _ := trees.Group(keyNamed("R"))
	members := func(names ...string) *Members {
		var m Members
		for i, name := range names {
			m.Pending = append(m.Pending, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: fmt.Sprint(name, i), Labels: map[string]string{v1alpha1.LabelPodGroup: name}}})
		}
		return &m
	}
	if v := Gate(g.Key, g, members("a", "b", "c", "c")); v.Reason != v1alpha1.ReasonNotEnoughGroups ||
		v.Message != "CompositePodGroup ml/R needs 2 groups with enough members and has 1; PodGroup ml/a needs 2 members and has 1" {
		t.Errorf("verdict %+v", v)
	}
	if v := Gate(g.Key, g, members("a", "b", "c", "c", "c")); v != (Verdict{}) {
		t.Errorf("verdict %+v, want none", v)
	}
}

// TestTreeNeedsMembersOfMissingGroups checks the minCount of trees that lack groups. A running tree
// whose group is deleted must not look whole.
func TestTreeNeedsMembersOfMissingGroups(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		nodes []node
		want  int
	}{
		"none missing":  {nodes: []node{{name: "R", need: 2}, {name: "a", need: 3, parent: "R"}, {name: "b", need: 2, parent: "R"}}, want: 5},
		"one missing":   {nodes: []node{{name: "R", need: 2}, {name: "a", need: 3, parent: "R"}}, want: 4},
		"all missing":   {nodes: []node{{name: "R", need: 2}}, want: 2},
		"a level below": {nodes: []node{{name: "R", need: 1}, {name: "S", need: 3, parent: "R"}, {name: "a", need: 3, parent: "S"}}, want: 5},
		"more than fit in a status": {
			nodes: []node{{name: "R", need: math.MaxInt32}, {name: "a", need: math.MaxInt32, parent: "R"}}, want: math.MaxInt32,
		},
	} {
		trees, _, _ := forest(tc.nodes...)
		g, _ := trees.Group(keyNamed("R"))
		if g.MinCount != tc.want {
			t.Errorf("%s: minCount %d, want %d", name, g.MinCount, tc.want)
		}
	}
}

// TestChoiceIsTheBest compares Choose with all ways to choose groups.
func TestChoiceIsTheBest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		have, placed, count := make(map[string]int), make(map[string]int), 0
		var grow func(level int) *Tree
		grow = func(level int) *Tree {
			count++
			if level == v1alpha1.MaxTreeDepth || level > 1 && rapid.Bool().Draw(t, "leaf") {
				name := fmt.Sprint("g", count)
				have[name] = rapid.IntRange(0, 3).Draw(t, "have")
				placed[name] = rapid.IntRange(0, have[name]).Draw(t, "placed")
				return &Tree{Key: types.NamespacedName{Namespace: "ml", Name: name}, Need: rapid.IntRange(1, 3).Draw(t, "minCount")}
			}
			out := &Tree{Key: TreeKey("ml", fmt.Sprint("C", count)), Need: rapid.IntRange(1, 3).Draw(t, "minGroupCount")}
			for range rapid.IntRange(1, 3).Draw(t, "groups") {
				out.Parts = append(out.Parts, grow(level+1))
			}
			return out
		}
		tree := grow(1)
		lacks, possible := fewest(tree, have, placed)
		got := tree.Choose(have, placed)
		if got.Complete != possible || possible && got.Lacks != lacks {
			t.Errorf("choice %+v, want %d lacking members, %v", got, lacks, possible)
		}
		for _, more := range tree.Further(have, placed) {
			if !more.Complete || more.Lacks == 0 {
				t.Errorf("%+v cannot be placed as a whole", more)
			}
		}
	})
}

// fewest returns the least number of further placements over all choices of groups that satisfy the
// tree; false if no choice does.
func fewest(n *Tree, have, placed map[string]int) (lacks int, possible bool) {
	if n.isLeaf() {
		return max(n.Need-placed[n.Key.Name], 0), have[n.Key.Name] >= n.Need
	}
	for set := range 1 << len(n.Parts) {
		size, sum, all := 0, 0, true
		for i, part := range n.Parts {
			if set>>i&1 == 1 {
				l, ok := fewest(part, have, placed)
				size, sum, all = size+1, sum+l, all && ok
			}
		}
		if size == n.Need && all && (!possible || sum < lacks) {
			lacks, possible = sum, true
		}
	}
	return lacks, possible
}
