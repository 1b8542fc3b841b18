package core

import "slices"

// ShareIn replaces the fair shares of the queues with their shares in a set of nodes. The set may
// differ by resource: the function has reports whether a node belongs to the set. The usage of a
// queue still includes all nodes, so ShareIn adds the usage on other nodes to the queue's share.
// held has the reserved room that already counts as usage of queues, by node name, as in
// [Cluster.Snapshot].
func (s *Snapshot) ShareIn(shares []Amounts, has func(node string, resource int) bool, held map[string][]Hold) {
	t, dims := s.Queues.Tree, s.Queues.Tree.Dims()
	elsewhere := make([]int64, t.Len()*dims)
	beyond := func(node string, request Amounts) Amounts {
		var out Amounts
		for r, v := range request {
			if v != 0 && !has(node, r) {
				if out == nil {
					out = make(Amounts, dims)
				}
				out[r] = v
			}
		}
		return out
	}
	leaves := s.leaves()
	for u, leaf := range leaves {
		if leaf < 0 {
			continue
		}
		for i := range s.Units[u].Pods {
			pod := &s.Units[u].Pods[i]
			t.Use(elsewhere, leaf, beyond(s.Nodes[pod.Node].Name, pod.Request), 1)
		}
	}
	for node, holds := range held {
		for i := range holds {
			if len(holds[i].Request) == dims {
				t.Use(elsewhere, t.LeafOf(holds[i].Queue), beyond(node, holds[i].Request), 1)
			}
		}
	}
	queues := *s.Queues
	queues.Shares = make([]Amounts, len(shares))
	for q := range shares {
		queues.Shares[q] = slices.Clone(shares[q])
		for r := range queues.Shares[q] {
			queues.Shares[q][r] += elsewhere[q*dims+r]
		}
	}
	s.Queues = &queues
}

// leaves returns the index of the leaf queue of each unit; -1 for a unit in no queue.
func (s *Snapshot) leaves() []int32 {
	if s.columns != nil && s.columns.index != nil {
		return s.columns.index.leaves
	}
	return newLeafIndex(s).leaves
}
