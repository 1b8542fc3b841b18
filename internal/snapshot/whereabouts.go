package snapshot

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// whereabouts has the nodes of the members of each PodGroup, as last read. With it, a change of a
// group costs time only for its members and not for all pods.
type whereabouts struct {
	// nodes maps groups to the nodes of their members, in no particular order.
	nodes map[types.NamespacedName][]string
	// groups maps nodes to the groups of their pods, sorted.
	groups map[string][]types.NamespacedName
}

func newWhereabouts() whereabouts {
	return whereabouts{nodes: make(map[types.NamespacedName][]string), groups: make(map[string][]types.NamespacedName)}
}

// set replaces the groups of the pods on a node. groups may be unsorted and have duplicates. set
// changes the slice.
func (w *whereabouts) set(node string, groups []types.NamespacedName) {
	slices.SortFunc(groups, byNamespaceAndName)
	now, before := slices.Compact(groups), w.groups[node]
	if slices.Equal(now, before) {
		return
	}
	for _, key := range before {
		if _, stays := slices.BinarySearchFunc(now, key, byNamespaceAndName); !stays {
			w.leave(node, key)
		}
	}
	for _, key := range now {
		if _, was := slices.BinarySearchFunc(before, key, byNamespaceAndName); !was {
			w.nodes[key] = append(w.nodes[key], node)
		}
	}
	if len(now) == 0 {
		delete(w.groups, node)
		return
	}
	w.groups[node] = slices.Clone(now)
}

// leave removes a node from the nodes of a group.
func (w *whereabouts) leave(node string, key types.NamespacedName) {
	nodes := w.nodes[key]
	at := slices.Index(nodes, node)
	last := len(nodes) - 1
	nodes[at] = nodes[last]
	nodes[last] = ""
	if last == 0 {
		delete(w.nodes, key)
		return
	}
	w.nodes[key] = nodes[:last]
}

func byNamespaceAndName(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
