package core

import "slices"

// PreferredLevel is a label whose value the members of a gang should share, as in a RequiredDomain,
// but the members may be in several domains. Each domain is inside of one domain of each farther
// preferred level. Nodes with one value may be in several domains, which then have longer names.
type PreferredLevel struct {
	// Key is the label.
	Key string `json:"key"`
	// Homes are the domains of the members that already have a node, each once. It contains "" if
	// one of these nodes is in no domain. Further members should join one of the others.
	Homes []string `json:"homes,omitempty"`
	// Of has the domain of each of Snapshot.Nodes, by index; "" for a node in no domain.
	Of []string `json:"-"`
}

// LevelRule weighs preferred levels against the cost of victims.
type LevelRule string

const (
	// LowerCost uses the outcome with the lowest cost, and of equals the one at the nearest level.
	// Room as things are costs least, then room once terminating pods are gone. The start of
	// victims is no cost. It decides between the domains of one level only.
	LowerCost LevelRule = ""
	// NearerLevel uses the nearest level that has an outcome, at any cost.
	NearerLevel LevelRule = "NearerLevel"
)

// ObstacleNoPreferredDomain: no node has a value of the label. It applies to gangs without a member
// that has a node.
const ObstacleNoPreferredDomain DomainObstacle = "NoPreferredDomain"

// isHome reports whether further members should use a domain.
func (l *PreferredLevel) isHome(name string) bool {
	return name != "" && (len(l.Homes) == 0 || slices.Contains(l.Homes, name))
}

// confinement returns the domains of the level, inside of the required ones, as the only domains
// for the members. A value inside of several required domains is one domain in each of them.
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

// hasDomain reports whether any of some nodes, by index, has a value of the label.
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
