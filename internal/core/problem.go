package core

import (
	"maps"
	"slices"
)

// problem is the input of one decision: the columns of the snapshot, the potential victims, and
// cached answers of the oracle.
type problem struct {
	s      *Snapshot
	p      *Preemptor
	oracle Oracle
	c      *columns
	dims   int
	limits Limits
	// begin is the assumed start of the run time for units whose Since is 0, in nanoseconds since
	// 1970. It is always the time of the decision, even if the search evaluates the policy for a
	// later time.
	begin int64
	// victims are the potential victims.
	victims potentialVictims
	// wanted is the request of one member of each class.
	wanted [][]int64
	// stateful is true for the classes that depend on other pods. anyStateful is true if there is
	// such a class.
	stateful    []bool
	anyStateful bool
	// topologies are the rules about domains, by class.
	topologies [][]Topology
	// admits caches Oracle.Admits by class and node. Copies of the problem share the cache.
	admits [][]admission
	// outside is true for the nodes that are in no domain that the members may use; nil without a
	// required domain.
	outside []bool
	// domains are the domains that the members may use. It is nil without a required domain, and in
	// a problem restricted to one domain.
	domains []domain
	// within is the domain that the problem is restricted to; nil for none.
	within *domain
	// thinned has an entry for each node with protected units: the nodeColumn without these units.
	thinned map[int32]*nodeColumn
	// meter counts the steps of the decision; nil to count none.
	meter *meter
}

// admission is a cached answer of Oracle.Admits.
type admission uint8

const (
	unasked admission = iota
	admitted
	refused
)

// newView returns the problem before potential victims are set.
func newView(s *Snapshot, p *Preemptor, oracle Oracle) *problem {
	c := s.columns
	if c == nil {
		c = newColumns(s)
	}
	if s.gangs == nil {
		indexed := *s
		indexed.gangs = newGangIndex(s)
		s = &indexed
	}
	if p.Order == OrderLostWork {
		counting := *s
		settings := settingsOf(&counting, p)
		counting.losses = newLosses(&counting, p.Now, settings)
		counting.losses.table = c.losses.of(&counting, c, settings)
		s = &counting
	}
	if p.CountsStops && len(c.having[traitStopped]) > 0 {
		s = s.countingStops(c, p.Now)
	}
	v := &problem{s: s, p: p, oracle: oracle, c: c, dims: c.dims, limits: DefaultLimits(), begin: p.Now, meter: &meter{}}
	if p.Limits != nil {
		v.limits = *p.Limits
	}
	v.wanted = make([][]int64, len(p.Classes))
	v.stateful = make([]bool, len(p.Classes))
	v.admits = make([][]admission, len(p.Classes))
	v.topologies = make([][]Topology, len(p.Classes))
	for i := range p.Classes {
		v.wanted[i] = make([]int64, c.dims)
		for r, a := range p.Classes[i].Request {
			v.wanted[i][r] = wantedAmount(a)
		}
		v.stateful[i] = oracle.Stateful(i)
		v.anyStateful = v.anyStateful || v.stateful[i]
		v.admits[i] = make([]admission, len(s.Nodes))
		if len(s.Nodes) > 0 {
			// Without nodes there are no domains, so skip the domains.
			v.topologies[i] = oracle.Topologies(i)
		}
	}
	v.split()
	return v
}

// narrowTo sets the potential victims.
func (v *problem) narrowTo(victims potentialVictims) {
	v.victims = victims
	v.thin()
}

// protecting returns a copy of the problem with the given units excluded from the potential
// victims.
func (v *problem) protecting(units []int32) *problem {
	w := *v
	w.victims.protected = maps.Clone(v.victims.protected)
	for _, u := range units {
		w.victims.protect(u)
	}
	w.thin()
	return &w
}

