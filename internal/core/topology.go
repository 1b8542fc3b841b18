package core

import (
	"cmp"
	"slices"
)

// Topology is a hard rule of a class about the domains of its members, such as zones, racks or
// hosts. The search chooses nodes by it. Oracle.Fits makes the final decision.
type Topology struct {
	// Domains has, for each node, the number of its domain, from 0 on; -1 for a node without one.
	// Rules about the same domains share the slice.
	Domains []int32
	// With are the classes that must already have a member in the same domain (required affinity).
	// It includes the class itself if its members must be in one domain. It is nil for other rules.
	With []int
	// Spread counts the pods that the rule spreads evenly over the domains; nil for other rules.
	Spread Spread
}

// Spread is the number of pods in each domain, in an Oracle's simulated state.
type Spread interface {
	// Count returns the number of pods in a domain.
	Count(domain int32) int
	// Takes reports whether one more member in the domain stays within the maximum skew.
	Takes(domain int32) bool
}

// keepsSkew reports whether the spread rules of a class allow one more member on a node. It needs
// arithmetic only, and makes most questions to the oracle unnecessary.
func (v *problem) keepsSkew(class int, node int32) bool {
	for _, r := range v.topologies[class] {
		if r.Spread == nil {
			continue
		}
		if d := r.Domains[node]; d < 0 || !r.Spread.Takes(d) {
			return false
		}
	}
	return true
}

// confinement restricts the members of some classes to one domain per class. Other classes may use
// any node.
type confinement []held

// held has the only nodes that a confinement permits for the members of a class.
type held struct {
	class int
	nodes []int32
}

// holds reports whether a class is confined.
func (c confinement) holds(class int) bool {
	return slices.ContainsFunc(c, func(h held) bool { return h.class == class })
}

// nodesFor returns the nodes that members of a class may use, sorted by name.
func (v *problem) nodesFor(class int, within confinement) []int32 {
	for _, h := range within {
		if h.class == class {
			return h.nodes
		}
	}
	return v.c.byName
}

// gathering is a set of classes whose members must share a domain.
type gathering struct {
	domains []int32
	count   int32
	classes []int
}

// gatherings returns the gatherings of the wanted classes, those with the smallest domains first.
// Rules about the same domains are one gathering if common classes connect them. Otherwise their
// classes may use two different domains.
func (v *problem) gatherings(ws []want) []gathering {
	type rules struct {
		domains []int32
		sets    [][]int
	}
	var all []rules
	wanted := make([]bool, len(v.p.Classes))
	for _, w := range ws {
		wanted[w.class] = true
	}
	for _, w := range ws {
		for _, r := range v.topologies[w.class] {
			set := slices.DeleteFunc(slices.Clone(r.With), func(c int) bool { return !wanted[c] })
			if len(set) == 0 {
				continue
			}
			at := slices.IndexFunc(all, func(o rules) bool { return &o.domains[0] == &r.Domains[0] })
			if at < 0 {
				at = len(all)
				all = append(all, rules{domains: r.Domains})
			}
			all[at].sets = joined(all[at].sets, append(set, w.class))
		}
	}
	var out []gathering
	for _, r := range all {
		if v.undivided(r.domains) {
			continue
		}
		count := slices.Max(r.domains) + 1
		for _, set := range r.sets {
			out = append(out, gathering{domains: r.domains, count: count, classes: set})
		}
	}
	slices.SortStableFunc(out, func(a, b gathering) int { return cmp.Compare(b.count, a.count) })
	return out
}

// joined adds a set of classes to disjoint sets. It merges the new set with all sets that share a
// class with it.
func joined(sets [][]int, set []int) [][]int {
	var apart [][]int
	for _, s := range sets {
		if meet(s, set) {
			set = append(set, s...)
		} else {
			apart = append(apart, s)
		}
	}
	slices.Sort(set)
	return append(apart, slices.Compact(set))
}

// meet reports whether two sets of classes have a class in common.
func meet(a, b []int) bool {
	return slices.ContainsFunc(a, func(c int) bool { return slices.Contains(b, c) })
}

// undivided reports whether all nodes are in one domain, so that the members share it in any case.
func (v *problem) undivided(domains []int32) bool {
	first := domains[v.c.byName[0]]
	return first >= 0 && !slices.ContainsFunc(v.c.byName, func(n int32) bool { return domains[n] != first })
}

// confinements returns the ways to confine each gathering to one domain with enough room. Domains
// without members come first, then those with the least spare room. The last result is nil, for no
// confinement: members may join pods that already run, in several domains. It is the only result if
// some classes need not be together; see parties.
func (t *simulation) confinements(ws []want) []confinement {
	gs := t.gatherings(ws)
	if len(gs) == 0 || scattered(gs) {
		return []confinement{nil}
	}
	nodes := make([][][]int32, len(gs))
	for i := range gs {
		nodes[i] = t.byDomain(&gs[i])
	}
	var out []confinement
	for _, d := range t.roomyDomains(&gs[0], nodes[0], ws) {
		var c confinement
		for _, class := range gs[0].classes {
			c = append(c, held{class, nodes[0][d]})
		}
		for i := range gs[1:] {
			// Domains are nested, like racks in zones. Add the domains that contain the smallest
			// one.
			g := &gs[i+1]
			around := g.domains[nodes[0][d][0]]
			for _, class := range g.classes {
				if around >= 0 && !c.holds(class) {
					c = append(c, held{class, nodes[i+1][around]})
				}
			}
		}
		out = append(out, c)
	}
	return append(out, nil)
}

// byDomain lists the nodes of each domain of a gathering, sorted by name.
func (v *problem) byDomain(g *gathering) [][]int32 {
	out := make([][]int32, g.count)
	for _, n := range v.c.byName {
		if d := g.domains[n]; d >= 0 {
			out[d] = append(out[d], n)
		}
	}
	return out
}

// roomyDomains lists the domains where each class of a gathering has room now. Domains with members
// come last. The others are sorted by room, the least first.
func (t *simulation) roomyDomains(g *gathering, nodes [][]int32, ws []want) []int32 {
	var out []int32
	spare, taken := make([]int, g.count), make([]int, g.count)
	for d := range g.count {
		enough := len(nodes[d]) > 0
		for _, w := range ws {
			if !enough || !slices.Contains(g.classes, w.class) {
				continue
			}
			room := 0
			for _, n := range nodes[d] {
				room += t.roomFor(w.class, n, roomToCount)
			}
			enough = room >= w.count
			spare[d] += room
		}
		if !enough {
			continue
		}
		out = append(out, d)
		if slices.ContainsFunc(nodes[d], t.occupied) {
			taken[d] = 1
		}
	}
	slices.SortStableFunc(out, func(a, b int32) int {
		return cmp.Or(cmp.Compare(taken[a], taken[b]), cmp.Compare(spare[a], spare[b]))
	})
	return out
}
