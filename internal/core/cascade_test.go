package core

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// replacing is an Oracle that implements Replacer. By default, all units are replaced, the
// replacements may preempt, and every node admits every member.
type replacing struct {
	Arithmetic
	// kinds maps the index of a unit to its Replacement, for units that differ from the default.
	kinds map[int]Replacement
	// only has the indexes of the nodes that admit members; nil for all nodes.
	only map[int]bool
}

func (r replacing) Replacement(unit int) Replacement {
	if kind, ok := r.kinds[unit]; ok {
		return kind
	}
	return ReplacementPreempts
}

func (r replacing) Admits(_, node int) string {
	if r.only != nil && !r.only[node] {
		return "left out"
	}
	return ""
}

// twoNodes returns a cluster for a preemptor with a request of 8. The preemptor fits on node a or b
// after one eviction. The pod "large" on node a is the preferred victim because it started later.
// Its replacement fits only on node c, and only if "low" is evicted. The replacement of "small" on
// node b fits on node c without an eviction if onB is at most 3.
func twoNodes(onB int64, lowest int32) *build {
	return clusterOf("gpu").node("a", 8).node("b", 8).node("c", 7).
		pod("large", "a", 5, 6, startedAt(9)).pod("small", "b", 5, onB, startedAt(5)).pod("low", "c", lowest, 4, startedAt(5))
}

func TestCascade(t *testing.T) {
	t.Parallel()
	ofGang := func(minCount int32, surplus bool) unitOption {
		return func(u *Unit) {
			u.PodGroup, u.GroupName, u.Running, u.Surplus, u.Membership = "uid-job", "job", true, surplus, &QueueMembership{MinCount: minCount}
		}
	}
	elasticGang := func(minCount int32) *build {
		return clusterOf("gpu").node("a", 8).node("b", 8).node("c", 7).
			pod("m1", "a", 5, 6, ofGang(minCount, minCount == 1)).pod("m2", "b", 9, 6, ofGang(minCount, false)).pod("low", "c", 1, 4)
	}
	racks := clusterOf("gpu").node("a", 8).node("b", 8).node("c", 8).node("d", 8).node("e", 7).node("f", 7).
		pod("a1", "a", 5, 6, startedAt(9)).pod("b1", "b", 5, 6, startedAt(9)).pod("c1", "c", 5, 3, startedAt(5)).pod("d1", "d", 5, 3, startedAt(5)).
		pod("e1", "e", 1, 4).pod("f1", "f", 1, 4)
	for name, tt := range map[string]struct {
		cluster   *build
		preemptor *Preemptor
		kinds     map[int]Replacement
		// byOthers are the expected victims without CascadeDecide. want are the expected victims
		// with it.
		byOthers, want []string
		// measured is the expected cascade of byOthers. decided is the expected cascade of want.
		measured, decided Cascade
	}{
		"of equals, the victim whose replacement fits": {
			cluster: twoNodes(3, 1), preemptor: podOf(10, 8), byOthers: []string{"large"}, want: []string{"small"},
			measured: Cascade{Replacements: 1, Evictions: 1}, decided: Cascade{Replacements: 1},
		},
		"both replacements preempt": {
			cluster: twoNodes(4, 1), preemptor: podOf(10, 8), byOthers: []string{"large"}, want: []string{"large"},
			measured: Cascade{Replacements: 1, Evictions: 1}, decided: Cascade{Replacements: 1, Evictions: 1},
		},
		"nothing has a lower priority": {
			cluster: twoNodes(3, 5), preemptor: podOf(10, 8), byOthers: []string{"large"}, want: []string{"large"},
			measured: Cascade{Replacements: 1}, decided: Cascade{Replacements: 1},
		},
		"not replaced": {
			cluster: twoNodes(3, 1), preemptor: podOf(10, 8), byOthers: []string{"large"}, want: []string{"large"},
			kinds: map[int]Replacement{0: NoReplacement},
		},
		"a replacement that never preempts": {
			cluster: twoNodes(3, 1), preemptor: podOf(10, 8), byOthers: []string{"large"}, want: []string{"large"},
			kinds:    map[int]Replacement{0: ReplacementWaits},
			measured: Cascade{Replacements: 1}, decided: Cascade{Replacements: 1},
		},
		"a group that comes back whole": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).node("c", 7).node("d", 7).
				group("job", 5, 6, []string{"a", "b"}).pod("c1", "c", 1, 4).pod("d1", "d", 1, 4),
			preemptor: gangOf(10, 2, members("w", 2, 0, 8)), byOthers: []string{"job"}, want: []string{"job"},
			measured: Cascade{Replacements: 2, Evictions: 2}, decided: Cascade{Replacements: 2, Evictions: 2},
		},
		"a group without room for all of it": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).node("c", 7).
				group("job", 5, 6, []string{"a", "b"}).pod("c1", "c", 1, 4),
			preemptor: gangOf(10, 2, members("w", 2, 0, 8)), byOthers: []string{"job"}, want: []string{"job"},
			measured: Cascade{Replacements: 2}, decided: Cascade{Replacements: 2},
		},
		"a member that its gang needs": {
			cluster: elasticGang(2), preemptor: podOf(8, 8), byOthers: []string{"m1"}, want: []string{"m1"},
			measured: Cascade{Replacements: 1, Evictions: 1}, decided: Cascade{Replacements: 1, Evictions: 1},
		},
		"a surplus member": {
			cluster: elasticGang(1), preemptor: podOf(8, 8), byOthers: []string{"m1"}, want: []string{"m1"},
			measured: Cascade{Replacements: 1}, decided: Cascade{Replacements: 1},
		},
		"of equal domains, the one whose replacements fit": {
			cluster: racks, preemptor: inDomains(gangOf(10, 2, members("w", 2, 0, 8)), "x", "x", "y", "y", "", ""),
			byOthers: []string{"a1", "b1"}, want: []string{"c1", "d1"},
			measured: Cascade{Replacements: 2, Evictions: 2}, decided: Cascade{Replacements: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, o := tt.cluster.snapshot(), replacing{kinds: tt.kinds}
			for mode, want := range map[CascadeMode]struct {
				victims []string
				cascade *Cascade
			}{
				CascadeOff: {tt.byOthers, nil}, CascadeMeasure: {tt.byOthers, &tt.measured}, CascadeDecide: {tt.want, &tt.decided},
			} {
				p := *tt.preemptor
				p.Cascade = mode
				d := mustDecide(t, s, &p, o)
				if !slices.Equal(victimNames(&d), want.victims) {
					t.Errorf("mode %q: %s, victims %v, want %v", mode, d.Message, victimNames(&d), want.victims)
				}
				if diff := cmp.Diff(want.cascade, d.Cascade); diff != "" {
					t.Errorf("mode %q, cascade (-want +got):\n%s", mode, diff)
				}
			}
		})
	}
}

