package core

import "slices"

// PreferredLevel is a label whose value the members of a gang should share, as in a RequiredDomain,
// but the members may be in several domains. Each domain is inside of one domain of each farther
// preferred level. Nodes with one value may be in several domains, which then have longer names.
type PreferredLevel struct {
	// Key is the label.
	Key string `json:"key"`
	// Homes are the domains of the members that already have a node, each once. It contains "" if
	// one of these nodes has no value of the label. Further members should join a home other than
	// "".
	Homes []string `json:"homes,omitempty"`
	// Of has the domain of each of Snapshot.Nodes, by index; "" for a node in no domain.
	Of []string `json:"-"`
}

// LevelRule selects between a near level and a low cost of victims.
type LevelRule string

const (
	// LowerCost uses the outcome with the lowest cost; among equals, the one at the nearest level.
	// Free room costs nothing. Room that terminating pods free costs less than any eviction. The
	// start of victims is compared only between the domains of one level.
	LowerCost LevelRule = ""
	// NearerLevel uses the nearest level that has an outcome, regardless of its cost.
	NearerLevel LevelRule = "NearerLevel"
)

// ObstacleNoPreferredDomain: no node has a value of the label. It applies to gangs without a placed
// member.
const ObstacleNoPreferredDomain DomainObstacle = "NoPreferredDomain"

// isHome reports whether further members should use a domain.
func (l *PreferredLevel) isHome(name string) bool {
	return name != "" && (len(l.Homes) == 0 || slices.Contains(l.Homes, name))
}

// confinement returns the domains of the level in the form of required domains, to search this
// level. If the gang also has required domains, each result lies inside one of them. A value inside
// several required domains is a separate domain in each of them.
func (l *PreferredLevel) confinement(required *RequiredDomain) *RequiredDomain {
	r := &RequiredDomain{Key: l.Key, Of: make([]string, len(l.Of))}
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
			// No label has a value with a slash.
			r.Of[n] = required.Of[n] + "/" + name
		}
	}
	return r
}

// hasDomain reports whether any of the given nodes, by index, has a value of the label.
func (l *PreferredLevel) hasDomain(nodes []int32) bool {
	return slices.ContainsFunc(nodes, func(n int32) bool { return l.Of[n] != "" })
}

// confined returns the problem for members that must share a domain. Both problems share the
// answers of the oracle.
func (v *problem) confined(to *RequiredDomain) *problem {
	w, p := *v, *v.p
	p.Domain = to
	w.p, w.domains, w.within = &p, nil, nil
	w.split()
	return &w
}
