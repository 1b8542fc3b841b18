package core

import (
	"cmp"
	"maps"
	"slices"
)

// want is the number of members of a class that must be placed.
type want struct{ class, count int }

// total returns the number of members wanted.
func total(ws []want) int {
	n := 0
	for _, w := range ws {
		n += w.count
	}
	return n
}

// firstMembers returns, for each class, how many of the first count members by rank belong to it.
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

// byRole adds up counts of members by class, and returns the sum for each role.
func (p *Preemptor) byRole(counts []int) map[string]int {
	out := make(map[string]int)
	for c, n := range counts {
		out[p.Classes[c].Role] += n
	}
	return out
}

// upTo lowers the count of each class to the number of members that their role needs. So the
// surplus of one role does not block another.
func (p *Preemptor) upTo(ws []want, needed map[string]int) []want {
	var out []want
	for _, w := range ws {
		if most := needed[p.Classes[w.class].Role]; most > 0 {
			out = append(out, want{class: w.class, count: min(w.count, most)})
		}
	}
	return out
}

// firstOfRoles selects the first placed members of each role, up to the number that the role needs.
// It returns their counts by class, and how many members are missing.
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

// areEnough reports whether the placed members include MinCount members and enough of each role.
func (p *Preemptor) areEnough(placements []placement) bool {
	if len(placements) < p.MinCount {
		return false
	}
	_, missing := p.firstOfRoles(placements, p.neededOfRoles())
	return missing == 0
}

// neededOfRoles returns, for each role, how many members must be placed.
func (p *Preemptor) neededOfRoles() map[string]int {
	return p.byRole(firstMembers(p.Classes, p.MinCount))
}

// neededFirst sorts placed members, given by index, so that the needed members of each role come
// first. MinCount counts members in this order. Within both parts, the order stays the same.
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

// byRank compares members by rank, then by UID and name.
func byRank(a, b *Member) int {
	return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Name, b.Name))
}

// allMembers counts every member, by class.
func allMembers(classes []Class) []int {
	counts := make([]int, len(classes))
	for c := range classes {
		counts[c] = len(classes[c].Members)
	}
	return counts
}

// hardestFirst sorts the counts of classes so that the members that are hardest to place come
// first. These are members that depend on other pods, then members that request the largest part of
// a node.
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

// first returns the first member of a class by rank.
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