// thin computes thinned for the nodes with protected units.
func (v *problem) thin() {
	v.thinned = nil
	var mem scratch
	for u := range v.victims.protected {
		for i := range v.s.Units[u].Pods {
			n := v.s.Units[u].Pods[i].Node
			if n < 0 {
				continue
			}
			if v.thinned == nil {
				v.thinned = make(map[int32]*nodeColumn)
			}
			if v.thinned[int32(n)] == nil {
				v.thinned[int32(n)] = v.without(&v.c.nodes[n], &mem)
			}
		}
	}
}

// without returns a copy of a nodeColumn without the protected units.
func (v *problem) without(col *nodeColumn, mem *scratch) *nodeColumn {
	dims, n, protected := v.dims, 0, v.victims.protected
	for _, u := range col.units {
		if !protected[u] {
			n++
		}
	}
	thin := &nodeColumn{
		units: mem.numbers.take(n)[:0], priorities: mem.numbers.take(n)[:0], starts: mem.amounts.take(n)[:0],
		sums: mem.amounts.take((n + 1) * dims)[:dims], alone: col.alone,
	}
	clear(thin.sums)
	for i, u := range col.units {
		if protected[u] {
			continue
		}
		thin.units = append(thin.units, u)
		thin.priorities = append(thin.priorities, col.priorities[i])
		thin.starts = append(thin.starts, col.starts[i])
		thin.surplus += v.surplusAt(col, int32(i))
		before, after, last := col.sum(i, dims), col.sum(i+1, dims), thin.sum(len(thin.units)-1, dims)
		for r := range dims {
			thin.sums = append(thin.sums, last[r]+after[r]-before[r])
		}
	}
	return thin
}

// surplusAt returns the number of surplus pods of the unit at a position of the node.
func (v *problem) surplusAt(col *nodeColumn, pos int32) int {
	if col.surplus == 0 {
		return 0
	}
	return v.s.Units[col.units[pos]].surplusPods()
}

// surplusUpTo returns the number of surplus pods of the units on a node with priorities up to the
// given one.
func (v *problem) surplusUpTo(col *nodeColumn, priority int64) (pods int) {
	if col.surplus == 0 {
		return 0
	}
	for pos := range col.count(priority + 1) {
		pods += v.surplusAt(col, int32(pos))
	}
	return pods
}

// column returns the nodeColumn of a node without the protected units. Potential victims come
// first.
func (v *problem) column(node int32) *nodeColumn {
	if v.thinned != nil {
		if col := v.thinned[node]; col != nil {
			return col
		}
	}
	return &v.c.nodes[node]
}

// mayTake reports whether a unit is a potential victim.
func (v *problem) mayTake(u int32) bool {
	if int64(v.s.priority(u)) >= v.victims.below || len(v.s.Units[u].Pods) == 0 {
		return false
	}
	return !v.victims.protected[u]
}

// eligible lists the potential victims with priorities up to ceiling, in no particular order.
func (v *problem) eligible(ceiling int32) []int32 {
	var units []int32
	if v.within != nil {
		return slices.DeleteFunc(v.candidates(), func(u int32) bool { return v.s.priority(u) > ceiling || !v.mayTake(u) })
	}
	for u := range v.s.Units {
		if v.s.priority(int32(u)) <= ceiling && v.mayTake(int32(u)) {
			units = append(units, int32(u))
		}
	}
	return units
}

// admitsNode reports whether a node admits a class, and is in a domain that the members may use. It
// calls Oracle.Admits once per class and node.
func (v *problem) admitsNode(class int, node int32) bool {
	if len(v.outside) > 0 && v.outside[node] {
		return false
	}
	a := &v.admits[class][node]
	if *a == unasked {
		*a = admitted
		if v.oracle.Admits(class, int(node)) != "" {
			*a = refused
		}
	}
	return *a == admitted
}

// isKnownRefused reports whether a node is outside of the domains, or is already known not to admit
// a class. It never calls the oracle.
func (v *problem) isKnownRefused(class int, node int32) bool {
	return len(v.outside) > 0 && v.outside[node] || v.admits[class][node] == refused
}

// freeLater returns the free room of a node after the terminating pods are gone.
func (v *problem) freeLater(node int32) []int64 { return v.c.later[int(node)*v.dims:][:v.dims] }
