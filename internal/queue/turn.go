package queue

import "github.com/reprieve-dev/reprieve/internal/core/fairshare"

// Asker is a queue with work that waits, and the request of the workload that goes next in it.
type Asker struct {
	Queue   string
	Request Amounts
	// Kind is [KindOf] its pods; "" where that is not known.
	Kind string
}

// Next picks the leaf whose work is to be tried next, of those that wait; see [fairshare.Standing.Next].
// Underway is what has been let through, by leaf, and has no node yet. It reports false where none of the leaves is in
// the tree.
func (s *Standing) Next(waiting []Asker, underway map[string]Amounts) (string, bool) {
	askers := make([]fairshare.Asker, 0, len(waiting))
	for i := range waiting {
		if leaf := s.Tree.LeafOf(waiting[i].Queue); leaf >= 0 {
			askers = append(askers, fairshare.Asker{Leaf: leaf, Request: waiting[i].Request.vector(s.Names, 0), Shares: s.entitled(waiting[i].Kind)})
		}
	}
	next, ok := s.Standing.Next(askers, s.byLeaf(underway))
	if !ok {
		return "", false
	}
	return s.Tree.Queue(next).Name, true
}

// HasLeaf reports whether work can be in a queue.
func (s *Standing) HasLeaf(name string) bool { return s.Tree.LeafOf(name) >= 0 }

// Within is for how many of some pods of a leaf, the first ones, its fair share and those of the queues above it have
// room, given the kinds of the pods. Underway is what counts as allocated beside what is, by leaf.
func (s *Standing) Within(leaf string, requests []Amounts, underway map[string]Amounts, kinds ...string) int {
	at, ok := s.Tree.Find(leaf)
	if !ok {
		return len(requests)
	}
	vectors := make([]fairshare.Amounts, len(requests))
	for i, request := range requests {
		vectors[i] = request.vector(s.Names, 0)
	}
	return s.in(kinds...).Within(at, vectors, s.byLeaf(underway))
}

// entitled are the shares that count for pods of some kinds: of what they can reach, with what each queue has elsewhere.
func (s *Standing) entitled(kinds ...string) []fairshare.Amounts {
	if p := s.PlaceOf(kinds...); p != nil {
		return p.Entitled
	}
	return s.Shares
}

// in is the standing with the shares that count for pods of some kinds.
func (s *Standing) in(kinds ...string) *fairshare.Standing {
	out := s.Standing
	out.Shares = s.entitled(kinds...)
	return &out
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
