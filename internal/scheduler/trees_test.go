package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// forest is a rig with trees of groups.
type forest struct {
	*rig
	trees *gang.Trees
}

func newForest(t *testing.T, objects ...runtime.Object) *forest {
	t.Helper()
	return newForestWith(t, schedulerYAML, objects...)
}

// newForestWith is like newForest, and also sets the configuration of the scheduler.
func newForestWith(t *testing.T, configuration string, objects ...runtime.Object) *forest {
	t.Helper()
	known := noGroups()
	f := &forest{trees: gang.NewTrees(known)}
	f.rig = newRigOn(t, clientWith(objects...), known, configuration, nil, func(in *Inputs) { in.Groups, in.Trees = f.trees, f.trees })
	return f
}

// plant creates a group below a parent; "" for none. A name in capital letters is a
// CompositePodGroup. need is the minCount or minGroupCount.
func (f *forest) plant(name, parent string, need int, priority int32, whole bool) *gang.Group {
	g := &gang.Group{Key: types.NamespacedName{Namespace: "ns", Name: name}, UID: types.UID(name), MinCount: need, Whole: whole, Priority: ptr.To(priority)}
	if strings.ToUpper(name) == name {
		g.Key, g.MinCount, g.MinGroupCount = gang.TreeKey("ns", name), 0, need
	}
	if parent != "" {
		g.Parent = gang.TreeKey("ns", parent)
	}
	f.groups.set(g)
	f.changed(g.Key)
	return g
}

func (f *forest) changed(key types.NamespacedName) {
	workloads, moves := f.trees.Changed(key)
	f.sched.PartChanged(key, workloads, moves)
}

// on returns the number of members of a PodGroup that have a node.
func (f *forest) on(group string) (count int) {
	for _, pod := range f.sched.Members(types.NamespacedName{Namespace: "ns", Name: group}).Assigned {
		if pod.Spec.NodeName != "" {
			count++
		}
	}
	return count
}

// settle runs cycles until each PodGroup in want has the wanted number of members with a node.
func (f *forest) settle(want map[string]int) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("members have nodes: %v", want), func() bool {
		f.cycles()
		for group, n := range want {
			if f.on(group) != n {
				return false
			}
		}
		return true
	})
	f.cycles()
	for group, n := range want {
		if got := f.on(group); got != n {
			f.t.Errorf("%d members of %s have nodes, want %d", got, group, n)
		}
	}
}

func TestTreeStartsWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		room, minGroupCount int
		want                map[string]int
	}{
		"room for all":                   {room: 5, minGroupCount: 2, want: map[string]int{"a": 2, "b": 3}},
		"room for one group":             {room: 4, minGroupCount: 2, want: map[string]int{"a": 0, "b": 0}},
		"one group is enough":            {room: 4, minGroupCount: 1, want: map[string]int{"a": 2, "b": 0}},
		"one group is enough, both fit":  {room: 5, minGroupCount: 1, want: map[string]int{"a": 2, "b": 3}},
		"not even one":                   {room: 1, minGroupCount: 1, want: map[string]int{"a": 0, "b": 0}},
		"room for nothing but a surplus": {room: 1, minGroupCount: 2, want: map[string]int{"a": 0, "b": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newForest(t, nodes(tc.room, "1")...)
			f.plant("R", "", tc.minGroupCount, 0, false)
			f.plant("M", "R", 1, 0, false)
			f.plant("a", "M", 2, 0, false)
			f.plant("b", "R", 3, 0, false)
			f.create(members("a", 2, "1", 0)...)
			f.create(members("b", 3, "1", 0)...)
			f.settle(tc.want)
		})
	}
}

func TestTreeWaitsForItsParent(t *testing.T) {
	t.Parallel()
	f := newForest(t, nodes(4, "1")...)
	f.plant("a", "M", 2, 0, false)
	f.create(members("a", 2, "1", 0)...)
	f.settle(map[string]int{"a": 0})
	if v := f.sched.gangs.Verdict(gang.KeyOf(gang.TreeKey("ns", "M"))); v.Reason != v1alpha1.ReasonParentNotFound {
		t.Errorf("The verdict is %+v", v)
	}
	f.plant("M", "R", 1, 0, false)
	f.settle(map[string]int{"a": 0})
	f.plant("R", "", 2, 0, false)
	f.settle(map[string]int{"a": 0})
	if v := f.sched.gangs.Verdict(gang.KeyOf(gang.TreeKey("ns", "R"))); v.Reason != v1alpha1.ReasonNotEnoughGroups {
		t.Errorf("The verdict is %+v", v)
	}
	f.plant("b", "R", 1, 0, false)
	f.create(members("b", 1, "1", 0)...)
	f.settle(map[string]int{"a": 2, "b": 1})
}

