package whatif

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// labelDomain is a node label that only the inventory of a forecast has. Its value is the name of
// the node's domain at one topology level of a gang. So the labels of the cluster stay as they are,
// and filters that use them decide as before.
const labelDomain = "whatif.reprieve.dev/domain"

// topologyLevel is a preferred or required topology level of a gang.
type topologyLevel struct {
	// key is the label of the level.
	key string
	// domainOf maps a node to its domain. It leaves out nodes in no domain, and nodes that the
	// members cannot use, because other members are in another domain.
	domainOf map[string]string
}

// topologyLevels returns the topology levels of a preemptor, the nearest first. It leaves out
// levels without a domain, and levels where placed members are in several domains or outside of all
// domains. If the required level must be left out for one of these reasons, the result is nil.
func topologyLevels(nodes []*corev1.Node, p *core.Preemptor) []topologyLevel {
	if p.Domain != nil && !isSearchable(p.Domain.Homes) {
		return nil
	}
	keys := make([]string, len(p.Preferred))
	for i := range p.Preferred {
		keys[i] = p.Preferred[i].Key
	}
	var out []topologyLevel
	add := func(l topologyLevel) {
		if len(l.domainOf) > 0 {
			out = append(out, l)
		}
	}
	for i := range p.Preferred {
		if homes := p.Preferred[i].Homes; isSearchable(homes) {
			add(preferredLevel(nodes, keys[i], keys[i+1:], homes, p.Domain))
		}
	}
	if p.Domain != nil {
		l := topologyLevel{key: p.Domain.Key, domainOf: make(map[string]string)}
		for _, node := range nodes {
			if name := node.Labels[l.key]; mayUse(name, p.Domain.Homes) {
				l.domainOf[node.Name] = name
			}
		}
		add(l)
	}
	return out
}

// isSearchable reports whether a forecast can search the domains of a level. This is so if no
// member is placed, or if all placed members are in one domain. homes has the domains of the placed
// members.
func isSearchable(homes []string) bool {
	return len(homes) == 0 || len(homes) == 1 && homes[0] != ""
}

// mayUse reports whether further members may use a domain, if the placed members are in homes.
func mayUse(name string, homes []string) bool {
	return name != "" && (len(homes) == 0 || slices.Contains(homes, name))
}

// preferredLevel returns a preferred level. key is its label, and farther has the labels of the
// farther preferred levels. required is the required domain; nil for none. The names of domains are
// the names in decisions.
func preferredLevel(nodes []*corev1.Node, key string, farther, homes []string, required *core.TopologyLevel) topologyLevel {
	nameOf := snapshot.DomainNames(key, farther, labelsOf(nodes))
	l := topologyLevel{key: key, domainOf: make(map[string]string)}
	around, isShared := make(map[string]string), make(map[string]bool)
	for _, node := range nodes {
		name := nameOf(node.Labels)
		if !mayUse(name, homes) || required != nil && !mayUse(node.Labels[required.Key], required.Homes) {
			continue
		}
		l.domainOf[node.Name] = name
		if required == nil {
			continue
		}
		if first, seen := around[name]; seen && first != node.Labels[required.Key] {
			isShared[name] = true
		}
		around[name] = node.Labels[required.Key]
	}
	for _, node := range nodes {
		if name := l.domainOf[node.Name]; isShared[name] {
			l.domainOf[node.Name] = node.Labels[required.Key] + "/" + name
		}
	}
	return l
}

func labelsOf(nodes []*corev1.Node) iter.Seq[map[string]string] {
	return func(yield func(map[string]string) bool) {
		for _, node := range nodes {
			if !yield(node.Labels) {
				return
			}
		}
	}
}

// view returns the source of groups for the forecast's decisions.
func (f *forecast) view(groups gang.Source) gang.Source {
	if f.divided == nil {
		return groups
	}
	return dividedGroups{Source: groups, group: *f.divided}
}

// dividedGroups is a source of groups where one group requires a domain of labelDomain. That group
// has no other topology levels.
type dividedGroups struct {
	gang.Source
	group types.NamespacedName
}

// Group returns the group with the key, and whether it exists.
func (s dividedGroups) Group(key types.NamespacedName) (*gang.Group, bool) {
	g, ok := s.Source.Group(key)
	if !ok || key != s.group {
		return g, ok
	}
	divided := *g
	divided.TopologyKey, divided.PreferredKeys = labelDomain, nil
	return &divided, true
}
