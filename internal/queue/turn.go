package queue

import "github.com/reprieve-dev/reprieve/internal/core/fairshare"

// Asker is a queue with waiting work, and the request of the first workload that waits in it.
type Asker struct {
	Queue   string
	Request Amounts
	// Kind is the result of [KindOf] for the pods of the workload; "" if unknown.
	Kind string
}

// Next returns the leaf queue whose workload is admitted next; see [fairshare.Balance.Next].
// underway maps leaf queues to the requests of admitted work without a node. Next returns false if
// the tree has none of the waiting queues.
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

// Within returns how many of the requests of a leaf queue, from the first on, fit into its fair
// share and the shares of its ancestors. kinds are the kinds of the pods. underway maps leaf queues
// to additional usage. If the tree does not have the leaf, all requests fit.
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

// entitled returns the amount that each queue is entitled to, for pods of the given kinds. It is
// the queue's share of the nodes that such pods can use, plus its usage on other nodes.
func (s *Snapshot) entitled(kinds ...string) []fairshare.Amounts {
	if p := s.PlaceOf(kinds...); p != nil {
		return p.Entitled
	}
	return s.Shares
}

// in returns a Balance whose shares are the result of [Snapshot.entitled] for the given kinds.
func (s *Snapshot) in(kinds ...string) *fairshare.Balance {
	out := s.Balance
	out.Shares = s.entitled(kinds...)
	return &out
}

// byLeaf converts amounts by queue name to vectors by index in the tree. It leaves out queues that
// are not in the tree.
func (s *Snapshot) byLeaf(amounts map[string]Amounts) map[int32]fairshare.Amounts {
	out := make(map[int32]fairshare.Amounts, len(amounts))
	for name, a := range amounts {
		if q, ok := s.Tree.Find(name); ok {
			out[q] = a.vector(s.Names, 0)
		}
	}
	return out
}
