package core

import (
	"cmp"
	"slices"
)

// Topology is a hard rule of a class about the domains (zones, racks, hosts) that its members stand in. The search goes
// by it when it chooses nodes; whether a member passes is for Oracle.Fits to say.
type Topology struct {
	// Domains numbers the domain of each node, from 0; -1 stands for a node without one. Rules about the same domains
	// share the slice.
	Domains []int32
	// With are the classes of which a member has to be in the same domain already (required affinity): the class itself
	// where members stay together. Nil for any other rule.
	With []int
	// Spread has the count of pods that are to be spread over the domains evenly; nil for any other rule.
	Spread Spread
}

// Spread is how evenly pods are spread over domains in an Oracle's simulation state.
type Spread interface {
	// Count is how many pods there are in a domain.
	Count(domain int32) int
	// Takes reports whether one member more in the domain keeps within the greatest skew.
	Takes(domain int32) bool
}

// keepsSkew reports whether the spread of a class allows for one member more on a node. It is arithmetic, and spares the
// oracle most of its questions.
func (v *view) keepsSkew(class int, node int32) bool {
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

// confinement holds members to domains: by class, the nodes that they may stand on, all of them where that is nil.
type confinement [][]int32

// nodesFor are the nodes for members of a class, by name.
func (v *view) nodesFor(class int, within confinement) []int32 {
	if within == nil || within[class] == nil {
		return v.c.byName
	}
	return within[class]
}

// gathering is a set of classes of which members have to share a domain.
type gathering struct {
	domains []int32
	count   int32
	classes []int
}

// gatherings finds what the classes that are wanted have to share, the smallest domains first.
func (v *view) gatherings(ws []want) []gathering {
	wanted := make([]bool, len(v.p.Classes))
	for _, w := range ws {
		wanted[w.class] = true
	}
	var out []gathering
	for _, w := range ws {
		for _, r := range v.topologies[w.class] {
			if !slices.ContainsFunc(r.With, func(c int) bool { return wanted[c] }) {
				continue
			}
			at := slices.IndexFunc(out, func(g gathering) bool { return &g.domains[0] == &r.Domains[0] })
			if at < 0 {
				at = len(out)
				out = append(out, gathering{domains: r.Domains, count: slices.Max(r.Domains) + 1})
			}
			for _, c := range append(slices.Clone(r.With), w.class) {
				if wanted[c] && !slices.Contains(out[at].classes, c) {
					out[at].classes = append(out[at].classes, c)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b gathering) int { return cmp.Compare(b.count, a.count) })
	return out
}

// confinements are the ways to hold the classes that are wanted to single domains, as far as there is room: in domains
// with the least room to spare first. The last one is none at all, since pods that run already may be what members look
// for, and they may be in several domains.
func (t *simulation) confinements(ws []want) []confinement {
	gs := t.gatherings(ws)
	if len(gs) == 0 {
		return []confinement{nil}
	}
	nodes := make([][][]int32, len(gs))
	for i := range gs {
		nodes[i] = t.byDomain(&gs[i])
	}
	var out []confinement
	for _, d := range t.roomyDomains(&gs[0], nodes[0], ws) {
		c := make(confinement, len(t.p.Classes))
		for _, class := range gs[0].classes {
			c[class] = nodes[0][d]
		}
		for i := range gs[1:] {
			// Domains are nested, as racks are in zones: these are the ones around the smallest.
			g := &gs[i+1]
			around := g.domains[nodes[0][d][0]]
			for _, class := range g.classes {
				if around >= 0 && c[class] == nil {
					c[class] = nodes[i+1][around]
				}
			}
		}
		out = append(out, c)
	}
	return append(out, nil)
}

// byDomain lists the nodes of each domain, by name.
func (v *view) byDomain(g *gathering) [][]int32 {
	out := make([][]int32, g.count)
	for _, n := range v.c.byName {
		if d := g.domains[n]; d >= 0 {
			out[d] = append(out[d], n)
		}
	}
	return out
}

// roomyDomains lists the domains in which each class of a gathering has room as it stands, by how much there is.
func (t *simulation) roomyDomains(g *gathering, nodes [][]int32, ws []want) []int32 {
	var out []int32
	spare := make([]int, g.count)
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
		if enough {
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(a, b int32) int { return cmp.Compare(spare[a], spare[b]) })
	return out
}
