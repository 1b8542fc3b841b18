package snapshot

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// PreferredLevels returns the topology domains for a gang whose members prefer to be in one domain.
// It returns the domains for each of the label keys, the nearest level first; see
// [View.RequiredDomain]. A domain is always inside one domain of each farther level. The same label
// value may occur in several domains of a farther level. The names of such domains then begin with
// the values of the farther levels: "zone-a/rack-1".
func (v *View) PreferredLevels(keys, members []string) []core.TopologyLevel {
	levels := make([]core.TopologyLevel, 0, len(keys))
	for i, key := range keys {
		l := core.TopologyLevel{Key: key}
		l.Of, l.Homes = v.divide(members, DomainNames(key, keys[i+1:], v.labels(members)))
		levels = append(levels, l)
	}
	return levels
}

// RequiredDomain returns the topology domains for a gang: the values of the label key on the nodes
// of the View. members are the nodes of the gang's members. If the View has none of these nodes,
// the domain of the members is unknown. This has the same effect as nodes without the label.
func (v *View) RequiredDomain(key string, members []string) *core.TopologyLevel {
	r := &core.TopologyLevel{Key: key}
	r.Of, r.Homes = v.divide(members, func(labels map[string]string) string { return labels[key] })
	return r
}

// divide returns the domain of each node by slot, and the distinct domains of the nodes in members.
// nameOf returns the domain for the labels of a node; "" for none.
func (v *View) divide(members []string, nameOf func(labels map[string]string) string) (of, homes []string) {
	of = make([]string, len(v.Cluster.Nodes))
	for slot := range of {
		if info := v.NodeInfo(slot); info != nil {
			of[slot] = nameOf(info.Node().Labels)
		}
	}
	for _, node := range members {
		if info := v.nodes[node].info; info != nil {
			homes = append(homes, nameOf(info.Node().Labels))
		}
	}
	if len(members) > 0 && len(homes) == 0 {
		homes = []string{""}
	}
	slices.Sort(homes)
	return of, slices.Compact(homes)
}

// DomainNames returns a function from the labels of a node to the name of its domain at a preferred
// level; "" for none. key is the label of the level. farther has the labels of the farther levels,
// the nearest first. nodes has the labels of all nodes.
func DomainNames(key string, farther []string, nodes iter.Seq[map[string]string]) func(labels map[string]string) string {
	around, isShared := make(map[string]string), make(map[string]bool)
	for labels := range nodes {
		name := labels[key]
		if first, seen := around[name]; !seen {
			around[name] = path(labels, farther)
		} else if first != path(labels, farther) {
			isShared[name] = true
		}
	}
	return func(labels map[string]string) string {
		name := labels[key]
		if name == "" || !isShared[name] {
			return name
		}
		return path(labels, farther) + "/" + name
	}
}

// labels iterates over the labels of the nodes of the View, and then of the nodes in members.
func (v *View) labels(members []string) iter.Seq[map[string]string] {
	return func(yield func(map[string]string) bool) {
		for slot := range v.Cluster.Nodes {
			if info := v.NodeInfo(slot); info != nil && !yield(info.Node().Labels) {
				return
			}
		}
		for _, node := range members {
			if info := v.nodes[node].info; info != nil && !yield(info.Node().Labels) {
				return
			}
		}
	}
}

// path joins the values of the labels with slashes, the last key first. Label values contain
// neither slashes nor parentheses, so different values have different paths.
func path(labels map[string]string, keys []string) string {
	values := make([]string, len(keys))
	for i, key := range slices.Backward(keys) {
		values[len(keys)-1-i] = cmp.Or(labels[key], "(none)")
	}
	return strings.Join(values, "/")
}
