package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// shown describes a Shortage: the places to spare, and the pods with their places.
func shown(s *workload.Shortage) string {
	pods := make([]string, 0, len(s.Pods))
	for uid, at := range s.Pods {
		pods = append(pods, fmt.Sprintf(" %s on %s: %d", uid, at.Node, at.Places))
	}
	slices.Sort(pods)
	return fmt.Sprintf("%d to spare,%s", s.Spare, strings.Join(pods, ","))
}

// TestShortages checks which pods occupy the places that members need.
func TestShortages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cluster   *build
		preemptor *Preemptor
		want      []string
	}{
		"a single victim": {
			cluster:   clusterOf("cpu").node("a", 4).pod("v", "a", 0, 4),
			preemptor: podOf(10, 4),
			want:      []string{"0 to spare, uid-v on a: 1"},
		},
		"of a group on one node, any that goes is enough": {
			cluster:   clusterOf("cpu").node("a", 4).group("g", 0, 1, []string{"a", "a", "a", "a"}),
			preemptor: podOf(10, 1),
		},
		"of a group on one node, all have to go": {
			cluster:   clusterOf("cpu").node("a", 4).group("g", 0, 1, []string{"a", "a", "a", "a"}),
			preemptor: podOf(10, 4),
			want:      []string{"0 to spare, uid-g-0 on a: 1, uid-g-1 on a: 1, uid-g-2 on a: 1, uid-g-3 on a: 1"},
		},
		"of a group on two nodes, one is not gone to": {
			cluster:   clusterOf("cpu").node("a", 4).node("b", 2).group("g", 0, 2, []string{"a", "b"}).pod("h", "a", 20, 2),
			preemptor: podOf(10, 2),
			want:      []string{"0 to spare, uid-g-0 on a: 1"},
		},
		"one that is leaving anyway": {
			cluster:   clusterOf("cpu").node("a", 4).leaving("l", "a", 3).pod("v", "a", 0, 1),
			preemptor: podOf(10, 4),
			want:      []string{"0 to spare, uid-l on a: 1, uid-v on a: 1"},
		},
		"either of two that are leaving": {
			cluster:   clusterOf("cpu").node("a", 4).leaving("l", "a", 2).leaving("m", "a", 2),
			preemptor: podOf(10, 2),
		},
		"what is not asked for is not missing": {
			cluster:   clusterOf("cpu", "gpu").node("a", 4, 1).podOf("v", "a", 0, []int64{4, 1}),
			preemptor: podOf(10, 4, 0),
			want:      []string{"0 to spare, uid-v on a: 1"},
		},
		"not where only the surplus goes": {
			cluster:   clusterOf("cpu").node("a", 4).node("b", 4).pod("v", "a", 0, 4).leaving("l", "b", 4),
			preemptor: gangOf(10, 1, members("m", 2, 0, 4)),
			want:      []string{"0 to spare, uid-l on b: 1"},
		},
		"either of two, where either member is enough": {
			cluster:   clusterOf("cpu").node("a", 4).node("b", 4).leaving("k", "a", 4).leaving("l", "b", 4),
			preemptor: gangOf(10, 1, members("m", 2, 0, 4)),
			want:      []string{"1 to spare, uid-k on a: 1, uid-l on b: 1"},
		},
		"on a node with more members than the surplus": {
			cluster:   clusterOf("cpu").node("a", 8).node("b", 4).leaving("k", "a", 8).leaving("l", "b", 4),
			preemptor: gangOf(10, 2, members("m", 3, 0, 4)),
			want:      []string{"1 to spare, uid-k on a: 2, uid-l on b: 1"},
		},
		"of a gang's nodes": {
			cluster:   clusterOf("cpu").node("a", 4).node("b", 4).pod("v", "a", 0, 4).leaving("l", "b", 4),
			preemptor: gangOf(10, 2, members("m", 2, 0, 4)),
			want:      []string{"0 to spare, uid-l on b: 1, uid-v on a: 1"},
		},
		"none if members can exchange their nodes": {
			cluster:   clusterOf("cpu").node("a", 2).node("b", 2).leaving("k", "a", 1).leaving("l", "b", 1).leaving("m", "b", 1),
			preemptor: gangOf(10, 2, members("l", 1, 0, 2), members("m", 2, 1, 1)),
		},
		"of the large members": {
			cluster:   clusterOf("cpu").node("a", 5).node("b", 4).leaving("k", "a", 4).leaving("l", "b", 4),
			preemptor: gangOf(10, 3, members("l", 2, 0, 4), members("m", 1, 2, 1)),
			want:      []string{"3 to spare, uid-k on a: 2, uid-l on b: 3", "0 to spare, uid-k on a: 1, uid-l on b: 1"},
		},
		"of a surplus, until one member has room": {
			cluster:   clusterOf("cpu").node("a", 4).node("b", 4).leaving("k", "a", 4).leaving("l", "b", 4),
			preemptor: gangOf(10, 0, members("m", 2, 0, 4)),
			want:      []string{"1 to spare, uid-k on a: 1, uid-l on b: 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := Decide(c.cluster.snapshot(), c.preemptor, Arithmetic{})
			if err != nil || d.Outcome != Preempts && d.Outcome != Waits {
				t.Fatalf("it comes to %s: %s (%v)", d.Outcome, d.Message, err)
			}
			var got []string
			for _, short := range c.cluster.snapshot().Shortages(&d) {
				got = append(got, shown(&short))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the shortages are %q, want %q, for %v", got, c.want, d.Placements)
			}
		})
	}
}

