package fairshare

import "math"

// network is a small flow network. Node 0 is the source, node 1 is the sink.
type network struct {
	edges []edge
	// of has, for each node, the indexes of the edges that begin there.
	of [][]int
	// depth and next are memory for maximize.
	depth, next []int
}

// edge is one direction of a connection. The indexes of the two directions differ only in the last
// bit.
type edge struct {
	to   int
	room int64
}

const (
	source = iota
	sink
	firstInner
)

func newNetwork(inner int) *network {
	n := firstInner + inner
	return &network{of: make([][]int, n), depth: make([]int, n), next: make([]int, n)}
}

// join adds an edge with the given capacity.
func (n *network) join(from, to int, capacity int64) {
	n.of[from] = append(n.of[from], len(n.edges))
	n.of[to] = append(n.of[to], len(n.edges)+1)
	n.edges = append(n.edges, edge{to: to, room: capacity}, edge{to: from})
}

// maximize computes a maximum flow from the source to the sink, with Dinic's algorithm.
func (n *network) maximize() {
	for n.level() {
		clear(n.next)
		for pushed := n.push(source, math.MaxInt64); pushed > 0; {
			pushed = n.push(source, math.MaxInt64)
		}
	}
}

// level computes the distance of each node from the source, along edges with remaining capacity. It
// reports whether such a path reaches the sink.
func (n *network) level() bool {
	for i := range n.depth {
		n.depth[i] = -1
	}
	n.depth[source] = 0
	queue := []int{source}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, i := range n.of[at] {
			if e := &n.edges[i]; e.room > 0 && n.depth[e.to] < 0 {
				n.depth[e.to] = n.depth[at] + 1
				queue = append(queue, e.to)
			}
		}
	}
	return n.depth[sink] >= 0
}

// push sends at most the given amount from a node to the sink. It returns the amount that arrives.
func (n *network) push(at int, most int64) int64 {
	if at == sink {
		return most
	}
	for ; n.next[at] < len(n.of[at]); n.next[at]++ {
		i := n.of[at][n.next[at]]
		e := &n.edges[i]
		if e.room <= 0 || n.depth[e.to] != n.depth[at]+1 {
			continue
		}
		if sent := n.push(e.to, min(most, e.room)); sent > 0 {
			n.edges[i].room -= sent
			n.edges[i^1].room += sent
			return sent
		}
	}
	return 0
}

// short reports whether the source can still send more to a node, in a maximum flow. The flow is
// then limited by edges between this node and the sink.
func (n *network) short(node int) bool { return n.depth[node] >= 0 }
