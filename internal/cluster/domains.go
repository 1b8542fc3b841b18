package cluster

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// NodesOf returns the nodes of pods that are bound or assumed.
func (o *Placements) NodesOf(pods []*corev1.Pod) []string {
	var nodes []string
	for _, pod := range pods {
		if node := cmp.Or(pod.Spec.NodeName, o.records.NodeOf(string(pod.UID))); node != "" {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// Domain is a topology domain: the nodes with a value of a node label. The zero value contains all
// nodes.
type Domain struct{ key, value string }

// DomainOf returns the topology domain that further members of a gang must join. It is the domain
// of the first placed member whose node has the label; the zero value if there is none.
func (r *Index) DomainOf(key string, members []*corev1.Pod) Domain {
	if key == "" {
		return Domain{}
	}
	d := Domain{key: key}
	for _, member := range members {
		if node, err := r.Nodes.Get(member.Spec.NodeName); err == nil && node.Labels[key] != "" {
			d.value = node.Labels[key]
			break
		}
	}
	return d
}

// SplitOver returns a message if the members and reservations of a gang are in several topology
// domains although the gang requires one; "" otherwise. This happens if labels of nodes change
// after the gang was planned.
func (b *Ledger) SplitOver(key types.NamespacedName) string {
	g, ok := b.index.Groups.Group(key)
	if !ok || g.TopologyKey == "" {
		return ""
	}
	members := b.placements.Members(key)
	names := b.placements.NodesOf(slices.Concat(members.Assigned, members.Pending))
	for _, r := range b.reserved.Of(gang.KeyOf(key)) {
		names = append(names, r.Node)
	}
	first, of := "", ""
	for _, name := range names {
		node, err := b.index.Nodes.Get(name)
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

// Has reports whether a node is in the domain. A domain with a key and without a value contains no
// node.
func (d Domain) Has(node *corev1.Node) bool {
	return d.key == "" || d.value != "" && node.Labels[d.key] == d.value
}