// emptying is a random gang that waits for terminating pods.
type emptying struct {
	*build
	preemptor *Preemptor
	// alike is true if all members have the same size and no node has two pods. Then the shortages
	// are exact.
	alike bool
}

func randomEmptying(pick chooser) *emptying {
	e := &emptying{build: clusterOf("cpu"), alike: true}
	nodes := 1 + pick(3)
	for n := range nodes {
		room := 1 + int64(pick(4))
		name := fmt.Sprint("n", n)
		e.node(name, room)
		for i := 0; room > 0 && pick(4) > 0; i++ {
			size := 1 + int64(pick(int(room)))
			e.leaving(fmt.Sprint(name, "-", i), name, size)
			room -= size
			e.alike = e.alike && i == 0
		}
	}
	small, large := members("s", 1+pick(3), 0, 1+int64(pick(2))), members("l", pick(3), 3, 1+int64(pick(3)))
	e.alike = e.alike && len(large.Members) == 0
	e.preemptor = gangOf(10, 1+pick(len(small.Members)+len(large.Members)), small)
	if len(large.Members) > 0 {
		e.preemptor.Classes = append(e.preemptor.Classes, large)
	}
	return e
}

// hasRoom tries all placements of the smallest minCount members on the nodes of a decision, while
// the given terminating pods still exist.
func (e *emptying) hasRoom(d *Decision, left map[string]bool) bool {
	free := make(map[string]int64)
	for _, p := range d.Placements {
		n := slices.IndexFunc(e.s.Nodes, func(node Node) bool { return node.Name == p.Node })
		free[p.Node] = e.s.Nodes[n].Free[0]
		for i := range e.s.Leaving {
			if pod := &e.s.Leaving[i]; pod.Node == n && !left[pod.UID] {
				free[p.Node] += pod.Request[0]
			}
		}
	}
	var sizes []int64
	for _, class := range e.preemptor.Classes {
		for range class.Members {
			sizes = append(sizes, class.Request[0])
		}
	}
	slices.Sort(sizes)
	var place func(left []int64) bool
	place = func(left []int64) bool {
		if len(left) == 0 {
			return true
		}
		for node := range free {
			if free[node] < left[0] {
				continue
			}
			free[node] -= left[0]
			placed := place(left[1:])
			if free[node] += left[0]; placed {
				return true
			}
		}
		return false
	}
	return place(sizes[:e.preemptor.MinCount])
}

// TestShortagesAreReal compares the shortages with all placements of a gang, while any of its
// terminating pods are left. While a shortage lasts, no placement has room. If the shortages are
// exact, a placement has room as soon as no shortage lasts.
func TestShortagesAreReal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := randomEmptying(fromRapid(t))
		d, err := Decide(e.snapshot(), e.preemptor, Arithmetic{})
		if err != nil {
			t.Fatal(err)
		}
		if d.Outcome != Waits {
			return
		}
		shortages := e.snapshot().Shortages(&d)
		for set := range 1 << len(e.s.Leaving) {
			left := make(map[string]bool)
			for i := range e.s.Leaving {
				left[e.s.Leaving[i].UID] = set>>i&1 != 0
			}
			lasts := slices.ContainsFunc(shortages, func(s workload.Shortage) bool { return amongst(&s, left).Lasts() })
			has := e.hasRoom(&d, left)
			switch {
			case lasts && has:
				t.Fatalf("with %v left, the gang has room, and these shortages: %v", left, shortages)
			case e.alike && !lasts && !has:
				t.Fatalf("with %v left, the gang has no room, and these shortages do not show it: %v", left, shortages)
			}
		}
	})
}

// amongst returns the shortage that is left of s if only some of the pods exist.
func amongst(s *workload.Shortage, left map[string]bool) *workload.Shortage {
	out := &workload.Shortage{Spare: s.Spare, Pods: make(map[string]workload.Occupied)}
	for uid, at := range s.Pods {
		if left[uid] {
			out.Pods[uid] = at
		}
	}
	return out
}
