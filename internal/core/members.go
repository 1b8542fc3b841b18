package core

import (
	"cmp"
	"maps"
	"slices"
)

// want is a class and the number of its members that must be placed.
type want struct{ class, count int }

// total returns the number of members in all wants.
func total(ws []want) int {
	n := 0
	for _, w := range ws {
		n += w.count
	}
	return n
}

// firstMembers selects the members with the lowest ranks, count in total. It returns the number of
// selected members of each class.
func firstMembers(classes []Class, count int) []int {
	type ranked struct {
		class  int
		member *Member
	}
	var all []ranked
	for c := range classes {
		for i := range classes[c].Members {
			all = append(all, ranked{class: c, member: &classes[c].Members[i]})
		}
	}
	slices.SortFunc(all, func(a, b ranked) int { return byRank(a.member, b.member) })
	counts := make([]int, len(classes))
	for _, m := range all[:min(count, len(all))] {
		counts[m.class]++
	}
	return counts
}

// byRole returns the number of members of each role, from the number of members of each class.
func (p *Preemptor) byRole(counts []int) map[string]int {
	out := make(map[string]int)
	for c, n := range counts {
		out[p.Classes[c].Role] += n
	}
	return out
}

// upTo lowers the count of each class to the needed number of its role. So surplus members of one
// role do not use the room that another role needs.
func (p *Preemptor) upTo(ws []want, needed map[string]int) []want {
	var out []want
	for _, w := range ws {
		if most := needed[p.Classes[w.class].Role]; most > 0 {
			out = append(out, want{class: w.class, count: min(w.count, most)})
		}
	}
	return out
}

// firstOfRoles selects the first placed members of each role, up to the needed number. It returns
// the number of selected members by class, and the number of needed members without a placement.
func (p *Preemptor) firstOfRoles(placements []placement, needed map[string]int) (counts []int, missing int) {
	counts, left := make([]int, len(p.Classes)), maps.Clone(needed)
	for _, n := range needed {
		missing += n
	}
	for _, st := range placements {
		if role := p.Classes[st.class].Role; left[role] > 0 {
			left[role]--
			counts[st.class]++
			missing--
		}
	}
	return counts, missing
}

// areEnough reports whether the placements include MinCount members and the needed number of each
// role.
func (p *Preemptor) areEnough(placements []placement) bool {
	if len(placements) < p.MinCount {
		return false
	}
	_, missing := p.firstOfRoles(placements, p.neededOfRoles())
	return missing == 0
}

// neededOfRoles returns the number of members that must be placed, by role.
func (p *Preemptor) neededOfRoles() map[string]int {
	return p.byRole(firstMembers(p.Classes, p.MinCount))
}

// neededFirst sorts indexes of placements. The first needed placements of each role come first,
// then the surplus. Both parts keep the given order.
func (p *Preemptor) neededFirst(order []int, placements []placement) []int {
	left := p.neededOfRoles()
	var needed, surplus []int
	for _, i := range order {
		if role := p.Classes[placements[i].class].Role; left[role] > 0 {
			left[role]--
			needed = append(needed, i)
		} else {
			surplus = append(surplus, i)
		}
	}
	return append(needed, surplus...)
}

// byRank compares members by rank, then by UID, then by name.
func byRank(a, b *Member) int {
	return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Name, b.Name))
}

// allMembers returns the number of members of each class.
func allMembers(classes []Class) []int {
	counts := make([]int, len(classes))
	for c := range classes {
		counts[c] = len(classes[c].Members)
	}
	return counts
}

// hardestFirst converts the counts of classes to wants, and sorts the classes by how hard they are
// to place. Stateful classes come first, then classes whose members request a large part of a node.
func (v *problem) hardestFirst(counts []int) []want {
	largest := make([]int64, v.dims)
	for n := range v.s.Nodes {
		for r, a := range v.s.Nodes[n].Allocatable {
			largest[r] = max(largest[r], roomAmount(a))
		}
	}
	share := func(class int) float64 {
		var most float64
		for r, a := range v.wanted[class] {
			if a > 0 && largest[r] > 0 {
				most = max(most, float64(a)/float64(largest[r]))
			}
		}
		return most
	}
	stateful := func(class int) int {
		if v.stateful[class] {
			return 0
		}
		return 1
	}
	var ws []want
	for c, n := range counts {
		if n > 0 {
			ws = append(ws, want{class: c, count: n})
		}
	}
	slices.SortFunc(ws, func(a, b want) int {
		return cmp.Or(
			cmp.Compare(stateful(a.class), stateful(b.class)),
			cmp.Compare(share(b.class), share(a.class)),
			slices.Compare(v.wanted[b.class], v.wanted[a.class]),
			byRank(v.first(a.class), v.first(b.class)),
		)
	})
	return ws
}

// first returns the member of a class with the lowest rank.
func (v *problem) first(class int) *Member {
	ms := v.p.Classes[class].Members
	lowest := &ms[0]
	for i := range ms {
		if byRank(&ms[i], lowest) < 0 {
			lowest = &ms[i]
		}
	}
	return lowest
}
