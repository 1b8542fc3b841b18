package queue

import "github.com/reprieve-dev/reprieve/internal/core/fairshare"

// Next picks the leaf whose work is to be tried next, of those that waiting names; see [fairshare.Standing.Next].
// Underway is what has been let through, by leaf, and has no node yet. It reports false where none of the leaves is in
// the tree.
func (s *Standing) Next(waiting []string, underway map[string]Amounts) (string, bool) {
	leaves := make([]int32, 0, len(waiting))
	for _, name := range waiting {
		if leaf := s.Tree.LeafOf(name); leaf >= 0 {
			leaves = append(leaves, leaf)
		}
	}
	next, ok := s.Standing.Next(leaves, s.byLeaf(underway))
	if !ok {
		return "", false
	}
	return s.Tree.Queue(next).Name, true
}

// HasLeaf reports whether work can be in a queue.
func (s *Standing) HasLeaf(name string) bool { return s.Tree.LeafOf(name) >= 0 }

// Within is for how many of some pods of a leaf, the first ones, its fair share and those of the queues above it have
// room. Underway is what counts as allocated beside what is, by leaf.
func (s *Standing) Within(leaf string, requests []Amounts, underway map[string]Amounts) int {
	at, ok := s.Tree.Find(leaf)
	if !ok {
		return len(requests)
	}
	vectors := make([]fairshare.Amounts, len(requests))
	for i, request := range requests {
		vectors[i] = request.vector(s.Names, 0)
	}
	return s.Standing.Within(at, vectors, s.byLeaf(underway))
}

// byLeaf has amounts by queue in the tree; what is of no such queue is left out.
func (s *Standing) byLeaf(amounts map[string]Amounts) map[int32]fairshare.Amounts {
	out := make(map[int32]fairshare.Amounts, len(amounts))
	for name, a := range amounts {
		if q, ok := s.Tree.Find(name); ok {
			out[q] = a.vector(s.Names, 0)
		}
	}
	return out
}