func TestFlawedTreeStartsNothing(t *testing.T) {
	t.Parallel()
	f := newForest(t, nodes(9, "1")...)
	f.plant("R", "", 1, 5, false)
	f.plant("a", "R", 1, 5, false)
	f.plant("b", "R", 1, 7, false)
	f.create(pod("low", "", "1", 0))
	f.create(members("a", 1, "1", 5)...)
	f.create(members("b", 1, "1", 7)...)
	f.settle(map[string]int{"a": 0, "b": 0})
	if len(f.evictor.orders) > 0 {
		t.Errorf("Orders: %v", f.evictor.orders)
	}
}

func TestTreePreemptsForAllItsGroups(t *testing.T) {
	t.Parallel()
	f := newForest(t, nodes(3, "1")...)
	for i := range 3 {
		f.create(pod(fmt.Sprint("low-", i), "", "1", 0))
	}
	f.cycles()
	f.waitBound("low-0", "low-1", "low-2")
	f.plant("R", "", 2, 9, false)
	f.plant("a", "R", 2, 9, false)
	f.plant("b", "R", 1, 9, false)
	f.create(members("a", 2, "1", 9)...)
	f.create(members("b", 1, "1", 9)...)
	f.cycles()
	if got := f.victims(); len(f.evictor.orders) != 1 || len(got) != 3 {
		t.Fatalf("%d orders with the victims %v, want one with three", len(f.evictor.orders), got)
	}
	for i := range 3 {
		f.remove(pod(fmt.Sprint("low-", i), "", "1", 0))
	}
	f.finish(0, eviction.Outcome{})
	f.settle(map[string]int{"a": 2, "b": 1})
}

// TestNothingIsEvictedForFurtherGroups checks that a group past minGroupCount evicts no pods.
func TestNothingIsEvictedForFurtherGroups(t *testing.T) {
	t.Parallel()
	f := newForest(t, nodes(2, "1")...)
	f.create(pod("low", "", "1", 0))
	f.cycles()
	f.waitBound("low")
	f.plant("R", "", 1, 9, false)
	f.plant("a", "R", 1, 9, false)
	f.plant("b", "R", 1, 9, false)
	f.create(members("a", 1, "1", 9)...)
	f.create(members("b", 1, "1", 9)...)
	f.settle(map[string]int{"a": 1, "b": 0})
	if len(f.evictor.orders) > 0 {
		t.Errorf("Victims: %v", f.victims())
	}
	if v := f.sched.gangs.Verdict(gangKey(gang.TreeKey("ns", "R"))); !strings.Contains(v.Message, "nothing is preempted for groups past minGroupCount") {
		t.Errorf("The verdict is %+v", v)
	}
	f.remove(pod("low", "", "1", 0))
	f.settle(map[string]int{"a": 1, "b": 1})
}

func TestVictimIsTheHighestWholeAncestor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		root, middle, leaf bool
		want               []string
	}{
		"root":   {root: true, want: []string{"a-0", "a-1", "b-0", "c-0"}},
		"middle": {middle: true, want: []string{"a-0", "a-1", "b-0"}},
		"leaf":   {leaf: true, want: []string{"a-0", "a-1"}},
		"none":   {want: []string{"a-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newForest(t, nodes(1, "4")...)
			f.plant("R", "", 2, 0, tc.root)
			f.plant("M", "R", 2, 0, tc.middle)
			f.plant("a", "M", 2, 0, tc.leaf)
			f.plant("b", "M", 1, 0, false)
			f.plant("c", "R", 1, 0, false)
			f.create(members("a", 2, "1", 0)...)
			f.create(members("b", 1, "1", 0)...)
			f.create(members("c", 1, "1", 0)...)
			f.settle(map[string]int{"a": 2, "b": 1, "c": 1})
			// The preemptor needs the room of the wanted victims. The PodGroups b and c must not
			// run in that room.
			size := map[int]string{4: "4", 3: "3", 2: "2", 1: "1"}[len(tc.want)]
			f.create(pod("high", "", size, 9))
			f.cycles()
			got := f.victims()
			if slices.Sort(got); len(got) != len(tc.want) || len(tc.want) > 1 && !slices.Equal(got, tc.want) {
				t.Errorf("The victims are %v, want %v", got, tc.want)
			}
			units := 1
			if order := f.evictor.orders[0]; len(order.Decision.Victims) != units {
				t.Errorf("%d units go: %+v", len(order.Decision.Victims), order.Decision.Victims)
			}
		})
	}
}

