package queue

import "github.com/reprieve-dev/reprieve/internal/core/fairshare"

// Asker is a queue with waiting work, and the request of the next workload in the queue.
type Asker struct {
	Queue   string
	Request Amounts
	// Kind is the result of [KindOf] for the pods of the workload; "" if unknown.
	Kind string
}

// Next returns the leaf whose workload is admitted next; see [fairshare.Balance.Next]. underway is
// the request of admitted work without a node, by leaf. Next returns false if the tree has none of
// the leaves.
func (s *Snapshot) Next(waiting []Asker, underway map[string]Amounts) (string, bool) {
	askers := make([]fairshare.Asker, 0, len(waiting))
	for i := range waiting {
		if leaf := s.Tree.LeafOf(waiting[i].Queue); leaf >= 0 {
			askers = append(askers, fairshare.Asker{Leaf: leaf, Request: waiting[i].Request.vector(s.Names, 0), Shares: s.entitled(waiting[i].Kind)})
		}
	}
	next, ok := s.Balance.Next(askers, s.byLeaf(underway))
	if !ok {
		return "", false
	}
	return s.Tree.Queue(next).Name, true
}

// HasLeaf reports whether a queue is a leaf of the tree.
func (s *Snapshot) HasLeaf(name string) bool { return s.Tree.LeafOf(name) >= 0 }

// Within returns how many pods of a leaf, counted from the first, fit in its fair share and the
// shares of the queues above it. kinds are the kinds of the pods. underway is usage to add to the
// allocated usage, by leaf. If the tree does not have the leaf, all pods fit.
func (s *Snapshot) Within(leaf string, requests []Amounts, underway map[string]Amounts, kinds ...string) int {
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

// entitled returns the shares that count for pods of the given kinds. For each queue, this is its
// share of the nodes that such pods can use, plus its usage on other nodes.
func (s *Snapshot) entitled(kinds ...string) []fairshare.Amounts {
	if p := s.PlaceOf(kinds...); p != nil {
		return p.Entitled
	}
	return s.Shares
}

// in returns a Balance with the shares that count for pods of the given kinds.
func (s *Snapshot) in(kinds ...string) *fairshare.Balance {
	out := s.Balance
	out.Shares = s.entitled(kinds...)
	return &out
}

// byLeaf converts amounts by queue name to vectors by index. It omits queues that are not in the
// tree.
func (s *Snapshot) byLeaf(amounts map[string]Amounts) map[int32]fairshare.Amounts {
	out := make(map[int32]fairshare.Amounts, len(amounts))
	for name, a := range amounts {
		if q, ok := s.Tree.Find(name); ok {
			out[q] = a.vector(s.Names, 0)
		}
	}
	return out
}
