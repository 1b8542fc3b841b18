package snapshot

import (
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// PreferredLevel returns the domains of the nodes by the value of a label, as RequiredDomain does,
// for a gang that prefers one of them.
func (v *View) PreferredLevel(key string, members []string) core.PreferredLevel {
	return core.PreferredLevel(*v.RequiredDomain(key, members))
}

// RequiredDomain returns the topology domains for a gang. They are the values of the label key on
// the nodes of the View, and on the nodes in members. If the View has none of the nodes in members,
// the domain of the members is unknown. It then counts as a node without the label.
func (v *View) RequiredDomain(key string, members []string) *core.RequiredDomain {
	r := &core.RequiredDomain{Key: key, Of: make([]string, len(v.Cluster.Nodes))}
	for slot := range r.Of {
		if info := v.NodeInfo(slot); info != nil {
			r.Of[slot] = info.Node().Labels[key]
		}
	}
	for _, node := range members {
		if info := v.nodes[node].info; info != nil {
			r.Homes = append(r.Homes, info.Node().Labels[key])
		}
	}
	if len(members) > 0 && len(r.Homes) == 0 {
		r.Homes = []string{""}
	}
	slices.Sort(r.Homes)
	r.Homes = slices.Compact(r.Homes)
	return r
}
