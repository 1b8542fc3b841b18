package core

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// lanes are the nodes that a class may use, grouped by the domains of its topology spread
// constraints.
type lanes struct {
	// spread is true if the class has any spread constraint, regardless of the size of its domains.
	spread bool
	// rules are the spread constraints that define the lanes: those with several nodes per domain.
	// The constraint with the fewest domains comes first.
	rules []Topology
	lanes []lane
}

// manyDomains is the maximum number of domains of a constraint that defines lanes. With more
// domains, a domain is about as small as a node, so lanes take more time than they save. The search
// checks the skew for each node, with or without lanes.
const manyDomains = 64

// lane is a set of nodes. They are in the same domain of each constraint in lanes.rules.
type lane struct {
	index int
	// nodes has the nodes in the order to try them. The field at is the index of the node for the
	// next member.
	nodes []int32
	at    int
	// domains has the index of the lane's domain, for each of lanes.rules.
	domains []int32
}

// lanesOf groups nodes into lanes by the spread constraints of a class. If there is no constraint,
// all nodes are in one lane.
func (v *problem) lanesOf(class int, nodes []int32) *lanes {
	ls := &lanes{}
	for _, r := range v.topologies[class] {
		if r.Spread == nil {
			continue
		}
		ls.spread = true
		if domains := int(slices.Max(r.Domains)) + 1; domains <= manyDomains && domains < len(v.c.byName) {
			ls.rules = append(ls.rules, r)
		}
	}
	slices.SortStableFunc(ls.rules, func(a, b Topology) int { return cmp.Compare(slices.Max(a.Domains), slices.Max(b.Domains)) })
	at := make(map[string]int)
	for _, n := range nodes {
		domains := make([]int32, len(ls.rules))
		for i, r := range ls.rules {
			domains[i] = r.Domains[n]
		}
		key := keyOf(domains)
		i, ok := at[key]
		if !ok {
			i = len(ls.lanes)
			at[key] = i
			ls.lanes = append(ls.lanes, lane{domains: domains})
		}
		ls.lanes[i].nodes = append(ls.lanes[i].nodes, n)
	}
	ls.lanes = slices.DeleteFunc(ls.lanes, func(l lane) bool { return slices.Contains(l.domains, -1) })
	for i := range ls.lanes {
		ls.lanes[i].index = i
	}
	return ls
}

// keyOf returns a map key for numbers.
func keyOf(numbers []int32) string {
	key := make([]byte, 0, 4*len(numbers))
	for _, n := range numbers {
		key = binary.LittleEndian.AppendUint32(key, uint32(n))
	}
	return string(key)
}

// next returns the lane for the next member; nil if there is none. Only lanes with nodes left and
// with a permitted skew are considered. The lane whose domains have the fewest pods comes first.
func (ls *lanes) next() *lane {
	var best *lane
	for i := range ls.lanes {
		if l := &ls.lanes[i]; l.at < len(l.nodes) && ls.takes(l) && (best == nil || ls.emptier(l, best)) {
			best = l
		}
	}
	return best
}

// takes reports whether the skew is still permitted after one more member in the lane.
func (ls *lanes) takes(l *lane) bool {
	for i, r := range ls.rules {
		if !r.Spread.Takes(l.domains[i]) {
			return false
		}
	}
	return true
}

// emptier reports whether the domains of lane a have fewer pods than the domains of lane b. It
// compares the domains of one constraint after the other; the constraint with the fewest domains
// comes first.
func (ls *lanes) emptier(a, b *lane) bool {
	for i, r := range ls.rules {
		if x, y := r.Spread.Count(a.domains[i]), r.Spread.Count(b.domains[i]); x != y {
			return x < y
		}
	}
	return false
}

// startOver makes all nodes of all lanes available again.
func (ls *lanes) startOver() {
	for i := range ls.lanes {
		ls.lanes[i].at = 0
	}
}
