package core

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// DomainObstacle is the reason why no domain can be searched.
type DomainObstacle string

const (
	// ObstacleNoDomain: no node has a value of the label.
	ObstacleNoDomain DomainObstacle = "NoDomain"
	// ObstacleSeveralHomes: the members that have a node are in more than one domain.
	ObstacleSeveralHomes DomainObstacle = "SeveralHomes"
	// ObstacleNoHome: the members that have a node are on nodes without the label, or no node of
	// their domain accepts pods.
	ObstacleNoHome DomainObstacle = "NoHome"
)

// domain is one topology domain that the members may use.
type domain struct {
	name string
	// nodes are sorted by name.
	nodes []int32
}

// mayUse reports whether a gang that requires this level may place members in the domain with this
// name.
func (l *TopologyLevel) mayUse(name string) bool {
	return name != "" && (len(l.Homes) == 0 || len(l.Homes) == 1 && l.Homes[0] == name)
}

// obstacle returns the reason why the members cannot use any of the given domains of a required
// level; "" if they can use one.
func (l *TopologyLevel) obstacle(domains []domain) DomainObstacle {
	switch {
	case len(l.Homes) > 1:
		return ObstacleSeveralHomes
	case len(domains) > 0:
		return ""
	case len(l.Homes) == 1:
		return ObstacleNoHome
	default:
		return ObstacleNoDomain
	}
}

// sentence describes an obstacle for a message.
func (l *TopologyLevel) sentence(o DomainObstacle) string {
	switch {
	case o == ObstacleSeveralHomes:
		homes := make([]string, len(l.Homes))
		for i, home := range l.Homes {
			homes[i] = cmp.Or(home, "none")
		}
		return fmt.Sprintf("the members that run must share one value of the node label %s, and are in several: %s", l.Key, strings.Join(homes, ", "))
	case o == ObstacleNoHome && l.Homes[0] == "":
		return fmt.Sprintf("members run on nodes without a value of the label %s, so the others have no domain to join", l.Key)
	case o == ObstacleNoHome:
		return fmt.Sprintf("members run on nodes with %s=%s, and no node with that label can be used", l.Key, l.Homes[0])
	default:
		return fmt.Sprintf("the members must share one value of the node label %s, and no node has one", l.Key)
	}
}

// split groups the nodes by domain into v.domains. It marks all other nodes as outside.
func (v *problem) split() {
	r := v.p.Domain
	if r == nil {
		return
	}
	at := make(map[string]int)
	v.domains, v.outside = make([]domain, 0), make([]bool, len(v.s.Nodes))
	for _, n := range v.c.byName {
		name := r.Of[n]
		if !r.mayUse(name) {
			v.outside[n] = true
			continue
		}
		i, known := at[name]
		if !known {
			i = len(v.domains)
			at[name] = i
			v.domains = append(v.domains, domain{name: name})
		}
		v.domains[i].nodes = append(v.domains[i].nodes, n)
	}
	slices.SortFunc(v.domains, func(a, b domain) int { return strings.Compare(a.name, b.name) })
}

// refusal returns the reason why a node can never admit a member of a class; "" if the node can.
func (v *problem) refusal(class int, node int32) string {
	if r := v.p.Domain; r != nil && !r.mayUse(r.Of[node]) {
		if r.Of[node] == "" {
			return "without a value of the label " + r.Key
		}
		return "outside of the members' " + r.Key
	}
	return v.oracle.Admits(class, int(node))
}

// in returns the problem restricted to the nodes of a domain. The potential victims are the units
// with a pod in the domain. If a class is stateful, units elsewhere that affect the members'
// filters are potential victims too (Oracle.Touches).
func (v *problem) in(d *domain) *problem {
	w := v.inNodesOf(d)
	w.victims.count = len(w.eligible(int32(w.victims.below - 1)))
	return w
}

// candidates returns the sorted indexes of the units that may be potential victims in a problem
// restricted to a domain.
func (v *problem) candidates() []int32 {
	var units []int32
	for _, n := range v.within.nodes {
		units = append(units, v.c.nodes[n].units...)
	}
	if v.anyStateful {
		for u := range v.s.Units {
			if len(v.s.Units[u].Pods) > 0 && v.oracle.Touches(u) {
				units = append(units, int32(u))
			}
		}
	}
	slices.Sort(units)
	return slices.Compact(units)
}

// within returns the search restricted to a domain. If d is nil, it returns sr itself.
func (sr *search) within(d *domain) *search {
	if d == nil {
		return sr
	}
	sub := *sr
	sub.v = sr.v.in(d)
	return &sub
}

// hasRoom reports whether the preemptor fits if all potential victims are evicted.
func (sr *search) hasRoom() bool {
	if sr.v.domains == nil {
		t := newSimulation(sr.v, sr.v.c.later)
		defer t.allBack()
		_, ok := sr.insist(t)
		return ok
	}
	b := sr.newDomainBounds()
	for i := range sr.v.domains {
		d := &sr.v.domains[i]
		if b.membersUpTo(d, b.top()) >= b.need && sr.within(d).hasRoom() {
			return true
		}
	}
	return false
}

// freeViews returns the problems to try one after the other when members are placed without
// victims. Without a required domain, the only problem is v. Otherwise there is one problem for
// each domain that may have enough room. Their order:
//
//  1. domains with nodes that an earlier decision nominated
//  2. domains with room for more members
//  3. domains with fewer places, so the fullest first
//  4. domains with more nodes
func (v *problem) freeViews(free []int64) iter.Seq[*problem] {
	if v.domains == nil {
		return slices.Values([]*problem{v})
	}
	type candidate struct {
		d                      *domain
		nominated, fit, places int
	}
	nominated := make(map[string]bool, len(v.p.Nominated))
	for _, p := range v.p.Nominated {
		nominated[p.Node] = true
	}
	var all []candidate
	for i := range v.domains {
		one := candidate{d: &v.domains[i]}
		fit, places := v.placesIn(one.d, free)
		if fit < max(v.p.MinCount, 1) {
			continue
		}
		one.fit, one.places = fit, places
		for _, n := range one.d.nodes {
			if nominated[v.s.Nodes[n].Name] {
				one.nominated++
			}
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(b.nominated, a.nominated), cmp.Compare(b.fit, a.fit), cmp.Compare(a.places, b.places),
			cmp.Compare(len(b.d.nodes), len(a.d.nodes)), strings.Compare(a.d.name, b.d.name))
	})
	return func(yield func(*problem) bool) {
		for _, one := range all {
			if !yield(v.inNodesOf(one.d)) {
				return
			}
		}
	}
}

// inNodesOf returns the problem restricted to the nodes of a domain. The potential victims stay the
// same. For a search for victims, use [problem.in].
func (v *problem) inNodesOf(d *domain) *problem {
	w := *v.on(d.nodes)
	w.domains, w.within = nil, d
	return &w
}

// placesIn returns two numbers for a domain. fit is an upper bound of the number of members that
// fit together. places is the number of members that fit if each class is counted alone.
func (v *problem) placesIn(d *domain, free []int64) (fit, places int) {
	for c := range v.wanted {
		ofClass := 0
		if len(v.p.Classes[c].Members) == 0 {
			continue
		}
		for _, n := range d.nodes {
			if !v.c.sound[n] {
				continue
			}
			if count := howMany(v.wanted[c], free[int(n)*v.dims:][:v.dims], roomToCount); count > 0 && v.admitsNode(c, n) {
				ofClass += count
			}
		}
		fit += min(ofClass, len(v.p.Classes[c].Members))
		places += ofClass
	}
	return fit, places
}
