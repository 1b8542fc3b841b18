package core

import (
	"slices"
	"strings"
	"testing"
)

// TestDomainNotes checks the lines about the domains that a decision compared.
func TestDomainNotes(t *testing.T) {
	cluster := func() *build {
		b := clusterOf("gpu").node("a1", 8).node("a2", 8).node("b1", 8).node("b2", 8).node("c1", 8).node("c2", 8)
		return b.pod("p-a1", "a1", 5, 8).pod("p-b1", "b1", 7, 4).pod("p-b2", "b2", 7, 8).pod("p-c1", "c1", 30, 8).pod("p-c2", "c2", 30, 4)
	}
	racks := []string{"a", "a", "b", "b", "c", "c"}
	zones := []string{"z", "z", "z", "z", "z", "z"}
	tests := map[string]struct {
		members  int
		required []string
		levels   []TopologyLevel
		want     []string
	}{
		"no domain": {members: 2},
		"a required rack": {
			members: 2, required: racks,
			want: []string{
				"rack=a: all members share it",
				"rack=b: room for 0 of 2 now; at least 2 pods would be evicted",
				"rack=c: room for 0 of 2 now; in the way: 2 units protected by NotLowerPriority",
			},
		},
		"a required rack without room": {
			members: 3, required: racks,
			want: []string{
				"rack=a: room for 1 of 3 now, for 2 after preemption",
				"rack=b: room for 0 of 3 now, for 2 after preemption",
				"rack=c: room for 0 of 3 now; in the way: 2 units protected by NotLowerPriority",
			},
		},
		"a preferred rack that is too small": {
			members: 3, levels: []TopologyLevel{{Key: "rack", Of: racks}, {Key: "zone", Of: zones}},
			want: []string{
				"rack=a: room for 1 of 3 now, for 2 after preemption",
				"rack=b: room for 0 of 3 now, for 2 after preemption",
				"rack=c: room for 0 of 3 now; in the way: 2 units protected by NotLowerPriority",
				"zone=z: all members share it",
			},
		},
		"a preferred rack that no node has": {
			members: 1, levels: []TopologyLevel{{Key: "rack", Of: make([]string, 6)}},
			want: []string{"rack: NoPreferredDomain"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := gangOf(10, tt.members, members("m", tt.members, 0, 8))
			if p.Preferred = tt.levels; tt.required != nil {
				p.Domain = &TopologyLevel{Key: "rack", Of: tt.required}
			}
			d, err := Decide(cluster().snapshot(), p, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := DomainNotes(&d); !slices.Equal(got, tt.want) {
				t.Errorf("%s (%s)\ngot:\n%s\nwant:\n%s", d.Outcome, d.Message, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestDomainNotesOfClasses checks that a domain does not count the same room for the members of two
// classes.
func TestDomainNotesOfClasses(t *testing.T) {
	t.Parallel()
	b := clusterOf("gpu").node("a1", 8).node("b1", 8).node("b2", 8).node("b3", 8).node("c1", 8).node("c2", 8)
	b.pod("p-b1", "b1", 20, 8).pod("p-b2", "b2", 20, 8).pod("p-c1", "c1", 5, 8)
	p := gangOf(10, 3, members("m", 2, 0, 8), members("n", 1, 2, 7))
	racks := []string{"a", "b", "b", "b", "c", "c"}
	for name, c := range map[string]struct {
		set  func(p *Preemptor)
		want []string
	}{
		"required": {
			set: func(p *Preemptor) { p.Domain = &TopologyLevel{Key: "rack", Of: racks} },
			want: []string{
				"rack=c: room for 1 of 3 now, for 2 after preemption",
				"rack=a: room for 1 of 3 now",
				"rack=b: room for 1 of 3 now; in the way: 2 units protected by NotLowerPriority",
			},
		},
		"preferred, as things are": {
			set:  func(p *Preemptor) { p.Preferred = []TopologyLevel{{Key: "rack", Of: racks}} },
			want: []string{"rack=a: room for 1 of 3 now", "rack=b: room for 1 of 3 now", "rack=c: room for 1 of 3 now"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := *p
			c.set(&p)
			d, err := Decide(b.snapshot(), &p, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := DomainNotes(&d)
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("%s (%s)\ngot:\n%s\nwant:\n%s", d.Outcome, d.Message, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}
