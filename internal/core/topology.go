package core

import (
	"cmp"
	"slices"
)

// Topology is a hard rule of a class about the domains of its members, such as zones, racks or
// hosts. The search uses the rules to find nodes. Oracle.Fits makes the final decision.
type Topology struct {
	// Domains has the number of each node's domain, by the node's index; -1 for a node in no
	// domain. Numbers start at 0. Rules about the same domains share the slice.
	Domains []int32
	// With are the classes that must already have a member in the same domain (required affinity).
	// If all members of a class must be in one domain, With includes the class itself. With is nil
	// for other rules.
	With []int
	// Spread counts the pods for a rule that spreads pods evenly over the domains; nil for other
	// rules.
	Spread Spread
}

// Spread counts the pods in each domain, in an Oracle's simulated state.
type Spread interface {
	// Count returns the number of pods in a domain.
	Count(domain int32) int
	// Takes reports whether the maximum skew permits one more member in the domain.
	Takes(domain int32) bool
}

// keepsSkew reports whether the spread rules of a class permit one more member on a node. It is
// fast and makes most calls of Oracle.Fits unnecessary.
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

// held has the nodes that the members of one class may use.
type held struct {
	class int
	nodes []int32
}

// holds reports whether the confinement restricts a class.
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

// gathering is a set of classes whose members must share a domain. domains has the domain of each
// node, and count the number of domains.
type gathering struct {
	domains []int32
	count   int32
	classes []int
}

// gatherings returns the gatherings of the wanted classes, the gathering with the smallest domains
// first. Rules about the same domains are merged into one gathering if they have classes in common.
// Otherwise their classes may use two different domains.
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

// joined adds a set of classes to disjoint sets. It merges all sets that have a class in common
// with the new set.
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

// undivided reports whether all nodes are in one domain, so that a rule about these domains has no
// effect.
func (v *problem) undivided(domains []int32) bool {
	first := domains[v.c.byName[0]]
	return first >= 0 && !slices.ContainsFunc(v.c.byName, func(n int32) bool { return domains[n] != first })
}

// confinements returns a confinement for each domain where the first gathering has enough room. For
// the other gatherings, it has the domains around this domain. Domains without members come first,
// sorted by room, the least first. The last result is nil, for no restriction: running pods in
// several domains may satisfy the members' affinity. If the gatherings may use separate domains
// (scattered), nil is the only result.
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
			// domain.
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

// roomyDomains lists the domains where each class of a gathering has enough room if it is alone.
// Domains with placed members come last. The other domains are sorted by room, the least first.
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