// TestTreeIsNotPlacedInPart interrupts the placement of the PodGroup b while two of its three
// members wait at Permit. Then either all members of b are placed, or none, even if the tree is
// whole without b.
func TestTreeIsNotPlacedInPart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// needOfA is the minCount of the PodGroup a, which has one member. With 1, the tree is
		// whole before b is placed.
		needOfA int
		happens func(f *forest, planned string)
		// wantB is the number of members of b with a node at the end.
		wantB int
	}{
		"a further group loses a member": {needOfA: 1, happens: func(f *forest, planned string) { f.remove(pod(planned, "b", "1", 0)) }},
		"the chosen group loses a member": {needOfA: 2, happens: func(f *forest, planned string) {
			f.remove(pod(planned, "b", "1", 0))
		}},
		"a group changes": {needOfA: 1, wantB: 3, happens: func(f *forest, _ string) { f.changed(gang.TreeKey("ns", "R")) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newForest(t, nodes(4, "1")...)
			f.plant("R", "", 1, 0, false)
			f.plant("a", "R", tc.needOfA, 0, false)
			f.plant("b", "R", 3, 0, false)
			f.create(members("a", 1, "1", 0)...)
			if tc.needOfA == 1 {
				f.settle(map[string]int{"a": 1})
			}
			f.create(members("b", 3, "1", 0)...)
			tree := gangKey(gang.TreeKey("ns", "R"))
			var planned []engine.UID
			f.eventually("two of three members wait at Permit", func() bool {
				if planned = f.sched.gangs.PlannedMembers(tree); len(planned) == 1 {
					return len(f.sched.gangs.Reserved(tree)) == 2
				}
				if len(f.active()) > 0 {
					f.cycle()
				}
				return false
			})
			tc.happens(f, strings.TrimPrefix(planned[0], "uid-"))
			f.never("members of b are placed in part", 200*time.Millisecond, func() bool {
				n := f.on("b")
				return n > 0 && n < 3
			})
			f.settle(map[string]int{"b": tc.wantB})
			if tc.wantB == 0 {
				f.create(pod("b-9", "b", "1", 0))
				f.settle(map[string]int{"b": 3})
			}
		})
	}
}

// TestTreeTakesOverItsMembers creates pods first, and then their PodGroup as a part of a tree. The
// scheduler must keep no state of the PodGroup as a separate workload.
func TestTreeTakesOverItsMembers(t *testing.T) {
	t.Parallel()
	f := newForest(t, nodes(2, "1")...)
	f.create(members("a", 2, "1", 0)...)
	alone := gangKey(key("a"))
	f.eventually("the members wait for their PodGroup", func() bool { return f.sched.gangs.Verdict(alone).Reason == gang.ReasonPodGroupNotFound })
	f.plant("R", "", 1, 0, false)
	f.plant("a", "R", 2, 0, false)
	if v := f.sched.gangs.Verdict(alone); v != (gang.Verdict{}) || f.sched.engine.IsPresent(alone) {
		t.Errorf("The PodGroup is still a workload, with the verdict %+v", v)
	}
	f.settle(map[string]int{"a": 2})
	f.groups.drop(key("a"))
	f.changed(key("a"))
	if !f.sched.engine.IsPresent(alone) {
		t.Error("The members belong to no workload after the PodGroup was deleted")
	}
	f.plant("a", "R", 2, 0, false)
	if tree := gangKey(gang.TreeKey("ns", "R")); f.sched.engine.IsPresent(alone) || !f.sched.engine.IsPresent(tree) {
		t.Error("The running members do not belong to the tree that their PodGroup was created in again")
	}
}

// TestTreesNeverRunInPart creates random trees in a cluster with random room. A tree must be placed
// exactly if its chosen groups fit. No PodGroup may run with fewer members than it needs.
func TestTreesNeverRunInPart(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			room := 1 + random.IntN(8)
			f := newForest(t, nodes(room, "1")...)
			have, groups := make(map[string]int), 0
			var grow func(parent string, level int)
			grow = func(parent string, level int) {
				groups++
				if name := fmt.Sprint("g", groups); level == v1alpha1.MaxTreeDepth || level > 1 && random.IntN(2) == 0 {
					f.plant(name, parent, 1+random.IntN(2), 0, false)
					have[name] = 1 + random.IntN(3)
					f.create(members(name, have[name], "1", 0)...)
					return
				}
				name := fmt.Sprint("C", groups)
				parts := 1 + random.IntN(2)
				f.plant(name, parent, 1+random.IntN(parts), 0, false)
				for range parts {
					grow(name, level+1)
				}
			}
			grow("", 1)
			tree, ok := f.trees.Group(gang.TreeKey("ns", "C1"))
			if !ok || tree.Flaw != (gang.Verdict{}) {
				t.Fatalf("the tree: %+v", tree)
			}
			choice := tree.Tree.Choose(have, nil)
			starts := choice.Complete && choice.Lacks <= room
			placed := func() map[string]int {
				out := make(map[string]int)
				for name := range have {
					out[name] = f.on(name)
				}
				return out
			}
			f.eventually("the tree starts if it can", func() bool {
				f.cycles()
				on := placed()
				return !starts || tree.Tree.Choose(on, on).Complete
			})
			f.settles(100 * time.Millisecond)
			f.eventually("no member is about to be bound", func() bool { return len(f.sched.gangs.Reserved(gangKey(tree.Key))) == 0 })
			on := placed()
			if complete := tree.Tree.Choose(on, on).Complete; complete != starts {
				t.Errorf("room %d, members %v, needs %+v: placed %v, want a start: %t", room, have, choice, on, starts)
			}
			for name, n := range on {
				if n > 0 && (n < tree.Tree.NeedOf(name) || !starts) {
					t.Errorf("%d members of %s have nodes, and it needs %d", n, name, tree.Tree.NeedOf(name))
				}
			}
		})
	}
}
