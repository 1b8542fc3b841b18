package scheduler

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
)

// nodesOf lists the nodes of pods that are bound or assumed.
func (h *Hub) nodesOf(pods []*corev1.Pod) []string {
	var nodes []string
	for _, pod := range pods {
		if node := cmp.Or(pod.Spec.NodeName, h.records.NodeOf(string(pod.UID))); node != "" {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// domain is a topology domain of nodes. The zero value contains all nodes.
type domain struct{ key, value string }

// domainOf returns the topology domain that the gang of a placed member must share; the zero value
// if the gang may use any node.
func (h *Hub) domainOf(key string, member *corev1.Pod) domain {
	if key == "" {
		return domain{}
	}
	d := domain{key: key}
	if node, err := h.nodes.Get(member.Spec.NodeName); err == nil {
		d.value = node.Labels[key]
	}
	return d
}

// has reports whether a node is in the domain. A domain without a value has no nodes.
func (d domain) has(node *corev1.Node) bool {
	return d.key == "" || d.value != "" && node.Labels[d.key] == d.value
}
