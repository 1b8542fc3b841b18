package core

import "slices"

// TopologyLevel is a node label whose value divides the nodes into topology domains, such as racks
// or zones. A gang may require that all its members are in one domain of a level, and prefer
// levels, the nearest first. A domain of a required level is the set of nodes with one value. At a
// preferred level, nodes with one value may be in several domains of a farther level. An example is
// two racks with the same name in two zones. Then each rack is a domain of its own, and its name
// includes the zone.
type TopologyLevel struct {
	// Key is the label.
	Key string `json:"key"`
	// Homes has the distinct domains of the members that already have a node. It contains "" if one
	// of these members is on a node in no domain. If the level is required, further members must
	// use the same domain. If the level is preferred, further members should use one of the domains
	// that have a name.
	Homes []string `json:"homes,omitempty"`
	// Of has the domain of each node in Snapshot.Nodes, by index; "" for a node in no domain.
	Of []string `json:"-"`
}

// LevelRule selects one of the outcomes that a gang has at its preferred levels.
type LevelRule string

const (
	// LowerCost uses the outcome with the lowest cost. Among equal costs, it uses the nearest
	// level. Free room has no cost. Room of terminating pods costs less than any eviction.
	// EarliestStart is not compared between levels.
	LowerCost LevelRule = ""
	// NearerLevel uses the nearest level with an outcome, regardless of the cost.
	NearerLevel LevelRule = "NearerLevel"
)

// ObstacleNoPreferredDomain: no node has the label of a preferred level. It applies only to gangs
// without a member that has a node.
const ObstacleNoPreferredDomain DomainObstacle = "NoPreferredDomain"

// isHome reports whether further members should use the domain with this name, if the level is
// preferred.
func (l *TopologyLevel) isHome(name string) bool {
	return name != "" && (len(l.Homes) == 0 || slices.Contains(l.Homes, name))
}

// confinement converts the domains of the level to required domains, to search this level. If the
// gang also requires a domain, nodes with one value in several required domains form several
// domains.
func (l *TopologyLevel) confinement(required *TopologyLevel) *TopologyLevel {
	r := &TopologyLevel{Key: l.Key, Of: make([]string, len(l.Of))}
	around, isShared := make(map[string]string), make(map[string]bool)
	for n, name := range l.Of {
		if !l.isHome(name) || required != nil && !required.mayUse(required.Of[n]) {
			continue
		}
		r.Of[n] = name
		if required == nil {
			continue
		}
		if first, seen := around[name]; seen && first != required.Of[n] {
			isShared[name] = true
		}
		around[name] = required.Of[n]
	}
	for n, name := range r.Of {
		if isShared[name] {
			// Separate the parts of the name by a slash. The name is then unique, because values of
			// labels contain no slash.
			r.Of[n] = required.Of[n] + "/" + name
		}
	}
	return r
}

// hasDomain reports whether any of the given nodes, by index, has a value of the label.
func (l *TopologyLevel) hasDomain(nodes []int32) bool {
	return slices.ContainsFunc(nodes, func(n int32) bool { return l.Of[n] != "" })
}

// confined returns a copy of the problem whose members must be in one domain of the given level.
// The copy shares the cached answers of the oracle with v.
func (v *problem) confined(to *TopologyLevel) *problem {
	w, p := *v, *v.p
	p.Domain = to
	w.p, w.domains, w.within = &p, nil, nil
	w.split()
	return &w
}