// inDomains makes a gang require one domain. The argument of has the domain of each node.
func inDomains(p *Preemptor, of ...string) *Preemptor {
	p.Domain = &TopologyLevel{Key: "rack", Of: of}
	return p
}

// TestCascadeOfABrokenGang checks the cascade if the search compares lost work and the outcome
// breaks a gang. The replacements must look for room while the remaining members of the gang still
// run.
func TestCascadeOfABrokenGang(t *testing.T) {
	t.Parallel()
	member := func(u *Unit) {
		u.PodGroup, u.GroupName, u.Running, u.Membership = "uid-g", "g", true, &QueueMembership{MinCount: 2}
	}
	other := func(u *Unit) {
		u.PodGroup, u.GroupName, u.Running, u.Membership = "uid-h", "h", true, &QueueMembership{MinCount: 1}
	}
	s := clusterOf("gpu").node("a", 16).node("b", 12).node("c", 12).node("d", 1).pod("h1", "d", 200, 1, other, startedAt(1)).
		pod("v", "a", 50, 12, startedAt(1)).pod("g1", "a", 10, 4, member, startedAt(1)).
		pod("x", "b", 10, 4, startedAt(1)).pod("g2", "c", 10, 4, member, startedAt(1)).snapshot()
	p := podOf(100, 16)
	p.Order, p.Devices, p.Now, p.Cascade = OrderLostWork, Amounts{1000}, 100, CascadeMeasure
	d := mustDecide(t, s, p, replacing{})
	if d.Outcome != Preempts || d.Cascade == nil || d.Cascade.Evictions == 0 {
		t.Errorf("%s, cascade %+v; want replacements that evict", d.Message, d.Cascade)
	}
}

// TestReplacementsWithoutRetryTimes checks that a replacement without room causes no search for
// RetryAt. The test compares protections that end with protections that never end. Protections that
// never end cannot cause such a search, so both cases must take the same number of steps.
func TestReplacementsWithoutRetryTimes(t *testing.T) {
	t.Parallel()
	const nodes = 8
	steps := func(until func(node int) int64) int {
		b := clusterOf("gpu").node("a", 8).pod("large", "a", 5, 6)
		for n := range nodes {
			name := fmt.Sprint("n", n)
			b = b.node(name, 7).pod("low-"+name, name, 1, 4, tolerating(6, until(n)))
		}
		p := podOf(10, 8)
		p.Cascade = CascadeMeasure
		d, steps, err := DecideCounting(b.snapshot(), p, replacing{})
		if err != nil {
			t.Fatal(err)
		}
		if want := (Cascade{Replacements: 1}); d.Cascade == nil || *d.Cascade != want {
			t.Fatalf("%s, cascade %+v, want %+v", d.Message, d.Cascade, want)
		}
		return steps
	}
	passing, lasting := steps(func(node int) int64 { return int64(node+1) * 3600e9 }), steps(func(int) int64 { return Forever })
	if passing != lasting {
		t.Errorf("%d steps, want %d as with protections that last forever", passing, lasting)
	}
}

// TestCascadeOfARaisedGroup checks a unit whose priority as a victim is raised. Its replacement
// must preempt only by the scheduling priority.
func TestCascadeOfARaisedGroup(t *testing.T) {
	t.Parallel()
	raised := func(u *Unit) { u.RaisedBy = 5 }
	s := clusterOf("gpu").node("a", 8).node("c", 7).pod("large", "a", 5, 6, raised).pod("low", "c", 1, 4).snapshot()
	p := podOf(10, 8)
	p.Cascade = CascadeMeasure
	if d := mustDecide(t, s, p, replacing{}); d.Cascade == nil || d.Cascade.Evictions != 0 {
		t.Errorf("%s, cascade %+v; want no evictions", d.Message, d.Cascade)
	}
}
