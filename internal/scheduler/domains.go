package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodesOf lists the nodes of pods that are bound or assumed.
func (o *placements) nodesOf(pods []*corev1.Pod) []string {
	var nodes []string
	for _, pod := range pods {
		if node := cmp.Or(pod.Spec.NodeName, o.records.NodeOf(string(pod.UID))); node != "" {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// domain is a topology domain of nodes. The zero value contains all nodes.
type domain struct{ key, value string }

// domainOf returns the topology domain that further members of a gang must join; the zero value if
// they may use any node. The first placed member on a node with the label determines the domain.
func (r *clusterIndex) domainOf(key string, members []*corev1.Pod) domain {
	if key == "" {
		return domain{}
	}
	d := domain{key: key}
	for _, member := range members {
		if node, err := r.nodes.Get(member.Spec.NodeName); err == nil && node.Labels[key] != "" {
			d.value = node.Labels[key]
			break
		}
	}
	return d
}

// splitOver returns a message if the nodes of a gang's members and reservations are in several
// domains, although the gang requires one. Labels of nodes may have changed since the gang was
// planned. It returns "" for other gangs.
func (b *ledger) splitOver(key types.NamespacedName) string {
	g, ok := b.groups.Group(key)
	if !ok || g.TopologyKey == "" {
		return ""
	}
	members := b.members(key)
	names := b.nodesOf(slices.Concat(members.Assigned, members.Pending))
	for _, r := range b.reserved.Of(gangKey(key)) {
		names = append(names, r.Node)
	}
	first, of := "", ""
	for _, name := range names {
		node, err := b.nodes.Get(name)
		if err != nil {
			continue
		}
		switch value := node.Labels[g.TopologyKey]; {
		case value == "":
			return fmt.Sprintf("node %s has no label %s any more", name, g.TopologyKey)
		case first == "":
			first, of = name, value
		case value != of:
			return fmt.Sprintf("nodes %s and %s are in the domains %q and %q of the label %s now", first, name, of, value, g.TopologyKey)
		}
	}
	return ""
}

// has reports whether a node is in the domain. A domain without a value has no nodes.
func (d domain) has(node *corev1.Node) bool {
	return d.key == "" || d.value != "" && node.Labels[d.key] == d.value
}
