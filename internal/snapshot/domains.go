package snapshot

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// PreferredLevels returns the domains of the nodes by several labels, the nearest level first, as
// RequiredDomain does, for a gang that prefers to share them. A domain is inside of one domain of
// each farther level. If nodes with the same value are in different domains there, the names of
// their domains begin with the values of the farther levels: "zone-a/rack-1".
func (v *View) PreferredLevels(keys, members []string) []core.PreferredLevel {
	levels := make([]core.PreferredLevel, 0, len(keys))
	for i, key := range keys {
		l := core.PreferredLevel{Key: key}
		l.Of, l.Homes = v.divide(members, v.namesIn(key, keys[i+1:], members))
		levels = append(levels, l)
	}
	return levels
}

// RequiredDomain returns the topology domains for a gang. They are the values of the label key on
// the nodes of the View, and on the nodes in members. If the View has none of the nodes in members,
// the domain of the members is unknown. It then counts as a node without the label.
func (v *View) RequiredDomain(key string, members []string) *core.RequiredDomain {
	r := &core.RequiredDomain{Key: key}
	r.Of, r.Homes = v.divide(members, func(labels map[string]string) string { return labels[key] })
	return r
}

// divide returns the domain of each slot, and the domains of the nodes in members, each once.
// nameOf returns the domain of a node by its labels; "" for none.
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

// namesIn returns the function for the name of a node's domain at a level, by its labels. farther
// has the labels of the farther levels, the nearest first.
func (v *View) namesIn(key string, farther, members []string) func(labels map[string]string) string {
	around, isShared := make(map[string]string), make(map[string]bool)
	for labels := range v.labels(members) {
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

// labels yields the labels of the nodes of the View, and of the nodes in members.
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

// path joins the values of labels, the last one first. No value of a label has a slash or a
// parenthesis, so different values have different paths.
func path(labels map[string]string, keys []string) string {
	values := make([]string, len(keys))
	for i, key := range slices.Backward(keys) {
		values[len(keys)-1-i] = cmp.Or(labels[key], "(none)")
	}
	return strings.Join(values, "/")
}
